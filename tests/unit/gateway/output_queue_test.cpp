#include "gateway/output_queue.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/crc32c.h"
#include "transfer/checked_value.h"

namespace keyferry::gateway {
namespace {

/// Counts what comes back, as the engine would.
class CountingOwner : public transfer::Loan::Owner {
 public:
  void returned(std::uint64_t) override { ++count; }
  std::atomic<int> count = 0;
};

class OutputQueueTest : public testing::Test {
 protected:
  transfer::SharedValue value(std::vector<std::string>& parts) {
    std::vector<base::MutableBytes> spans;
    std::uint64_t length = 0;
    std::uint32_t crc = 0;
    for (std::string& part : parts) {
      spans.emplace_back(reinterpret_cast<std::byte*>(part.data()), part.size());
      length += part.size();
      crc = base::crc32c(base::as_bytes(part), crc);
    }
    transfer::Checker checker({transfer::Loan(owner, 1, spans, length), length, crc}, 3);
    while (!checker.step()) {
    }
    return std::make_shared<const transfer::CheckedValue>(std::move(*checker.take()));
  }

  /// Takes `most` bytes as a socket would.
  std::string take(std::size_t most, std::size_t spans = 64) {
    std::string taken;
    for (const base::ConstBytes& span : output.gather(spans, 1000)) taken.append(base::as_text(span));
    taken.resize(std::min(most, taken.size()));
    output.written(taken.size());
    return taken;
  }

  std::shared_ptr<CountingOwner> owner = std::make_shared<CountingOwner>();
  OutputQueue output;
};

TEST_F(OutputQueueTest, AValueLeavesAsOneBulkStringWhateverTheSocketTakesAtATime) {
  for (std::size_t at_a_time = 1; at_a_time < 20; ++at_a_time) {
    std::vector<std::string> parts{"first region,", "second,", "third"};
    output.append("+OK\r\n");
    output.append_value(value(parts));
    output.append(":1\r\n");
    std::string all;
    while (!output.empty()) all += take(at_a_time, 1 + at_a_time % 3);
    EXPECT_EQ(all, "+OK\r\n$25\r\nfirst region,second,third\r\n:1\r\n") << at_a_time;
    EXPECT_EQ(output.buffered(), 0U);
    EXPECT_FALSE(output.holds_value());
  }
}

TEST_F(OutputQueueTest, OneWriteIsBoundedWhateverIsQueued) {
  std::vector<std::string> parts{"first region,", "second,", "third"};
  output.append_value(value(parts));
  std::string all;
  while (!output.empty()) {
    std::size_t bytes = 0;
    for (const base::ConstBytes& span : output.gather(64, 7)) {
      EXPECT_FALSE(span.empty());
      all.append(base::as_text(span));
      bytes += span.size();
    }
    EXPECT_LE(bytes, 7U);
    output.written(bytes);
  }
  EXPECT_EQ(all, "$25\r\nfirst region,second,third\r\n");
}

TEST_F(OutputQueueTest, TheLeaseGoesBackWithTheValuesLastByteAndNotBefore) {
  std::vector<std::string> parts{"abcdef"};
  output.append_value(value(parts));
  EXPECT_TRUE(output.holds_value());
  take(4 + 5);
  EXPECT_EQ(owner->count, 0);
  take(1);
  EXPECT_EQ(owner->count, 1) << "its last byte was taken, though the CR LF behind it was not";
  EXPECT_EQ(take(100), "\r\n");
}

TEST_F(OutputQueueTest, AValueThatTwoClientsShareGoesBackWithTheSlowerOne) {
  std::vector<std::string> parts{"abc", "def"};
  OutputQueue other;
  transfer::SharedValue shared = value(parts);
  output.append_value(shared);
  other.append_value(std::move(shared));
  EXPECT_EQ(take(100), "$6\r\nabcdef\r\n");
  EXPECT_EQ(owner->count, 0) << "the other one reads from it";
  EXPECT_EQ(other.gather(64, 1000)[1].data(), reinterpret_cast<const std::byte*>(parts[0].data())) << "not a copy";
  other.clear();
  EXPECT_EQ(owner->count, 1);
}

TEST_F(OutputQueueTest, WhatIsLentToAWriteDoesNotMoveWhenMoreComes) {
  output.append("lent");
  const base::ConstBytes lent = output.gather(64, 1000).front();
  const std::byte* where = lent.data();
  for (int i = 0; i < 1000; ++i) output.append("more and more bytes");
  EXPECT_EQ(output.gather(64, 1000).front().data(), where);
  EXPECT_EQ(base::as_text(lent), "lent");
}

TEST_F(OutputQueueTest, FittingDropsNothing) {
  output.append("abc");
  output.fit();
  EXPECT_EQ(take(100), "abc");
  output.fit();
  output.append("def");
  EXPECT_EQ(take(100), "def");
}

TEST_F(OutputQueueTest, ClearingGivesTheLeasesBack) {
  std::vector<std::string> parts{"abc"};
  output.append_value(value(parts));
  output.clear();
  EXPECT_EQ(owner->count, 1);
  EXPECT_TRUE(output.empty());
}

}  // namespace
}  // namespace keyferry::gateway
