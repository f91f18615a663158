#include "gateway/command_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace keyferry::gateway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Route of(std::vector<std::string_view> args) {
  return classify(args);
}

std::vector<std::string_view> keys(std::vector<std::string_view> args) {
  const CommandRow* row = find_command(args);
  return row == nullptr ? std::vector<std::string_view>{} : keys_of(*row, args);
}

TEST(CommandTable, WhatItDoesNotKnowIsOrdinarySoThatTheServerJudgesIt) {
  for (const std::string_view name : {"NOSUCH", "a-name-longer-than-any-in-the-table-there-is", "", "GET", "INFO"}) {
    EXPECT_EQ(of({name}), Route::kOrdinary) << name;
  }
  EXPECT_EQ(of({"CLIENT"}), Route::kOrdinary);
  EXPECT_EQ(of({"CONFIG", "NOSUCH"}), Route::kOrdinary);
}

TEST(CommandTable, NamesAreFoundInAnyCase) {
  EXPECT_EQ(of({"blob.tcp_get", "k"}), Route::kBlobGet);
  EXPECT_EQ(of({"Blob.Tcp_Set", "k", "v"}), Route::kBlobSet);
  EXPECT_EQ(of({"qUiT"}), Route::kLocal);
  EXPECT_EQ(of({"mUlTi"}), Route::kTransaction);
  EXPECT_EQ(of({"cLiEnT", "iD"}), Route::kLocal);
}

TEST(CommandTable, StateThatTheConnectionKeepsGetsAConnection) {
  EXPECT_EQ(of({"WATCH", "k"}), Route::kTransaction);
  EXPECT_EQ(of({"EXEC"}), Route::kEndsTransaction);
  EXPECT_EQ(of({"EVAL", "return 1", "0"}), Route::kAlone);
  EXPECT_EQ(of({"SELECT", "1"}), Route::kIdentity);
  EXPECT_EQ(of({"CLIENT", "TRACKING", "ON"}), Route::kOwn);
  for (const std::string_view name : {"SUBSCRIBE", "MONITOR", "SYNC"}) EXPECT_EQ(of({name}), Route::kRaw) << name;
  for (const std::string_view name : {"BLPOP", "BZMPOP", "WAIT"}) EXPECT_EQ(of({name}), Route::kBlocking) << name;
}

TEST(CommandTable, ASubcommandOfClientThatTheTableDoesNotKnowGetsAConnectionForItself) {
  EXPECT_EQ(of({"CLIENT", "MAINT_NOTIFICATIONS", "ON"}), Route::kAlone);
}

TEST(CommandTable, HelloIsAnsweredHereUnlessItCarriesAPassword) {
  EXPECT_EQ(of({"HELLO"}), Route::kLocal);
  EXPECT_EQ(of({"HELLO", "3", "SETNAME", "auth"}), Route::kLocal);
  EXPECT_EQ(of({"HELLO", "3", "auth", "u", "p"}), Route::kIdentity);
  EXPECT_EQ(of({"HELLO", "3", "SETNAME", "auth", "AUTH", "u", "p"}), Route::kIdentity);
}

TEST(CommandTable, WhatACommandWritesAndWhichKeysAreInTheTable) {
  EXPECT_TRUE(find_command(std::vector<std::string_view>{"SET"})->flags & kWrite);
  EXPECT_FALSE(find_command(std::vector<std::string_view>{"GET"})->flags & kWrite);
  EXPECT_THAT(keys({"GET", "a"}), ElementsAre("a"));
  EXPECT_THAT(keys({"MSET", "a", "1", "b", "2"}), ElementsAre("a", "b"));
  EXPECT_THAT(keys({"BLPOP", "a", "b", "0"}), ElementsAre("a", "b"));
  EXPECT_THAT(keys({"EVAL", "s", "2", "a", "b", "c"}), ElementsAre("a", "b"));
  EXPECT_THAT(keys({"ZUNIONSTORE", "to", "2", "a", "b"}), ElementsAre("to", "a", "b"));
  // Half a command, or one that lies about its keys.
  EXPECT_THAT(keys({"GET"}), IsEmpty());
  EXPECT_THAT(keys({"EVAL", "s", "9", "a"}), ElementsAre("a"));
  EXPECT_THAT(keys({"EVAL", "s", "-1", "a"}), IsEmpty());
}

TEST(CommandTable, WhatTheServerMayHoldBackWhileItAnswersOthers) {
  const auto access = [](std::string_view name) { return access_of(find_command(std::vector{name})); };
  for (const std::string_view name : {"SET", "PUBLISH", "pfcount", "FLUSHALL", "MODULE.UNKNOWN"})
    EXPECT_EQ(access(name), upstream::Access::kWrites) << name;
  for (const std::string_view name : {"GET", "mget", "PING", "INFO", "SCAN"})
    EXPECT_EQ(access(name), upstream::Access::kReads) << name;
}

TEST(CommandTable, ALineOfHttpEndsTheClientThatSentItAndIsNeverForwarded) {
  EXPECT_EQ(of({"POST", "/", "HTTP/1.1"}), Route::kHangUp);
  EXPECT_EQ(of({"host:", "localhost"}), Route::kHangUp);
}

TEST(CommandTable, RdmaCommandsFromASocketNameTheTcpForm) {
  for (const std::string_view name : {"BLOB.RDMA_HELLO", "BLOB.RDMA_GET", "BLOB.RDMA_SET"})
    EXPECT_EQ(of({name}), Route::kRdma) << name;
  EXPECT_NE(kRdmaRefusal.find("BLOB.TCP_"), std::string_view::npos);
}

TEST(CommandTable, StreamReadsNeedAConnectionOnlyWhenTheyBlock) {
  EXPECT_EQ(of({"XREAD", "COUNT", "1", "STREAMS", "s", "0"}), Route::kOrdinary);
  EXPECT_EQ(of({"xread", "block", "0", "streams", "s", "$"}), Route::kBlocking);
  EXPECT_EQ(of({"XREADGROUP", "GROUP", "g", "c", "BLOCK", "5", "STREAMS", "s", ">"}), Route::kBlocking);
  // A group, a consumer or a stream that is named so is not the option.
  EXPECT_EQ(of({"XREADGROUP", "GROUP", "block", "BLOCK", "STREAMS", "s", ">"}), Route::kOrdinary);
  EXPECT_EQ(of({"XREAD", "STREAMS", "BLOCK", "0"}), Route::kOrdinary);
}

}  // namespace
}  // namespace keyferry::gateway
