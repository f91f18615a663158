#include "resp/decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "resp/reply_scanner.h"
#include "tests/unit/resp/reply_samples.h"

namespace keyferry::resp {
namespace {

using testing::broken_frames;
using testing::good_frames;
using Kind = Value::Kind;
using Status = DecodeResult::Status;

Value value_of(std::string_view frame) {
  DecodeResult result = decode(frame);
  EXPECT_TRUE(result.ok()) << frame << ": " << result.error;
  EXPECT_EQ(result.consumed, frame.size());
  return std::move(result.value);
}

TEST(Decode, Texts) {
  EXPECT_EQ(value_of("+OK\r\n").kind, Kind::kSimple);
  EXPECT_EQ(value_of("+OK\r\n").text, "OK");
  EXPECT_EQ(value_of("-ERR no\r\n").text, "ERR no");
  EXPECT_TRUE(value_of("-ERR no\r\n").is_error());
  EXPECT_EQ(value_of("$4\r\n\r\n\r\n\r\n").text, "\r\n\r\n");
  EXPECT_EQ(value_of("$0\r\n\r\n").kind, Kind::kBulk);
  EXPECT_EQ(value_of("!5\r\nERR x\r\n").kind, Kind::kBlobError);
  EXPECT_TRUE(value_of("!5\r\nERR x\r\n").is_error());
  const Value verbatim = value_of("=8\r\nmkd:text\r\n");
  EXPECT_EQ(verbatim.kind, Kind::kVerbatim);
  EXPECT_EQ(verbatim.format, "mkd");
  EXPECT_EQ(verbatim.text, "text");
}

TEST(Decode, Numbers) {
  EXPECT_EQ(value_of(":-42\r\n").integer, -42);
  EXPECT_EQ(value_of("#t\r\n").boolean, true);
  EXPECT_EQ(value_of("#f\r\n").boolean, false);
  EXPECT_EQ(value_of(",3.25\r\n").real, 3.25);
  EXPECT_EQ(value_of(",+1e3\r\n").real, 1000);
  EXPECT_EQ(value_of(",-inf\r\n").real, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(value_of(",nan\r\n").real));
  EXPECT_TRUE(std::isinf(value_of(",1e400\r\n").real)) << "beyond a double";
  EXPECT_EQ(value_of(",1e-400\r\n").real, 0);
  EXPECT_EQ(value_of("(-123456789012345678901\r\n").text, "-123456789012345678901");
}

TEST(Decode, R4TheThreeFormsOfNullAreToldApart) {
  EXPECT_EQ(value_of("$-1\r\n").null_form, Value::NullForm::kBulk);
  EXPECT_EQ(value_of("*-1\r\n").null_form, Value::NullForm::kArray);
  EXPECT_EQ(value_of("_\r\n").null_form, Value::NullForm::kResp3);
  for (const char* frame : {"$-1\r\n", "*-1\r\n", "_\r\n"}) EXPECT_TRUE(value_of(frame).is_null());
}

TEST(Decode, Aggregates) {
  const Value array = value_of("*3\r\n:1\r\n$1\r\na\r\n*1\r\n+b\r\n");
  ASSERT_EQ(array.children.size(), 3U);
  EXPECT_EQ(array.children[2].children[0].text, "b");
  const Value map = value_of("%2\r\n+first\r\n:1\r\n+second\r\n_\r\n");
  EXPECT_EQ(map.kind, Kind::kMap);
  ASSERT_EQ(map.children.size(), 4U) << "keys and values alternate";
  EXPECT_EQ(map.children[2].text, "second");
  EXPECT_EQ(value_of("~1\r\n:1\r\n").kind, Kind::kSet);
  EXPECT_EQ(value_of(">1\r\n+x\r\n").kind, Kind::kPush);
}

TEST(Decode, R12AttributesAreKeptWithTheValueTheyPrecede) {
  const Value top = value_of("|1\r\n+ttl\r\n:3600\r\n$5\r\nvalue\r\n");
  EXPECT_EQ(top.kind, Kind::kBulk);
  ASSERT_EQ(top.attributes.size(), 2U);
  EXPECT_EQ(top.attributes[1].integer, 3600);
  const Value array = value_of("*2\r\n:1\r\n|1\r\n+a\r\n#t\r\n:2\r\n");
  ASSERT_EQ(array.children.size(), 2U);
  EXPECT_TRUE(array.children[0].attributes.empty());
  EXPECT_EQ(array.children[1].attributes.size(), 2U);
  EXPECT_EQ(value_of("|1\r\n+a\r\n:1\r\n|1\r\n+b\r\n:2\r\n:3\r\n").attributes.size(), 4U);
}

TEST(Decode, R9EveryProperPrefixIsIncomplete) {
  for (const std::string& frame : good_frames()) {
    for (size_t length = 0; length < frame.size(); ++length) {
      EXPECT_EQ(decode(frame.substr(0, length)).status, Status::kIncomplete) << frame << " of " << length;
    }
    const DecodeResult result = decode(frame + "+more\r\n");
    ASSERT_TRUE(result.ok()) << frame << ": " << result.error;
    EXPECT_EQ(result.consumed, frame.size());
  }
}

TEST(Decode, NeverAcceptsWhatTheScannerRefuses) {
  for (const std::string& frame : broken_frames()) {
    EXPECT_FALSE(decode(frame).ok()) << frame;
    EXPECT_FALSE(decode("*1\r\n" + frame).ok()) << frame;
    EXPECT_EQ(decode(frame + "\r\n").status == Status::kError, !decode(frame + "\r\n").error.empty()) << frame;
  }
}

TEST(Decode, ContentsWithoutAValueAreErrorsAlthoughTheFramingHolds) {
  for (const std::string frame :
       {":9223372036854775808\r\n", ":--1\r\n", ",1e\r\n", ",+-1\r\n", ",x\r\n", "(--1\r\n", "=4\r\nabcd\r\n"}) {
    EXPECT_EQ(decode(frame).status, Status::kError) << frame;
    EXPECT_EQ(ReplyScanner().scan(frame).event, ReplyScanner::Step::Event::kFrameEnd) << frame;
  }
}

TEST(Decode, IsBounded) {
  DecodeLimits limits;
  limits.max_bulk = 4;
  limits.max_elements = 4;
  limits.max_depth = 2;
  const auto status = [&](std::string_view frame) { return decode(frame, limits).status; };
  EXPECT_EQ(status("$4\r\nabcd\r\n"), Status::kOk);
  EXPECT_EQ(status("$5\r\n"), Status::kError) << "on the header (R11)";
  EXPECT_EQ(status("*3\r\n:1\r\n:1\r\n:1\r\n"), Status::kOk);
  EXPECT_EQ(status("*2\r\n:1\r\n*2\r\n:1\r\n:1\r\n"), Status::kError) << "elements are counted at all depths";
  EXPECT_EQ(status("*5\r\n"), Status::kError);
  EXPECT_EQ(status("*1\r\n*1\r\n:1\r\n"), Status::kOk);
  EXPECT_EQ(status("*1\r\n*1\r\n*1\r\n"), Status::kError);
  EXPECT_EQ(status("|0\r\n|0\r\n|0\r\n|0\r\n|0\r\n"), Status::kError) << "attributes count too";
}

TEST(Decode, AHugeCountReservesNothing) {
  EXPECT_EQ(decode("*1048576\r\n").status, Status::kIncomplete);
}

TEST(Value, EqualityIsWhatTheWireSays) {
  EXPECT_EQ(value_of(",nan\r\n"), value_of(",nan\r\n"));
  EXPECT_EQ(value_of(",1.0\r\n"), value_of(",1\r\n"));
  EXPECT_FALSE(value_of("$-1\r\n") == value_of("_\r\n"));
  EXPECT_FALSE(value_of("+a\r\n") == value_of("$1\r\na\r\n"));
  EXPECT_FALSE(value_of("=5\r\ntxt:a\r\n") == value_of("=5\r\nmkd:a\r\n"));
  EXPECT_FALSE(value_of("|1\r\n+a\r\n:1\r\n:2\r\n") == value_of(":2\r\n"));
  for (size_t i = 0; i < good_frames().size(); ++i) {
    for (size_t j = 0; j < good_frames().size(); ++j) {
      if (good_frames()[i].starts_with("|0")) continue;  // An empty attribute says nothing.
      if (good_frames()[j].starts_with("|0")) continue;
      EXPECT_EQ(value_of(good_frames()[i]) == value_of(good_frames()[j]), i == j) << i << " and " << j;
    }
  }
}

}  // namespace
}  // namespace keyferry::resp
