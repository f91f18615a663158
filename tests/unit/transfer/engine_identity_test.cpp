#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/transfer/rig.h"

// Lanes belong to one identity each and share one limit (design: Lane; R54).

namespace keyferry::test {
namespace {

using transfer::FetchResult;
using transfer::SetResult;

const upstream::Identity kAnn{"ann", "secret", 0};
const upstream::Identity kThird{"", "", 3};

void two_lanes(transfer::EngineOptions& options) {
  options.lanes = 2;
}

bool has(const std::vector<Script::Command>& commands, const Script::Command& wanted) {
  return std::find(commands.begin(), commands.end(), wanted) != commands.end();
}

Script gives(const ScriptedFabric& fabric, const std::string& bytes) {
  return Rig::lane().serve(give(fabric, bytes));
}

TEST(EngineIdentity, R54EachIdentityReadsByItsOwnLane) {
  const std::string ours = pattern(5000, 1), anns = pattern(6000, 2), thirds = pattern(7000, 3);
  Rig rig(
      [&](ScriptedFabric& fabric) {
        return std::vector<Script>{gives(fabric, ours), gives(fabric, anns), gives(fabric, thirds)};
      },
      [](transfer::EngineOptions& options) { options.lanes = 3; });
  rig.start();
  EXPECT_EQ(Rig::bytes_of(rig.get_as(kAnn, "key", anns.size())), anns);
  EXPECT_EQ(Rig::bytes_of(rig.get_as(kThird, "key", thirds.size())), thirds);
  EXPECT_EQ(Rig::bytes_of(rig.get("key", ours.size())), ours);
  EXPECT_EQ(rig.server.accepted(), 3U);
  EXPECT_TRUE(has(rig.server.commands(1), {"AUTH", "ann", "secret"}));
  EXPECT_TRUE(has(rig.server.commands(2), {"SELECT", "3"}));
  EXPECT_FALSE(has(rig.server.commands(0), {"AUTH", "ann", "secret"}));
  // Each is used again.
  EXPECT_EQ(Rig::bytes_of(rig.get_as(kAnn, "key", anns.size())), anns);
  EXPECT_EQ(rig.server.accepted(), 3U);
}

TEST(EngineIdentity, TheLaneThatIsIdleLongestGivesWayToAnotherIdentity) {
  const std::string bytes = pattern(5000, 1);
  Rig rig([&](ScriptedFabric& fabric) { return std::vector<Script>{gives(fabric, bytes)}; }, two_lanes);
  rig.start();
  EXPECT_EQ(rig.get_as(kAnn, "key", bytes.size()).kind, FetchResult::Kind::kValue);
  EXPECT_EQ(rig.get("key", bytes.size()).kind, FetchResult::Kind::kValue);
  EXPECT_EQ(rig.get_as(kThird, "key", bytes.size()).kind, FetchResult::Kind::kValue);
  // Ann's, the second connection, was idle longest.
  rig.server.wait_ended(1);
  const nlohmann::json page = rig.until_status([](const nlohmann::json& one) { return one["lanes"].size() == 2; });
  EXPECT_EQ(page["lanes"][0]["user"], "");
  EXPECT_EQ(page["lanes"][1]["database"], 3);
}

TEST(EngineIdentity, ALaneOfAnotherIdentityIsGivenUpWhenItIsIdleForLong) {
  const std::string bytes = pattern(5000, 1);
  Rig rig(
      [&](ScriptedFabric& fabric) {
        const Script::Answer value = give(fabric, bytes);
        return std::vector<Script>{Rig::lane().serve([value](const Script::Command& command) {
          return command[0] == "PING" ? std::string("+PONG\r\n") : value(command);
        })};
      },
      [](transfer::EngineOptions& options) {
        options.lanes = 2;
        options.lane_check = std::chrono::milliseconds(20);
      });
  rig.start();
  EXPECT_EQ(rig.get_as(kAnn, "key", bytes.size()).kind, FetchResult::Kind::kValue);
  rig.server.wait_ended(1);
  const nlohmann::json page = rig.until_status([](const nlohmann::json& one) { return one["lanes"].size() == 1; });
  EXPECT_EQ(page["lanes"][0]["user"], "");
}

TEST(EngineIdentity, WhoCameFirstHasALaneMadeBeforeABusyIdentityTakesTheNext) {
  const std::string bytes = pattern(5000, 1);
  Rig rig([&](ScriptedFabric& fabric) {
    return std::vector<Script>{Rig::lane().hold().answer(give(fabric, bytes)).serve(give(fabric, bytes)),
                               gives(fabric, bytes)};
  });
  rig.start();
  const auto first = rig.begin_get("first", 5000);
  rig.fabric.wait_for_owed(1);
  const auto anns = rig.begin_get("anns", 5000, kAnn);
  const auto second = rig.begin_get("second", 5000);
  rig.server.go(0);
  for (const auto& slot : {first, anns, second}) EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kValue);
  EXPECT_EQ(rig.server.accepted(), 3U) << "one for each in turn";
  EXPECT_FALSE(has(rig.server.commands(0), {"BLOB.RDMA_GET", "second"}));
}

TEST(EngineIdentity, R54WhatOneIdentityIsRefusedSaysNothingOfAnother) {
  const std::string bytes = pattern(5000, 1);
  const Script refuses =
      Script()
          .handshake()
          .answer(say("-NOPERM User ann has no permissions to run the 'blob.rdma_hello' command\r\n"))
          .until_closed();
  Rig rig([&](ScriptedFabric& fabric) { return std::vector<Script>{gives(fabric, bytes), refuses}; }, two_lanes);
  rig.start();
  EXPECT_EQ(rig.get_as(kAnn, "key", 10).text, "noperm");
  EXPECT_TRUE(rig.engine->available());
  EXPECT_EQ(rig.get("key", bytes.size()).kind, FetchResult::Kind::kValue);
}

TEST(EngineIdentity, AnIdentityThatMayGoOnWhereTheConfigurationsIsNotAllowedTo) {
  const std::string bytes = pattern(5000, 1);
  const Script refuses =
      Script()
          .handshake()
          .answer(say("-NOPERM User default has no permissions to run the 'blob.rdma_hello' command\r\n"))
          .until_closed();
  Rig rig(
      [&](ScriptedFabric& fabric) {
        return std::vector<Script>{refuses, gives(fabric, bytes)};
      },
      [](transfer::EngineOptions& options) { options.warm = 0; });
  rig.start();
  EXPECT_EQ(rig.get("key", 10).text, "noperm");
  EXPECT_EQ(rig.engine->unavailable_reason(), "noperm");
  EXPECT_EQ(rig.engine->unavailable_reason(kAnn), "");
  EXPECT_EQ(rig.get_as(kAnn, "key", bytes.size()).kind, FetchResult::Kind::kValue);
}

TEST(EngineIdentity, APasswordThatTheServerRefusesSendsTheTransferTheOtherWayAtOnce) {
  const std::string bytes = pattern(5000, 1);
  Rig rig(
      [&](ScriptedFabric& fabric) {
        return std::vector<Script>{gives(fabric, bytes), Script().answer(say("-WRONGPASS no\r\n")).until_closed()};
      },
      two_lanes);
  rig.start();
  SetResult result = rig.result_of(rig.begin_set("key", rig.lease_with("value"), 0, {}, kAnn));
  EXPECT_EQ(result.kind, SetResult::Kind::kRepeat);
  EXPECT_EQ(result.text, "no_lane");
  EXPECT_EQ(Rig::bytes_of(result.loan), "value");
  EXPECT_EQ(rig.get("key", bytes.size()).kind, FetchResult::Kind::kValue);
}

}  // namespace
}  // namespace keyferry::test
