#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gateway/expiry_options.h"
#include "gateway/offload_state.h"
#include "gateway/offload_table.h"

namespace keyferry::gateway {
namespace {

using Kind = ExpiryOptions::Kind;

ExpiryOptions parsed(std::vector<std::string_view> words) {
  return parse_expiry_options(words);
}

TEST(ExpiryOptions, EachUnitAloneIsATimeInMilliseconds) {
  struct Row {
    std::string_view unit, count;
    bool absolute;
    std::int64_t milliseconds;
  };
  for (const Row& row : {Row{"EX", "10", false, 10000}, Row{"px", "10", false, 10}, Row{"eXaT", "10", true, 10000},
                         Row{"PXAT", "1700000000123", true, 1700000000123}, Row{"PX", "1", false, 1},
                         Row{"EX", "4611686018427387", false, 4611686018427387000}}) {
    const ExpiryOptions options = parsed({row.unit, row.count});
    EXPECT_EQ(options.kind, Kind::kExpiry) << row.unit;
    EXPECT_EQ(options.expiry.absolute, row.absolute) << row.unit;
    EXPECT_EQ(options.expiry.milliseconds, row.milliseconds) << row.unit;
  }
}

TEST(ExpiryOptions, NumbersAreReadAsStrictlyAsTheServerReadsThem) {
  for (const std::string_view count : {"", "x", "1x", " 1", "1 ", "+1", "01", "00", "-", "-01", "1.5", "0x1",
                                       "9223372036854775808", "99999999999999999999"})
    EXPECT_EQ(parsed({"EX", count}).kind, Kind::kNoInteger) << count;
  for (const std::string_view count : {"0", "-1", "-9223372036854775808", "9223372036854775807"}) {
    EXPECT_EQ(parsed({"EX", count}).kind, Kind::kNoTime) << count;
    EXPECT_EQ(parsed({"PXAT", count}).kind, Kind::kNoTime) << count;
  }
}

TEST(ExpiryOptions, WhateverElseIsSaidIsTheServersToJudge) {
  EXPECT_EQ(parsed({}).kind, Kind::kNone);
  EXPECT_EQ(parsed({"persist"}).kind, Kind::kPersist);
  for (const std::vector<std::string_view>& words : std::vector<std::vector<std::string_view>>{{"NX"},
                                                                                               {"XX"},
                                                                                               {"GET"},
                                                                                               {"KEEPTTL"},
                                                                                               {"EX"},
                                                                                               {"NOSUCH", "1"},
                                                                                               {"EX", "1", "NX"},
                                                                                               {"NX", "EX", "1"},
                                                                                               {"PERSIST", "1"},
                                                                                               {"EX", "1", "PX", "1"},
                                                                                               {"IFEQ", "1"},
                                                                                               {""}})
    EXPECT_EQ(parsed(words).kind, Kind::kOther) << words[0];
}

const std::vector<std::string> kPrefixes{"kv:", "blob/"};

Offloaded of(std::vector<std::string_view> args) {
  return classify_offload(args, kPrefixes);
}

TEST(OffloadTable, OnlyKeysUnderAPrefixConcernIt) {
  EXPECT_EQ(of({"GET", "kv:1"}).route, OffloadRoute::kGet);
  EXPECT_EQ(of({"gEt", "blob/"}).route, OffloadRoute::kGet);
  for (const std::string_view key : {"", "kv", "xkv:1", "KV:1", "blob:1"})
    EXPECT_EQ(of({"GET", key}).route, OffloadRoute::kNone) << key;
  EXPECT_EQ(classify_offload(std::vector<std::string_view>{"GET", "kv:1"}, {}).route, OffloadRoute::kNone);
}

TEST(OffloadTable, KeysAreWhereTheCommandHasThem) {
  using Keys = std::vector<std::string_view>;
  EXPECT_EQ(of({"MGET", "a", "kv:1", "b", "kv:2"}).keys, (Keys{"kv:1", "kv:2"}));
  EXPECT_EQ(of({"LCS", "kv:1", "b", "kv:LEN"}).keys, (Keys{"kv:1"}));
  EXPECT_EQ(of({"BITOP", "AND", "kv:d", "a", "kv:1"}).keys, (Keys{"kv:1"}));
  EXPECT_EQ(of({"APPEND", "kv:1", "kv:2"}).keys, (Keys{"kv:1"}));
  EXPECT_EQ(of({"APPEND", "a", "kv:2"}).route, OffloadRoute::kNone);
}

TEST(OffloadTable, WrongNumbersOfArgumentsAreTheServersToRefuse) {
  for (const std::vector<std::string_view>& args : std::vector<std::vector<std::string_view>>{{"GET"},
                                                                                              {"GET", "kv:1", "kv:2"},
                                                                                              {"STRLEN", "kv:1", "x"},
                                                                                              {"GETDEL", "kv:1", "x"},
                                                                                              {"MGET"},
                                                                                              {"BITOP", "NOT", "d"}})
    EXPECT_EQ(of(args).route, OffloadRoute::kNone) << args[0];
}

TEST(OffloadTable, ASetIsSpecialOnlyWhereItLooksAtTheOldValue) {
  EXPECT_EQ(of({"SET", "kv:1", "v"}).route, OffloadRoute::kNone);
  EXPECT_EQ(of({"SET", "kv:1", "GET", "XX"}).route, OffloadRoute::kNone);
  EXPECT_EQ(of({"SET", "kv:1", "v", "XX", "get"}).route, OffloadRoute::kNotOnObject);
  EXPECT_EQ(of({"SET", "kv:1", "v", "IFEQ", "x"}).route, OffloadRoute::kNotOnObject);
  EXPECT_TRUE(is_offloaded_set(std::vector<std::string_view>{"set", "kv:1"}, kPrefixes));
  EXPECT_FALSE(is_offloaded_set(std::vector<std::string_view>{"set", "a"}, kPrefixes));
  EXPECT_FALSE(is_offloaded_set(std::vector<std::string_view>{"set", "kv:1", "v"}, kPrefixes));
  EXPECT_FALSE(is_offloaded_set(std::vector<std::string_view>{"set"}, kPrefixes));
}

TEST(KindHints, RememberWhatWasSeenLast) {
  KindHints hints;
  EXPECT_FALSE(hints.is_object({}, "a"));
  hints.note({}, "a", true);
  EXPECT_TRUE(hints.is_object({}, "a"));
  hints.note({}, "b", false);
  EXPECT_TRUE(hints.is_object({}, "a"));
  EXPECT_FALSE(hints.is_object({"", "", 3}, "a"));
  hints.note({}, "a", false);
  EXPECT_FALSE(hints.is_object({}, "a"));
}

TEST(TemporaryKey, BeginsWithTheKeyAndIsGivenOnce) {
  const std::string first = temporary_key("kv:1");
  EXPECT_TRUE(first.starts_with("kv:1"));
  EXPECT_NE(first, temporary_key("kv:1"));
}

}  // namespace
}  // namespace keyferry::gateway
