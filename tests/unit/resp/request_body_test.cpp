#include <gtest/gtest.h>

#include <string>

#include "resp/request_parser.h"
#include "resp/writer.h"
#include "tests/unit/resp/request_driver.h"

namespace keyferry::resp {
namespace {

using testing::BodyMode;
using testing::drive;
using testing::Outcome;
using Event = RequestParser::Event;
using Command = std::vector<std::string>;

RequestLimits limits_with(uint64_t threshold, uint64_t max_command = 64ULL * 1024 * 1024) {
  RequestLimits limits;
  limits.body_threshold = threshold;
  limits.max_command_bytes = max_command;
  return limits;
}

const std::string kHead = "*3\r\n$12\r\nBLOB.TCP_SET\r\n$3\r\nkey\r\n$100000\r\n";

TEST(RequestBody, R11ALargeArgumentIsOfferedAsSoonAsItsHeaderIsThere) {
  RequestParser parser;
  EXPECT_EQ(parser.parse(kHead.substr(0, kHead.size() - 1)), Event::kNeedMore);
  ASSERT_EQ(parser.parse(kHead), Event::kBody);
  EXPECT_EQ(parser.body_length(), 100000U);
  EXPECT_EQ(parser.body_offset(), kHead.size());
  EXPECT_EQ(parser.body_index(), 2U);
  EXPECT_EQ(parser.argc(), 3U);
  EXPECT_FALSE(parser.must_stream());
  ASSERT_EQ(parser.args(kHead).size(), 2U);
  EXPECT_EQ(parser.args(kHead)[0], "BLOB.TCP_SET");
  EXPECT_EQ(parser.args(kHead)[1], "key");
}

TEST(RequestBody, TheThresholdItselfIsNotLarge) {
  const std::string head = "*1\r\n$65536\r\n";
  EXPECT_EQ(RequestParser().parse(head), Event::kNeedMore);
  EXPECT_EQ(RequestParser().parse("*1\r\n$65537\r\n"), Event::kBody);
}

TEST(RequestBody, ABodyMayBeBuffered) {
  RequestParser parser;
  ASSERT_EQ(parser.parse(kHead), Event::kBody);
  EXPECT_EQ(parser.parse(kHead), Event::kNeedMore);
  const std::string input = kHead + std::string(100000, 'v') + "\r\nrest";
  ASSERT_EQ(parser.parse(input), Event::kCommand);
  EXPECT_EQ(parser.size(), input.size() - 4);
  EXPECT_EQ(parser.args(input)[2], std::string(100000, 'v'));
}

TEST(RequestBody, ABodyMayBeTakenByTheCallerAndTheRestParsed) {
  RequestParser parser(limits_with(4));
  const std::string head = "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$6\r\n";
  ASSERT_EQ(parser.parse(head + "abc"), Event::kBody);
  EXPECT_EQ(parser.body_offset(), head.size());
  ASSERT_TRUE(parser.body_ends_well("\r\n"));
  parser.body_taken();
  const std::string rest = "$2\r\nEX\r\n$2\r\n10\r\nnext";
  ASSERT_EQ(parser.parse(rest), Event::kCommand);
  EXPECT_EQ(parser.size(), rest.size() - 4) << "counted from the new input's start";
  ASSERT_EQ(parser.args(rest).size(), 2U) << "only those behind the body";
  EXPECT_EQ(parser.args(rest)[0], "EX");
  EXPECT_EQ(parser.argc(), 5U);
}

TEST(RequestBody, TakingTheLastBodyEndsTheCommand) {
  RequestParser parser(limits_with(4));
  ASSERT_EQ(parser.parse("*1\r\n$6\r\n"), Event::kBody);
  EXPECT_EQ(parser.body_index() + 1, parser.argc());
  parser.body_taken();
  EXPECT_EQ(parser.argc(), 0U);
  EXPECT_EQ(parser.parse("*1\r\n$4\r\nPING\r\n"), Event::kCommand);
}

TEST(RequestBody, SeveralBodiesInOneCommandAreOfferedOneAfterTheOther) {
  std::string input;
  append_command(input, {"MSET", "a", "0123456789", "b", "9876543210"});
  const Outcome outcome = drive(input, limits_with(5), BodyMode::kTake);
  EXPECT_EQ(outcome.commands, (std::vector<Command>{{"MSET", "a", "0123456789", "b", "9876543210"}}));
  EXPECT_EQ(outcome.bodies, (std::vector<size_t>{10, 10}));
}

TEST(RequestBody, ABodyWithoutItsCrlfIsAProtocolErrorInEveryMode) {
  for (const BodyMode mode : {BodyMode::kBuffer, BodyMode::kTake, BodyMode::kStream}) {
    for (const char* end : {"xx", "\rx", "\n\n"}) {
      const Outcome outcome = drive(std::string("*1\r\n$6\r\nabcdef") + end, limits_with(4), mode);
      EXPECT_EQ(outcome.error, "Protocol error: invalid CRLF in request");
      EXPECT_TRUE(outcome.commands.empty());
    }
  }
}

TEST(RequestBody, AStreamEndsExactlyWithTheCommand) {
  std::string command;
  append_command(command, {"SET", "k", "0123456789", "EX", "", "a longer argument"});
  const std::string next = "*1\r\n$4\r\nPING\r\n";
  RequestParser parser(limits_with(5));
  ASSERT_EQ(parser.parse(command), Event::kBody);
  const size_t offset = parser.body_offset();
  parser.begin_stream();
  const auto step = parser.stream(std::string_view(command + next).substr(offset));
  EXPECT_TRUE(step.finished);
  EXPECT_FALSE(step.error);
  EXPECT_EQ(step.consumed, command.size() - offset);
  EXPECT_TRUE(parser.stream("abc").finished) << "the answer stays until next()";
  EXPECT_EQ(parser.stream("abc").consumed, 0U);
  parser.next();
  EXPECT_EQ(parser.parse(next), Event::kCommand);
}

TEST(RequestBody, AStreamMayStartAfterAnyByteThatTheCallerTook) {
  const std::string head = "*3\r\n$3\r\nSET\r\n$6\r\n";
  const std::string tail = "abcdef\r\n$2\r\nzz\r\n";
  const std::string last_head = "*2\r\n$3\r\nSET\r\n$6\r\n";
  const std::string last_tail = "abcdef\r\n";
  for (size_t taken = 0; taken <= 8; ++taken) {
    RequestParser parser(limits_with(4));
    ASSERT_EQ(parser.parse(head), Event::kBody);
    parser.begin_stream(taken);
    const auto step = parser.stream(std::string_view(tail).substr(taken));
    EXPECT_TRUE(step.finished && !step.error) << taken;
    EXPECT_EQ(step.consumed, tail.size() - taken);

    RequestParser last(limits_with(4));
    ASSERT_EQ(last.parse(last_head), Event::kBody);
    last.begin_stream(taken);
    EXPECT_EQ(last.stream("").finished, taken == 8) << taken;
    EXPECT_TRUE(last.stream(std::string_view(last_tail).substr(taken)).finished) << taken;
  }
}

TEST(RequestBody, AStreamChecksLaterHeaders) {
  const std::string start = "*2\r\n$6\r\nabcdef\r\n";
  const auto error = [&](const std::string& rest) {
    return drive(start + rest, limits_with(4), BodyMode::kStream).error;
  };
  EXPECT_EQ(error("$-1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error("$536870913\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error("?1\r\n"), "Protocol error: expected '$', got '?'");
  EXPECT_EQ(error("\r\n"), "Protocol error: expected '$', got ' '");
  EXPECT_EQ(error("$1\rx"), "Protocol error: invalid CRLF in request");
  EXPECT_EQ(error("$" + std::string(100, '1') + "\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error("$" + std::string(65536, '1')), "Protocol error: too big bulk count string");
}

TEST(RequestBody, R11ACommandThatOutgrowsItsBoundIsOfferedForStreamingAndNotBuffered) {
  std::string input;
  append_command(input, {"RPUSH", "list", "0123456789", "0123456789", "0123456789"});
  const RequestLimits limits = limits_with(1000, 60);
  RequestParser parser(limits);
  ASSERT_EQ(parser.parse(input), Event::kBody);
  EXPECT_TRUE(parser.must_stream());
  EXPECT_EQ(parser.body_index(), 4U);
  EXPECT_EQ(parser.parse(input), Event::kError);
  EXPECT_EQ(parser.error(), "Protocol error: command exceeds the buffer limit");
  const Outcome streamed = drive(input, limits, BodyMode::kStream);
  EXPECT_EQ(streamed.ends, (std::vector<size_t>{input.size()}));
  EXPECT_EQ(streamed.error, "");
}

TEST(RequestBody, TheBoundOfACommandIsTheByteCountOfItsBuffer) {
  std::string input;
  append_command(input, {"SET", "key", "0123456789"});
  EXPECT_EQ(drive(input, limits_with(1000, input.size())).commands.size(), 1U);
  EXPECT_EQ(drive(input, limits_with(1000, input.size() - 1)).error,
            "Protocol error: command exceeds the buffer limit");
}

TEST(RequestBody, MisuseIsAnErrorAndNotACrash) {
  RequestParser idle;
  idle.body_taken();
  idle.begin_stream();
  EXPECT_TRUE(idle.stream("abc").error);
  EXPECT_FALSE(idle.error().empty());

  RequestParser streaming(limits_with(4));
  ASSERT_EQ(streaming.parse("*1\r\n$6\r\n"), Event::kBody);
  streaming.begin_stream(1000);
  EXPECT_EQ(streaming.parse("*1\r\n$6\r\n"), Event::kError);

  RequestParser shrunk;
  EXPECT_EQ(shrunk.parse("*1\r\n$6\r\nab"), Event::kNeedMore);
  EXPECT_EQ(shrunk.parse("*1"), Event::kNeedMore);
}

}  // namespace
}  // namespace keyferry::resp
