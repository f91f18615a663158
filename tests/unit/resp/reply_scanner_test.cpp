#include "resp/reply_scanner.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "resp/writer.h"
#include "tests/unit/resp/reply_samples.h"

namespace keyferry::resp {
namespace {

using testing::broken_frames;
using testing::good_frames;
using Event = ReplyScanner::Step::Event;

struct Frame {
  size_t end;
  char type;
  uint64_t largest;
  bool operator==(const Frame&) const = default;
};

struct Scan {
  std::vector<Frame> frames;
  std::string error;
  bool at_start = true;
  bool operator==(const Scan&) const = default;
};

/// Scans `input` in the pieces that the ascending `cuts` make of it.
Scan scan(std::string_view input, const std::vector<size_t>& cuts = {}, const ReplyLimits& limits = {}) {
  ReplyScanner scanner(limits);
  Scan result;
  size_t at = 0;
  std::vector<size_t> ends = cuts;
  ends.push_back(input.size());
  for (const size_t end : ends) {
    while (at < end) {
      const auto step = scanner.scan(input.substr(at, end - at));
      at += step.consumed;
      if (step.event == Event::kFrameEnd) result.frames.push_back({at, scanner.type(), scanner.largest_body()});
      if (step.event == Event::kError) {
        result.error = scanner.error();
        return result;
      }
    }
  }
  result.at_start = scanner.at_frame_start();
  return result;
}

TEST(ReplyScanner, EveryTypeEndsWhereItEnds) {
  for (const std::string& frame : good_frames()) {
    const Scan result = scan(frame + frame);
    ASSERT_EQ(result.error, "") << frame;
    ASSERT_EQ(result.frames.size(), 2U) << frame;
    EXPECT_EQ(result.frames[0].end, frame.size()) << frame;
    EXPECT_EQ(result.frames[1].end, 2 * frame.size()) << frame;
    EXPECT_TRUE(result.at_start) << frame;
    EXPECT_TRUE(scan(frame.substr(0, frame.size() - 1)).frames.empty()) << frame;
  }
}

TEST(ReplyScanner, R9CutAtEveryPairOfBytesTheFramesAreTheSame) {
  std::vector<std::string> inputs = good_frames();
  inputs.insert(inputs.end(), broken_frames().begin(), broken_frames().end());
  for (const std::string& frame : inputs) {
    const std::string input = "+a\r\n" + frame + "$3\r\nend\r\n";
    const Scan whole = scan(input);
    std::vector<size_t> every;
    for (size_t first = 0; first < input.size(); ++first) {
      every.push_back(first);
      for (size_t second = first; second < input.size(); ++second) {
        ASSERT_EQ(scan(input, {first, second}), whole) << input << " cut at " << first << ", " << second;
      }
    }
    ASSERT_EQ(scan(input, every), whole) << input << " byte by byte";
  }
}

TEST(ReplyScanner, R9RandomRepliesInRandomPieces) {
  std::mt19937 random(77);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  for (int round = 0; round < 500; ++round) {
    std::string input;
    std::vector<size_t> ends;
    for (size_t i = 1 + below(20); i > 0; --i) {
      input += good_frames()[below(good_frames().size())];
      ends.push_back(input.size());
    }
    std::vector<size_t> cuts;
    for (size_t at = below(30); at < input.size(); at += 1 + below(30)) cuts.push_back(at);
    const Scan result = scan(input, cuts);
    ASSERT_EQ(result.error, "");
    ASSERT_EQ(result.frames.size(), ends.size());
    for (size_t i = 0; i < ends.size(); ++i) ASSERT_EQ(result.frames[i].end, ends[i]);
  }
}

TEST(ReplyScanner, BrokenFramingIsAnErrorAndStaysOne) {
  for (const std::string& frame : broken_frames()) {
    ReplyScanner scanner;
    EXPECT_EQ(scanner.scan(frame).event, Event::kError) << frame;
    EXPECT_FALSE(scanner.error().empty()) << frame;
    EXPECT_EQ(scanner.scan("+OK\r\n").event, Event::kError) << frame;
    EXPECT_FALSE(scanner.at_frame_start()) << frame;
  }
}

TEST(ReplyScanner, StreamedTypesAreRefusedByName) {
  for (const char* frame : {"$?\r\n", "*?\r\n", "%?\r\n", "~?\r\n", ";1\r\n"}) {
    EXPECT_NE(scan(frame).error.find("streamed"), std::string::npos) << frame;
  }
}

TEST(ReplyScanner, ABigNumberIsALineAsAScriptMayHavePutAnythingIntoIt) {
  const Scan result = scan("(123  123\r\n*1\r\n(x\r\n");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.frames.size(), 2U);
}

TEST(ReplyScanner, R5APushIsAFrameOfItsOwnAtEveryPositionOfAPipeline) {
  const std::string push = ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n";
  const std::vector<std::string> replies = {"+OK\r\n", "*2\r\n:1\r\n:2\r\n", "$3\r\nabc\r\n"};
  for (size_t position = 0; position <= replies.size(); ++position) {
    std::string input;
    for (size_t i = 0; i <= replies.size(); ++i) {
      if (i == position) input += push;
      if (i < replies.size()) input += replies[i];
    }
    const Scan result = scan(input);
    ASSERT_EQ(result.frames.size(), 4U);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(result.frames[i].type == '>', i == position);
  }
}

TEST(ReplyScanner, APushInsideAnAggregateIsAnElement) {
  const Scan result = scan("*2\r\n>1\r\n+subscribe\r\n:1\r\n+OK\r\n");
  ASSERT_EQ(result.frames.size(), 2U);
  EXPECT_EQ(result.frames[0].type, '*');
  EXPECT_EQ(result.frames[1].type, '+');
}

TEST(ReplyScanner, AnAttributeBelongsToTheFrameBehindItAndIsNotItsType) {
  ReplyScanner scanner;
  EXPECT_EQ(scanner.scan("|1\r\n+ttl\r\n:5\r\n").event, Event::kNeedMore);
  EXPECT_EQ(scanner.type(), 0);
  EXPECT_FALSE(scanner.at_frame_start());
  EXPECT_EQ(scanner.scan(">").event, Event::kNeedMore);
  EXPECT_EQ(scanner.type(), '>');
  EXPECT_EQ(scanner.scan("1\r\n+x\r\n").event, Event::kFrameEnd);
  EXPECT_EQ(scanner.type(), '>') << "of the last frame";
  EXPECT_TRUE(scanner.at_frame_start());
}

TEST(ReplyScanner, TellsOfALargeReplyFromItsHeader) {
  ReplyScanner scanner;
  EXPECT_EQ(scanner.scan("*2\r\n$3\r\nabc\r\n").event, Event::kNeedMore);
  EXPECT_EQ(scanner.largest_body(), 3U);
  EXPECT_EQ(scanner.scan("$536870912\r\n").event, Event::kNeedMore);
  EXPECT_EQ(scanner.largest_body(), 536870912U);
  std::string mebibyte(1024 * 1024, 'x');
  for (int i = 0; i < 512; ++i) ASSERT_EQ(scanner.scan(mebibyte).consumed, mebibyte.size());
  const auto step = scanner.scan("\r\n+OK\r\n");
  EXPECT_EQ(step.event, Event::kFrameEnd);
  EXPECT_EQ(step.consumed, 2U);
  EXPECT_EQ(scanner.largest_body(), 536870912U);
  EXPECT_EQ(scanner.scan("+OK\r\n").event, Event::kFrameEnd);
  EXPECT_EQ(scanner.largest_body(), 0U) << "starts anew with each frame";
}

TEST(ReplyScanner, NestingIsBounded) {
  const auto nested = [](size_t depth) {
    std::string input;
    for (size_t i = 0; i < depth; ++i) input += "*1\r\n";
    return input + ":1\r\n";
  };
  EXPECT_EQ(scan(nested(128)).frames.size(), 1U);
  EXPECT_NE(scan(nested(129)).error, "");
  std::string attributes;
  for (size_t i = 0; i < 129; ++i) attributes += "|1\r\n";
  EXPECT_NE(scan(attributes).error, "");
}

TEST(ReplyScanner, CountsAndLengthsAreBoundedOnTheHeader) {
  ReplyLimits limits;
  limits.max_bulk = 10;
  limits.max_count = 3;
  EXPECT_EQ(scan("$10\r\n", {}, limits).error, "");
  EXPECT_NE(scan("$11\r\n", {}, limits).error, "");
  EXPECT_NE(scan("!11\r\n", {}, limits).error, "");
  EXPECT_NE(scan("=11\r\n", {}, limits).error, "");
  for (const char type : {'*', '%', '~', '>', '|'}) {
    EXPECT_EQ(scan(std::string(1, type) + "3\r\n", {}, limits).error, "") << type;
    EXPECT_NE(scan(std::string(1, type) + "4\r\n", {}, limits).error, "") << type;
  }
}

TEST(ReplyScanner, R135BulksAroundEveryPowerOfTwo) {
  for (size_t power = 9; power <= 17; ++power) {
    for (const int delta : {-1, 0, 1}) {
      const size_t length = (size_t{1} << power) + static_cast<size_t>(delta);
      std::string input;
      append_bulk(input, std::string(length, '\r'));
      const size_t end = input.size();
      input += "+OK\r\n";
      for (const size_t cut : {size_t{16384}, size_t{16385}, size_t{65536}, length, end - 1, end}) {
        const Scan result = scan(input, {std::min(cut, input.size())});
        ASSERT_EQ(result.frames, (std::vector<Frame>{{end, '$', length}, {input.size(), '+', 0}}))
            << length << " cut at " << cut;
      }
    }
  }
}

}  // namespace
}  // namespace keyferry::resp
