#include "telemetry/label_text.h"

#include <gtest/gtest.h>

namespace keyferry::telemetry {
namespace {

TEST(LabelText, KeepsOrdinaryTextInAnyScript) {
  EXPECT_EQ(label_text("127.0.0.1:6379"), "127.0.0.1:6379");
  EXPECT_EQ(label_text("Größe \xE2\x82\xAC \xF0\x9F\x9A\xA2"), "Größe \xE2\x82\xAC \xF0\x9F\x9A\xA2");
  EXPECT_EQ(label_text(""), "");
}

TEST(LabelText, ReplacesControlCharactersAndBrokenUtf8) {
  EXPECT_EQ(label_text("a\r\nb\tc\x7F"), "a??b?c?");
  EXPECT_EQ(label_text(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(label_text("\xFF\xC0\x80"), "???");       // never a byte of UTF-8; overlong NUL
  EXPECT_EQ(label_text("\xED\xA0\x80"), "???");       // a surrogate
  EXPECT_EQ(label_text("\xE0\x80\x80"), "???");       // overlong
  EXPECT_EQ(label_text("\xF4\x90\x80\x80"), "????");  // beyond Unicode
  EXPECT_EQ(label_text("end\xE2\x82"), "end??");      // cut off
  EXPECT_EQ(label_text("\xC3(x"), "?(x");             // no continuation
}

TEST(LabelText, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(label_text(std::string(1000, 'x')), std::string(160, 'x'));
  std::string euros = "x";
  for (int i = 0; i < 100; ++i) euros += "\xE2\x82\xAC";
  const std::string cut = label_text(euros);
  EXPECT_EQ(cut.size(), 160U);  // 1 + 53 * 3
  EXPECT_EQ(label_text("xx" + euros).size(), 159U);
}

}  // namespace
}  // namespace keyferry::telemetry
