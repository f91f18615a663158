#include "resp/request_parser.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "resp/writer.h"
#include "tests/unit/resp/request_driver.h"

namespace keyferry::resp {
namespace {

using testing::BodyMode;
using testing::drive;
using testing::Outcome;
using Event = RequestParser::Event;
using Command = std::vector<std::string>;

std::string error_of(std::string_view input, const RequestLimits& limits = {}) {
  return drive(input, limits).error;
}

/// Small bounds, so that short inputs reach every branch.
RequestLimits small_limits() {
  RequestLimits limits;
  limits.max_args = 20;
  limits.max_bulk = 200;
  limits.max_inline = 40;
  limits.body_threshold = 8;
  return limits;
}

/// Requests, good and bad, that together reach every state.
const std::vector<std::string>& samples() {
  static const std::vector<std::string> all = {
      "*1\r\n$4\r\nPING\r\n",
      "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
      "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$20\r\n01234567890123456789\r\n*1\r\n$4\r\nPING\r\n",
      "*5\r\n$3\r\nSET\r\n$9\r\nlong key!\r\n$12\r\n\r\n\r\n*1\r\n$4\r\n\r\n$2\r\nEX\r\n$2\r\n10\r\n",
      "*2\r\n$0\r\n\r\n$0\r\n\r\n",
      "PING\r\n",
      "PING\nECHO \"a b\" 'c d' \"\\x41\\n\"\r\n*1\r\n$4\r\nQUIT\r\n",
      "\r\n\n   \r\n*0\r\n*-1\r\nPING\r\n",
      "*1\r\n$-1\r\n",
      "*1\r\n$201\r\n",
      "*21\r\n",
      "*x\r\n",
      "*1\r\nxyz\r\n",
      "*1\r\n\r\n",
      "*1\r\n$4\r\nPINGxx",
      "*1\r\n$4\r\nPING\rx",
      "*1\rx",
      "*1\r\n$4\rx",
      "*2\r\n$12\r\nabcdefghijkl\r\n$x\r\n",
      "*2\r\n$12\r\nabcdefghijkl\r\n+ab\r\n",
      "*2\r\n$12\r\nabcdefghijkl\r\n$12\r\nabcdefghijklxx",
      "*2\r\n$12\r\nabcdefghijkl\r\n$000000000000000000000000000000000000000000000000000\r\n",
      "*00000000000000000000000000000000000000000000000000\r\n",
      "*1\r\n$00000000000000000000000000000000000000000000000000\r\n",
      "*1\r\n$00000000000000000000000000000000000\r\n",
      "GET 'unbalanced\r\n",
      "a line that is longer than forty bytes will not pass\r\n",
  };
  return all;
}

TEST(RequestParser, AnArrayOfBulksIsACommand) {
  RequestParser parser;
  const std::string input = "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\nnext";
  ASSERT_EQ(parser.parse(input), Event::kCommand);
  EXPECT_EQ(parser.size(), input.size() - 4);
  EXPECT_EQ(parser.argc(), 2U);
  EXPECT_FALSE(parser.is_inline());
  const auto args = parser.args(input);
  ASSERT_EQ(args.size(), 2U);
  EXPECT_EQ(args[0], "GET");
  EXPECT_EQ(args[1], "key");
  EXPECT_EQ(args[1].data(), input.data() + 17) << "a view into the input, not a copy";
}

TEST(RequestParser, AnswersAgainWhenAskedAgain) {
  RequestParser parser;
  EXPECT_EQ(parser.parse("*1\r\n$4\r\nPING\r\n"), Event::kCommand);
  EXPECT_EQ(parser.parse("*1\r\n$4\r\nPING\r\n"), Event::kCommand);
  parser.next();
  EXPECT_EQ(parser.parse("\r\n"), Event::kSkip);
  EXPECT_EQ(parser.parse("\r\n"), Event::kSkip);
  parser.next();
  EXPECT_EQ(parser.parse(""), Event::kNeedMore);
  EXPECT_EQ(parser.parse("*x\r\n"), Event::kError);
  parser.next();
  EXPECT_EQ(parser.parse("PING\r\n"), Event::kError) << "an error is final";
}

TEST(RequestParser, TheBufferMayMoveBetweenCalls) {
  RequestParser parser;
  const std::string first = "*2\r\n$4\r\nECHO\r\n$5\r\nhe";
  EXPECT_EQ(parser.parse(first), Event::kNeedMore);
  const std::string second = first + "llo\r\n";
  ASSERT_EQ(parser.parse(second), Event::kCommand);
  EXPECT_EQ(parser.args(second)[0].data(), second.data() + 8);
}

TEST(RequestParser, ArgumentsReadSoFarAreVisibleBeforeTheCommandIsWhole) {
  RequestParser parser;
  const std::string input = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nva";
  EXPECT_EQ(parser.parse(input), Event::kNeedMore);
  EXPECT_EQ(parser.argc(), 3U);
  ASSERT_EQ(parser.args(input).size(), 2U);
  EXPECT_EQ(parser.args(input)[1], "key");
}

TEST(RequestParser, ArgumentsAreBinary) {
  const std::string bytes("\0\r\n$*\xff", 6);
  std::string input;
  append_command(input, {"SET", bytes, ""});
  EXPECT_EQ(drive(input, {}).commands, (std::vector<Command>{{"SET", bytes, ""}}));
}

TEST(RequestParser, R1ANegativeLengthInsideACommandIsAProtocolError) {
  EXPECT_EQ(error_of("*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*2\r\n$3\r\nGET\r\n$-1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*2\r\n$3\r\nGET\r\n$-2\r\n"), "Protocol error: invalid bulk length");
}

TEST(RequestParser, R2EmptyCommandsAreSkippedSilently) {
  const Outcome outcome = drive("*0\r\n*-1\r\n*-7\r\n\r\n\n \t \r\n*1\r\n$4\r\nPING\r\n", {});
  EXPECT_EQ(outcome.skips, 6U);
  EXPECT_EQ(outcome.commands, (std::vector<Command>{{"PING"}}));
  EXPECT_EQ(outcome.error, "");
}

TEST(RequestParser, R3InlineCommandsEndWithLfOrCrlf) {
  const Outcome outcome = drive("PING\r\nGET  key\nSET\ta  b \r\n", {});
  EXPECT_EQ(outcome.commands, (std::vector<Command>{{"PING"}, {"GET", "key"}, {"SET", "a", "b"}}));
  RequestParser parser;
  EXPECT_EQ(parser.parse("PING\r\n"), Event::kCommand);
  EXPECT_TRUE(parser.is_inline());
}

TEST(RequestParser, R3InlineQuoting) {
  const auto line = [](const std::string& text) { return drive(text + "\r\n", {}); };
  const auto one = [&](const std::string& text) {
    const Outcome outcome = line(text);
    return outcome.commands.size() == 1 && outcome.commands[0].size() == 1 ? outcome.commands[0][0]
                                                                           : "<" + outcome.error + ">";
  };
  EXPECT_EQ(one(R"("a b")"), "a b");
  EXPECT_EQ(one(R"('a b')"), "a b");
  EXPECT_EQ(one(R"("")"), "");
  EXPECT_EQ(one(R"("\n\r\t\b\a\\\"\q")"), "\n\r\t\b\a\\\"q");
  EXPECT_EQ(one(R"("\x41\xfF\x00z")"), std::string("A\xff\0z", 4));
  EXPECT_EQ(one(R"("\x4gh")"), "x4gh");
  EXPECT_EQ(one(R"('\n\x41\'')"), R"(\n\x41')");
  EXPECT_EQ(one(R"(pre"in side"post)"), "prein sidepost");
  EXPECT_EQ(one(R"('it''s')"), "its");
  EXPECT_EQ(one(R"("a'b")"), "a'b");
  EXPECT_EQ(one(" \t\v\f\ra"), "a") << "every blank in front of an argument is skipped";
  EXPECT_EQ(one("a\vb"), "a\vb") << "a vertical tab ends no argument, as in the server";
  EXPECT_EQ(one(R"("abc\")"), R"(abc\)") << "an escape needs a byte behind it, as in Valkey 9";
  EXPECT_EQ(line(R"(SET "k 1" 'v 2')").commands, (std::vector<Command>{{"SET", "k 1", "v 2"}}));
  for (const char* open : {R"("abc)", R"('abc)", R"(")", R"(GET "a" ')", R"("\x4)"}) {
    EXPECT_EQ(line(open).error, "Protocol error: unbalanced quotes in request") << open;
  }
}

TEST(RequestParser, R3AnInlineLineHoldsAtMost64KiB) {
  const std::string fits(64 * 1024, 'a');
  EXPECT_EQ(drive(fits + "\n", {}).commands, (std::vector<Command>{{fits}}));
  EXPECT_EQ(error_of(fits + "a"), "Protocol error: too big inline request");
  EXPECT_EQ(error_of(fits), "") << "its end may still come";
  EXPECT_EQ(error_of(fits + "a\n"), "Protocol error: too big inline request")
      << "whether or not the end came with it (R9)";
  EXPECT_EQ(error_of(std::string("GET \0\r\n", 7)), "Protocol error: too big inline request");
}

TEST(RequestParser, ErrorsHaveTheServersTexts) {
  const std::string digits(64 * 1024 + 1, '1');
  EXPECT_EQ(error_of("*x\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*+1\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*01\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*2147483648\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*9223372036854775808\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*" + digits), "Protocol error: too big mbulk count string");
  EXPECT_EQ(error_of("*1\r\n$x\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$03\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$9223372036854775808\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$" + digits), "Protocol error: too big bulk count string");
  EXPECT_EQ(error_of("*1\r\nPING\r\n"), "Protocol error: expected '$', got 'P'");
  EXPECT_EQ(error_of("*1\r\n:1\r\n"), "Protocol error: expected '$', got ':'");
  EXPECT_EQ(error_of("*1\r\n\r\n"), "Protocol error: expected '$', got ' '") << "no CR in an error line";
  EXPECT_EQ(error_of("*1\rx"), "Protocol error: invalid CRLF in request");
  EXPECT_EQ(error_of("*1\r\n$4\rx"), "Protocol error: invalid CRLF in request");
  EXPECT_EQ(error_of("*1\r\n$4\r\nPINGxx"), "Protocol error: invalid CRLF in request");
  EXPECT_EQ(error_of("*1\r\n$4\r\nPING\rx"), "Protocol error: invalid CRLF in request");
}

TEST(RequestParser, StrangersGetValkeysTighterBounds) {
  RequestLimits limits;
  limits.authenticated = false;
  EXPECT_EQ(error_of("*11\r\n", limits), "Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(error_of("*10\r\n", limits), "");
  EXPECT_EQ(error_of("*1\r\n$16385\r\n", limits), "Protocol error: unauthenticated bulk length");
  EXPECT_EQ(error_of("*1\r\n$16384\r\n", limits), "");
  RequestParser parser(limits);
  parser.set_limits({});
  EXPECT_EQ(parser.parse("*11\r\n$16385\r\n"), Event::kNeedMore) << "bounds are lifted after AUTH";
}

TEST(RequestParser, R11LimitsHoldOnTheHeaderBeforeAByteOfBody) {
  RequestLimits limits;
  limits.max_bulk = 100;
  limits.max_args = 3;
  EXPECT_EQ(error_of("*1\r\n$101\r\n", limits), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$100\r\n", limits), "");
  EXPECT_EQ(error_of("*4\r\n", limits), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*3\r\n", limits), "");
  EXPECT_EQ(error_of("a b c d\r\n", limits), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*1\r\n$536870913\r\n"), "Protocol error: invalid bulk length") << "512 MiB by default";
}

TEST(RequestParser, R9SplitAtEveryByteGivesTheSameCommands) {
  for (const BodyMode mode : {BodyMode::kBuffer, BodyMode::kTake, BodyMode::kStream}) {
    for (const std::string& input : samples()) {
      const Outcome whole = drive(input, small_limits(), mode);
      std::vector<size_t> every;
      for (size_t cut = 0; cut <= input.size(); ++cut) {
        EXPECT_EQ(drive(input, small_limits(), mode, {cut}), whole) << input << " cut at " << cut;
        every.push_back(cut);
      }
      EXPECT_EQ(drive(input, small_limits(), mode, every), whole) << input << " byte by byte";
    }
  }
}

TEST(RequestParser, R9SplitAtEveryPairOfBytesGivesTheSameCommands) {
  for (const BodyMode mode : {BodyMode::kBuffer, BodyMode::kTake, BodyMode::kStream}) {
    for (const std::string& input : samples()) {
      const Outcome whole = drive(input, small_limits(), mode);
      for (size_t first = 0; first < input.size(); ++first) {
        for (size_t second = first + 1; second < input.size(); ++second) {
          ASSERT_EQ(drive(input, small_limits(), mode, {first, second}), whole)
              << input << " cut at " << first << ", " << second;
        }
      }
    }
  }
}

TEST(RequestParser, HoweverABodyIsTakenTheCommandsAndErrorsAreTheSame) {
  for (const std::string& input : samples()) {
    const Outcome buffered = drive(input, small_limits(), BodyMode::kBuffer);
    EXPECT_EQ(drive(input, small_limits(), BodyMode::kTake), buffered) << input;
    const Outcome streamed = drive(input, small_limits(), BodyMode::kStream);
    EXPECT_EQ(streamed.ends, buffered.ends) << input;
    EXPECT_EQ(streamed.error, buffered.error) << input;
  }
}

TEST(RequestParser, R9RandomPipelinesInRandomPiecesComeOutAsTheyWentIn) {
  std::mt19937 random(20240611);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Command> commands(1 + below(12));
    std::string input;
    for (Command& command : commands) {
      command.resize(1 + below(6));
      for (std::string& arg : command) {
        arg.resize(below(4) == 0 ? below(300) : below(12));
        for (char& c : arg) c = "\r\n$*0123ab"[below(10)];
      }
      append_command(input, std::vector<std::string_view>(command.begin(), command.end()));
      if (below(4) == 0) input += "*0\r\n";
    }
    std::vector<size_t> cuts;
    for (size_t at = below(40); at < input.size(); at += 1 + below(40)) cuts.push_back(at);
    RequestLimits limits;
    limits.body_threshold = 50;
    for (const BodyMode mode : {BodyMode::kBuffer, BodyMode::kTake}) {
      const Outcome outcome = drive(input, limits, mode, cuts);
      ASSERT_EQ(outcome.commands, commands) << "round " << round;
      ASSERT_EQ(outcome.error, "");
      ASSERT_EQ(outcome.ends.back(), input.size());
    }
  }
}

TEST(RequestParser, R135ValuesAroundEveryPowerOfTwoPassInEveryMode) {
  for (size_t power = 9; power <= 17; ++power) {
    for (const int delta : {-1, 0, 1}) {
      const size_t length = (size_t{1} << power) + static_cast<size_t>(delta);
      const std::string value(length, 'v');
      std::string input;
      append_command(input, {"SET", "key", value});
      append_command(input, {"PING"});
      const std::vector<size_t> cuts = {16383, 16384, 16385, 65535, 65536, 65537};
      std::vector<size_t> inside;
      for (const size_t cut : cuts) {
        if (cut < input.size()) inside.push_back(cut);
      }
      for (const BodyMode mode : {BodyMode::kBuffer, BodyMode::kTake}) {
        const Outcome outcome = drive(input, {}, mode, inside);
        EXPECT_EQ(outcome.commands, (std::vector<Command>{{"SET", "key", value}, {"PING"}})) << length;
        EXPECT_EQ(outcome.bodies.size(), length > 65536 ? 1U : 0U) << length;
      }
      EXPECT_EQ(drive(input, {}, BodyMode::kStream, inside).ends.back(), input.size()) << length;
    }
  }
}

TEST(RequestParser, FittingLosesNothingOfACommand) {
  RequestParser parser;
  const std::string input = "*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n";
  for (int round = 0; round < 2; ++round) {
    for (size_t size = 1; size < input.size(); ++size) {
      EXPECT_EQ(parser.parse(std::string_view(input).substr(0, size)), Event::kNeedMore);
      parser.fit();
    }
    ASSERT_EQ(parser.parse(input), Event::kCommand);
    parser.fit();
    EXPECT_EQ(parser.args(input).size(), 3U);
    EXPECT_EQ(parser.args(input)[2], "b");
    parser.next();
    parser.fit();
  }
}

TEST(RequestParser, ManyArgumentsAreNotReservedFromTheirCountAlone) {
  RequestParser parser;
  EXPECT_EQ(parser.parse("*1048576\r\n"), Event::kNeedMore);
  EXPECT_EQ(parser.argc(), 1048576U);
  EXPECT_TRUE(parser.args("*1048576\r\n").empty());
}

}  // namespace
}  // namespace keyferry::resp
