#include "resp/integer.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace keyferry::resp {
namespace {

TEST(ParseInteger, ReadsTheWholeRangeOf64Bits) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-1"), -1);
  EXPECT_EQ(parse_integer("1048576"), 1048576);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_integer("-9223372036854775808"), INT64_MIN);
}

TEST(ParseInteger, RefusesWhatOverflowsByOne) {
  for (const char* text :
       {"9223372036854775808", "-9223372036854775809", "18446744073709551616", "99999999999999999999"}) {
    EXPECT_FALSE(parse_integer(text)) << text;
    EXPECT_FALSE(parse_reply_integer(text)) << text;
  }
}

TEST(ParseInteger, RefusesWhatValkeyRefusesInLengths) {
  for (const char* text : {"", "-", "+1", "01", "00", "-0", "-01", " 1", "1 ", "1x", "x", "--1", "0x1"}) {
    EXPECT_FALSE(parse_integer(text)) << text;
  }
}

TEST(ParseReplyInteger, TakesASignAndLeadingZeros) {
  EXPECT_EQ(parse_reply_integer("+7"), 7);
  EXPECT_EQ(parse_reply_integer("-007"), -7);
  for (const char* text : {"", "+", "-", "+-1", "1.0"}) EXPECT_FALSE(parse_reply_integer(text)) << text;
}

}  // namespace
}  // namespace keyferry::resp
