#include "resp/writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "resp/decode.h"
#include "tests/unit/resp/reply_samples.h"

namespace keyferry::resp {
namespace {

using testing::good_frames;

constexpr Protocol k2 = Protocol::kResp2;
constexpr Protocol k3 = Protocol::kResp3;

template <typename... Args>
std::string written(void (*append)(std::string&, Args...), std::type_identity_t<Args>... args) {
  std::string out;
  append(out, args...);
  return out;
}

TEST(Writer, LinesAndBulks) {
  EXPECT_EQ(written(append_simple, "OK"), "+OK\r\n");
  EXPECT_EQ(written(append_error, "ERR no"), "-ERR no\r\n");
  EXPECT_EQ(written(append_integer, INT64_MIN), ":-9223372036854775808\r\n");
  EXPECT_EQ(written(append_bulk, "a\r\nb"), "$4\r\na\r\nb\r\n");
  EXPECT_EQ(written(append_bulk, ""), "$0\r\n\r\n");
  EXPECT_EQ(written(append_bulk_header, UINT64_MAX), "$18446744073709551615\r\n");
}

TEST(Writer, NoTextBreaksTheFraming) {
  EXPECT_EQ(written(append_error, "ERR a\r\n+OK\r\n"), "-ERR a  +OK  \r\n");
  EXPECT_EQ(written(append_simple, "a\nb"), "+a b\r\n");
  EXPECT_EQ(written(append_blob_error, k2, "ERR a\r\nb"), "-ERR a  b\r\n");
  EXPECT_EQ(written(append_blob_error, k3, "ERR a\r\nb"), "!8\r\nERR a\r\nb\r\n");
  EXPECT_EQ(written(append_big_number, k3, "1\r\n2"), "(1  2\r\n");
}

TEST(Writer, R4EveryNullOfResp3IsAnUnderscore) {
  EXPECT_EQ(written(append_null, k2), "$-1\r\n");
  EXPECT_EQ(written(append_null_array, k2), "*-1\r\n");
  EXPECT_EQ(written(append_null, k3), "_\r\n");
  EXPECT_EQ(written(append_null_array, k3), "_\r\n");
}

TEST(Writer, R12AggregateHeadersInBothProtocols) {
  EXPECT_EQ(written(append_array_header, 3), "*3\r\n");
  EXPECT_EQ(written(append_map_header, k2, 3), "*6\r\n");
  EXPECT_EQ(written(append_map_header, k3, 3), "%3\r\n");
  EXPECT_EQ(written(append_set_header, k2, 3), "*3\r\n");
  EXPECT_EQ(written(append_set_header, k3, 3), "~3\r\n");
  EXPECT_EQ(written(append_push_header, k2, 3), "*3\r\n");
  EXPECT_EQ(written(append_push_header, k3, 3), ">3\r\n");
  std::string out;
  EXPECT_FALSE(append_attribute_header(out, k2, 1));
  EXPECT_EQ(out, "");
  EXPECT_TRUE(append_attribute_header(out, k3, 1));
  EXPECT_EQ(out, "|1\r\n");
}

TEST(Writer, R12ScalarsInBothProtocols) {
  EXPECT_EQ(written(append_boolean, k2, true), ":1\r\n");
  EXPECT_EQ(written(append_boolean, k2, false), ":0\r\n");
  EXPECT_EQ(written(append_boolean, k3, true), "#t\r\n");
  EXPECT_EQ(written(append_boolean, k3, false), "#f\r\n");
  EXPECT_EQ(written(append_big_number, k2, "-12345678901234567890"), "$21\r\n-12345678901234567890\r\n");
  EXPECT_EQ(written(append_big_number, k3, "-12345678901234567890"), "(-12345678901234567890\r\n");
  EXPECT_EQ(written(append_verbatim, k2, "mkd", "*x*"), "$3\r\n*x*\r\n");
  EXPECT_EQ(written(append_verbatim, k3, "mkd", "*x*"), "=7\r\nmkd:*x*\r\n");
  EXPECT_EQ(written(append_verbatim, k3, "markdown", "*x*"), "=7\r\ntxt:*x*\r\n");
}

TEST(Writer, DoublesAreShortAndExact) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(written(append_double, k3, 3.25), ",3.25\r\n");
  EXPECT_EQ(written(append_double, k2, 3.25), "$4\r\n3.25\r\n");
  EXPECT_EQ(written(append_double, k3, 0.1), ",0.1\r\n");
  EXPECT_EQ(written(append_double, k3, 100000.0), ",100000\r\n");
  EXPECT_EQ(written(append_double, k3, -0.0), ",-0\r\n");
  EXPECT_EQ(written(append_double, k3, infinity), ",inf\r\n");
  EXPECT_EQ(written(append_double, k3, -infinity), ",-inf\r\n");
  EXPECT_EQ(written(append_double, k3, std::numeric_limits<double>::quiet_NaN()), ",nan\r\n");
  for (const double value : {1e300, -1.7976931348623157e308, 5e-324, 9007199254740993.0, 1.0 / 3}) {
    EXPECT_EQ(decode(written(append_double, k3, value)).value.real, value);
  }
}

TEST(Writer, Commands) {
  std::string out;
  append_command(out, {"SET", "key", ""});
  EXPECT_EQ(out, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
  out.clear();
  append_command_header(out, 2);
  append_bulk(out, "GET");
  append_bulk_header(out, 5);
  EXPECT_EQ(out, "*2\r\n$3\r\nGET\r\n$5\r\n");
}

TEST(Writer, Resp3ValuesSurviveWritingAndDecoding) {
  for (const std::string& frame : good_frames()) {
    const DecodeResult first = decode(frame);
    ASSERT_TRUE(first.ok()) << frame;
    std::string out = "prefix";
    append_value(out, k3, first.value);
    const DecodeResult second = decode(std::string_view(out).substr(6));
    ASSERT_TRUE(second.ok()) << out << ": " << second.error;
    EXPECT_EQ(second.consumed, out.size() - 6) << frame;
    Value expected = first.value;
    // A lone CR or LF of a line becomes a blank, and RESP3 has one null.
    if (expected.kind == Value::Kind::kSimple && expected.text == "a\rb\nc\r") expected.text = "a b c ";
    expected.null_form = Value::NullForm::kResp3;
    EXPECT_EQ(second.value, expected) << frame;
  }
}

TEST(Writer, R12WholeValuesInResp2) {
  const auto down = [](std::string_view frame) {
    const DecodeResult result = decode(frame);
    EXPECT_TRUE(result.ok()) << frame << ": " << result.error;
    std::string out;
    append_value(out, k2, result.value);
    return out;
  };
  EXPECT_EQ(down("_\r\n"), "$-1\r\n");
  EXPECT_EQ(down("*-1\r\n"), "*-1\r\n");
  EXPECT_EQ(down("#t\r\n"), ":1\r\n");
  EXPECT_EQ(down(",1.50\r\n"), "$4\r\n1.50\r\n") << "digits as received";
  EXPECT_EQ(down("(123\r\n"), "$3\r\n123\r\n");
  EXPECT_EQ(down("!5\r\nERR x\r\n"), "-ERR x\r\n");
  EXPECT_EQ(down("=8\r\ntxt:text\r\n"), "$4\r\ntext\r\n");
  EXPECT_EQ(down("%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n_\r\n"), "*4\r\n+a\r\n:1\r\n+b\r\n*1\r\n$-1\r\n");
  EXPECT_EQ(down(">2\r\n+message\r\n#f\r\n"), "*2\r\n+message\r\n:0\r\n");
  EXPECT_EQ(down("|1\r\n+ttl\r\n:1\r\n*1\r\n|1\r\n+x\r\n:2\r\n:3\r\n"), "*1\r\n:3\r\n")
      << "attributes vanish at every depth";
}

TEST(Writer, Resp2OutputHasResp2TypesOnly) {
  for (const std::string& frame : good_frames()) {
    std::string out;
    append_value(out, k2, decode(frame).value);
    const DecodeResult result = decode(out);
    ASSERT_TRUE(result.ok()) << out;
    EXPECT_EQ(result.consumed, out.size());
    EXPECT_NE(std::string_view("+-:$*").find(out.front()), std::string_view::npos) << out;
    EXPECT_TRUE(result.value.attributes.empty());
  }
}

TEST(Writer, AMapWithoutItsLastValueStillHasSoundFraming) {
  Value map;
  map.kind = Value::Kind::kMap;
  map.children.resize(3);
  map.attributes.resize(1);
  for (const Protocol protocol : {k2, k3}) {
    std::string out;
    append_value(out, protocol, map);
    const DecodeResult result = decode(out);
    ASSERT_TRUE(result.ok()) << out;
    EXPECT_EQ(result.consumed, out.size());
    EXPECT_EQ(result.value.children.size(), 2U);
  }
}

}  // namespace
}  // namespace keyferry::resp
