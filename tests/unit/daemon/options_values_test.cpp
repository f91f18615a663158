#include "daemon/options_values.h"

#include <gtest/gtest.h>

namespace keyferry::daemon {
namespace {

using namespace std::chrono_literals;

const OptionInfo& option(std::string_view path) {
  return *find_option(path);
}

TEST(OptionValues, SizesAreWholeNumbersWithABinaryUnit) {
  const OptionInfo& info = option("pool.size");
  EXPECT_EQ(parse_value(info, "64KiB").value().number, 65536U);
  EXPECT_EQ(parse_value(info, "4GiB").value().number, 4ULL << 30);
  EXPECT_EQ(parse_value(info, "65536B").value().number, 65536U);
  EXPECT_EQ(parse_value(info, "16TiB").value().number, 16ULL << 40);
  for (const char* bad : {"", "64", "64KB", "64 KiB", "64kib", "KiB", "-1KiB", "+1KiB", "1.5GiB", "0x10KiB", "1KiBB",
                          "1e3B", " 1GiB", "1GiB "}) {
    const auto value = parse_value(info, bad);
    ASSERT_FALSE(value) << bad;
    EXPECT_EQ(value.error().message, "not a whole number with B, KiB, MiB, GiB or TiB") << bad;
  }
}

TEST(OptionValues, WhatIsBeyondTheBoundsOrBeyond64BitsIsOutOfRange) {
  for (const char* bad : {"1KiB", "17TiB", "18446744073709551615TiB", "16777217TiB", "18446744073709551615B"}) {
    const auto value = parse_value(option("pool.size"), bad);
    ASSERT_FALSE(value) << bad;
    EXPECT_EQ(value.error().message, "out of range") << bad;
  }
  EXPECT_FALSE(parse_value(option("pool.size"), "99999999999999999999999B"));
}

TEST(OptionValues, TimesHaveAUnitAndZeroOnlyWhereItMeansSomething) {
  EXPECT_EQ(parse_value(option("limits.stall"), "250ms").value().duration, base::Duration(250ms));
  EXPECT_EQ(parse_value(option("limits.stall"), "30s").value().duration, base::Duration(30s));
  EXPECT_EQ(parse_value(option("limits.stall"), "5m").value().duration, base::Duration(5min));
  EXPECT_EQ(parse_value(option("limits.stall"), "24h").value().duration, base::Duration(24h));
  for (const char* bad : {"30", "30 s", "30sec", "1d", "0", "0s", "25h", "-1s"})
    EXPECT_FALSE(parse_value(option("limits.stall"), bad)) << bad;
  EXPECT_EQ(parse_value(option("limits.client_idle"), "0").value().duration, base::Duration(0));
}

TEST(OptionValues, CountsWordsBoolsAndModes) {
  EXPECT_TRUE(parse_value(option("workers"), "auto").value().is_word);
  EXPECT_EQ(parse_value(option("workers"), "256").value().number, 256U);
  for (const char* bad : {"0", "257", "Auto", "many", "1.0", ""})
    EXPECT_FALSE(parse_value(option("workers"), bad)) << bad;
  EXPECT_TRUE(parse_value(option("upstream.require"), "true").value().flag);
  EXPECT_FALSE(parse_value(option("upstream.require"), "false").value().flag);
  for (const char* bad : {"yes", "on", "True", "1", ""})
    EXPECT_FALSE(parse_value(option("upstream.require"), bad)) << bad;
  EXPECT_EQ(parse_value(option("listen[].mode"), "0660").value().number, 0660U);
  EXPECT_EQ(parse_value(option("listen[].mode"), "600").value().number, 0600U);
  for (const char* bad : {"0888", "1777", "rw", "0o660"})
    EXPECT_FALSE(parse_value(option("listen[].mode"), bad)) << bad;
}

TEST(OptionValues, ChoicesOfOtherVersionsSaySo) {
  EXPECT_EQ(parse_value(option("fabric.provider"), "off").value().text, "off");
  EXPECT_EQ(parse_value(option("upstream.transport"), "tls").value().number,
            static_cast<std::uint64_t>(Transport::kTls));
  EXPECT_EQ(parse_value(option("pool.huge_pages"), "never").value().number,
            static_cast<std::uint64_t>(HugePages::kNever));
  EXPECT_EQ(parse_value(option("upstream.mode"), "cluster").error().message, "not supported by this version");
  EXPECT_EQ(parse_value(option("fabric.provider"), "verbs").error().message, "not one of the choices");
}

TEST(OptionValues, AddressesAreHostAndPort) {
  EXPECT_EQ(parse_host_port("127.0.0.1:6379"), (HostPort{"127.0.0.1", 6379}));
  EXPECT_EQ(parse_host_port("[::1]:1"), (HostPort{"::1", 1}));
  EXPECT_EQ(parse_host_port("my-host.example:65535"), (HostPort{"my-host.example", 65535}));
  EXPECT_EQ((HostPort{"::1", 1}).text(), "[::1]:1");
  for (const char* bad : {"", ":1", "host", "host:", "host:0", "host:65536", "host:x", "::1:6379", "[::1]", "[::1]6379",
                          "[host]:1", "a b:1", "a/b:1", "host:1:2", "redis://h:1", "[]:1", "[::1]:"}) {
    EXPECT_EQ(parse_host_port(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_host_port(std::string(300, 'a') + ":1"), std::nullopt);
}

TEST(OptionValues, TextsAreNotEmptyAndHoldNoControlCharacters) {
  EXPECT_EQ(parse_value(option("upstream.user"), "Jürgen").value().text, "Jürgen");
  EXPECT_FALSE(parse_value(option("upstream.user"), ""));
  EXPECT_FALSE(parse_value(option("upstream.user"), "a\r\nAUTH"));
}

TEST(OptionValues, ValuesAreWrittenTheWayTheyAreRead) {
  EXPECT_EQ(size_text(4ULL << 20), "4MiB");
  EXPECT_EQ(size_text(1000), "1000B");
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(duration_text(250), "250ms");
  EXPECT_EQ(duration_text(60000), "1m");
  EXPECT_EQ(allowed_text(option("limits.drain")), "0, or a whole number with ms, s, m or h, 1ms to 24h");
}

}  // namespace
}  // namespace keyferry::daemon
