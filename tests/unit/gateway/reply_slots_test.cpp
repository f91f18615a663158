#include "gateway/reply_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace keyferry::gateway {
namespace {

std::string drain(OutputQueue& output) {
  std::string all;
  while (!output.empty()) {
    std::size_t bytes = 0;
    for (const base::ConstBytes& span : output.gather(4, 1000)) {
      all.append(base::as_text(span));
      bytes += span.size();
    }
    output.written(bytes);
  }
  return all;
}

using Mark = ReplySlots::Mark;

class ReplySlotsTest : public testing::Test {
 protected:
  SlotTag open() { return slots.open(CommandClass::kOrdinary, base::TimePoint{}, Mark::kNothing); }
  OutputQueue output;
  transfer::WriteMarks marks{{"fixed:"}};
  ReplySlots slots{output, marks};
};

TEST_F(ReplySlotsTest, R9RepliesLeaveInTheOrderOfTheCommandsWhateverOrderTheyComeIn) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<SlotTag> tags;
    std::string expected;
    for (int i = 0; i < 20; ++i) {
      tags.push_back(open());
      expected += ":" + std::to_string(i) + "\r\n";
    }
    std::vector<int> order(20);
    for (int i = 0; i < 20; ++i) order[static_cast<std::size_t>(i)] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (const int i : order) {
      slots.append(tags[static_cast<std::size_t>(i)], ":" + std::to_string(i));
      slots.append(tags[static_cast<std::size_t>(i)], "\r\n");
      slots.finish(tags[static_cast<std::size_t>(i)]);
    }
    EXPECT_EQ(drain(output), expected);
    EXPECT_EQ(slots.open_count(), 0U);
    EXPECT_EQ(slots.buffered(), 0U);
  }
}

TEST_F(ReplySlotsTest, TheOldestStreamsAndTheOthersWait) {
  const SlotTag first = open();
  const SlotTag second = open();
  slots.append(second, "second");
  EXPECT_TRUE(output.empty());
  EXPECT_EQ(slots.buffered(), 6U);
  slots.append(first, "fir");
  EXPECT_EQ(drain(output), "fir");
  slots.append(first, "st ");
  slots.finish(first);
  EXPECT_EQ(drain(output), "st second") << "the next one's bytes leave although it is not finished";
  slots.append(second, "!");
  EXPECT_EQ(drain(output), "!");
}

TEST_F(ReplySlotsTest, R20WhatHasNotLeftCanBeTakenBackAndWhatHasLeftCanNot) {
  const SlotTag first = open();
  const SlotTag second = open();
  slots.append(first, "$100\r\nhalf");
  slots.append(second, "$100\r\nhalf");
  EXPECT_FALSE(slots.retract(first));
  EXPECT_TRUE(slots.retract(second));
  slots.append(second, "-ERR lost\r\n");
  slots.finish(second);
  slots.finish(first);
  EXPECT_EQ(drain(output), "$100\r\nhalf-ERR lost\r\n");
}

TEST_F(ReplySlotsTest, AWriteIsToldBeforeItIsSentAndBeforeItsReplyCanBeSeen) {
  const std::vector<std::string_view> args{"fixed:key"};
  const std::uint64_t before = marks.state("fixed:key");
  const SlotTag tag = slots.open(CommandClass::kOrdinary, base::TimePoint{}, marks.mark_of(args));
  const std::uint64_t sent = marks.state("fixed:key");
  EXPECT_NE(sent, before);
  slots.append(tag, "+OK\r\n");
  const std::uint64_t answered = marks.state("fixed:key");
  EXPECT_NE(answered, sent);
  slots.finish(tag);
  slots.open(CommandClass::kOrdinary, base::TimePoint{}, marks.mark_of(args));
  const std::uint64_t again = marks.state("fixed:key");
  slots.clear();
  EXPECT_NE(marks.state("fixed:key"), again) << "its client goes away";
}

TEST_F(ReplySlotsTest, FittingKeepsOpenRepliesAndThoseThatComeAfterIt) {
  std::string expected;
  for (int round = 0; round < 3; ++round) {
    std::vector<SlotTag> tags;
    for (int i = 0; i < 300; ++i) tags.push_back(open());
    slots.fit();
    EXPECT_EQ(slots.open_count(), 300U);
    for (auto tag = tags.rbegin(); tag != tags.rend(); ++tag) {
      slots.append(*tag, std::to_string(*tag) + ".");
      slots.finish(*tag);
    }
    for (const SlotTag tag : tags) expected += std::to_string(tag) + ".";
    slots.fit();
    EXPECT_EQ(slots.open_count(), 0U);
  }
  EXPECT_EQ(drain(output), expected);
}

TEST_F(ReplySlotsTest, TheOldestOpenCommandTellsItsAge) {
  EXPECT_FALSE(slots.oldest().has_value());
  const auto early = base::TimePoint(std::chrono::seconds(1));
  const SlotTag tag = slots.open(CommandClass::kBulk, early, Mark::kNothing);
  slots.open(CommandClass::kOrdinary, base::TimePoint(std::chrono::seconds(2)), Mark::kNothing);
  EXPECT_EQ(slots.oldest(), early);
  slots.finish(tag);
  EXPECT_EQ(slots.oldest(), base::TimePoint(std::chrono::seconds(2)));
}

}  // namespace
}  // namespace keyferry::gateway
