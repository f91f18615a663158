#include "gateway/command_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace keyferry::gateway {
namespace {

Classified of(std::vector<std::string_view> args) {
  return classify(args);
}

TEST(CommandTable, WhatItDoesNotKnowIsOrdinarySoThatTheServerJudgesIt) {
  for (const std::string_view name :
       {"GET", "SET", "NOSUCH", "COMMAND", "INFO", "EVAL", "a-name-longer-than-any-in-the-table", ""}) {
    EXPECT_EQ(of({name}).route, Route::kOrdinary) << name;
  }
}

TEST(CommandTable, NamesAreFoundInAnyCase) {
  EXPECT_EQ(of({"blob.tcp_get", "k"}).route, Route::kBlobGet);
  EXPECT_EQ(of({"Blob.Tcp_Set", "k", "v"}).route, Route::kBlobSet);
  EXPECT_EQ(of({"pInG"}).route, Route::kLocal);
  EXPECT_EQ(of({"mUlTi"}).route, Route::kRefused);
}

TEST(CommandTable, R7WhatChangesOrHoldsASharedConnectionIsRefusedWithAText) {
  for (const std::string_view name :
       {"MULTI",  "EXEC",       "WATCH",    "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "BLPOP",   "BRPOP",  "BLMOVE",
        "BLMPOP", "BRPOPLPUSH", "BZMPOP",   "BZPOPMIN",  "BZPOPMAX",   "MONITOR",    "AUTH",    "WAIT",   "WAITAOF",
        "SYNC",   "PSYNC",      "REPLCONF", "ASKING",    "READONLY",   "READWRITE",  "UNWATCH", "DISCARD"}) {
    const Classified command = of({name});
    EXPECT_EQ(command.route, Route::kRefused) << name;
    EXPECT_TRUE(command.refusal.starts_with("ERR keyferry: ")) << name;
  }
}

TEST(CommandTable, ALineOfHttpEndsTheClientThatSentItAndIsNeverForwarded) {
  EXPECT_EQ(of({"POST", "/", "HTTP/1.1"}).route, Route::kHangUp);
  EXPECT_EQ(of({"host:", "localhost"}).route, Route::kHangUp);
}

TEST(CommandTable, RdmaCommandsFromASocketNameTheTcpForm) {
  for (const std::string_view name : {"BLOB.RDMA_HELLO", "BLOB.RDMA_GET", "BLOB.RDMA_SET"}) {
    EXPECT_EQ(of({name}).route, Route::kRefused) << name;
    EXPECT_NE(of({name}).refusal.find("BLOB.TCP_"), std::string_view::npos) << name;
  }
}

TEST(CommandTable, StreamReadsAreRefusedOnlyWhenTheyBlock) {
  EXPECT_EQ(of({"XREAD", "COUNT", "1", "STREAMS", "s", "0"}).route, Route::kOrdinary);
  EXPECT_EQ(of({"xread", "block", "0", "streams", "s", "$"}).route, Route::kRefused);
  EXPECT_EQ(of({"XREADGROUP", "GROUP", "g", "c", "BLOCK", "5", "STREAMS", "s", ">"}).route, Route::kRefused);
  // A group, a consumer or a stream that is named so is not the option.
  EXPECT_EQ(of({"XREADGROUP", "GROUP", "block", "BLOCK", "STREAMS", "s", ">"}).route, Route::kOrdinary);
  EXPECT_EQ(of({"XREAD", "STREAMS", "BLOCK", "0"}).route, Route::kOrdinary);
}

TEST(CommandTable, ScriptsAreForwardedButTheDebuggerIsNot) {
  EXPECT_EQ(of({"SCRIPT", "LOAD", "return 1"}).route, Route::kOrdinary);
  EXPECT_EQ(of({"script", "debug", "yes"}).route, Route::kRefused);
  EXPECT_EQ(of({"SCRIPT"}).route, Route::kOrdinary);
}

}  // namespace
}  // namespace keyferry::gateway
