#include <gtest/gtest.h>

#include "tests/unit/transfer/rig.h"
#include "transfer/engine.h"

namespace keyferry::test {
namespace {

using transfer::Expiry;
using transfer::SetResult;
using transfer::StoreExtras;

const std::string kValue = pattern(9000, 1);

/// The commands after the lane's own, the store's windows left out.
std::vector<Script::Command> commands_of(const Rig& rig) {
  std::vector<Script::Command> all = rig.server.commands();
  while (!all.empty() && all.front()[0] != "BLOB.RDMA_SET") all.erase(all.begin());
  for (Script::Command& command : all) {
    if (command[0] == "BLOB.RDMA_SET") command.resize(2);
  }
  return all;
}

TEST(EngineExtras, TheExpiryFollowsTheValueOnTheSameLaneBeforeAnythingElse) {
  Rig rig({Rig::lane()
               .answer(say("+OK\r\n"))
               .answer(say(":1\r\n"))
               .answer(say("+OK\r\n"))
               .answer(say(":1\r\n"))
               .answer(say("+OK\r\n"))
               .until_closed()});
  rig.start();
  const auto first = rig.begin_set("a", rig.lease_with(kValue), 1, {Expiry{false, 5000}, ""});
  const auto second = rig.begin_set("b", rig.lease_with(kValue), 1, {Expiry{true, 1700000000123}, ""});
  EXPECT_EQ(rig.result_of(first).kind, SetResult::Kind::kStored);
  EXPECT_EQ(rig.result_of(second).kind, SetResult::Kind::kStored);
  EXPECT_EQ(rig.set("c", kValue).kind, SetResult::Kind::kStored);
  EXPECT_EQ(commands_of(rig), (std::vector<Script::Command>{{"BLOB.RDMA_SET", "a"},
                                                            {"PEXPIRE", "a", "5000"},
                                                            {"BLOB.RDMA_SET", "b"},
                                                            {"PEXPIREAT", "b", "1700000000123"},
                                                            {"BLOB.RDMA_SET", "c"}}));
  EXPECT_EQ(rig.server.accepted(), 1U);
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineExtras, AnExpiryThatFailsRemovesTheValueAndGivesItsMemoryBackToTheCaller) {
  Rig rig({Rig::lane()
               .answer(say("+OK\r\n"))
               .answer(say("-NOPERM no\r\n"))
               .answer(say(":1\r\n"))
               .answer(say("+OK\r\n"))
               .until_closed()});
  rig.start();
  {
    const SetResult result = rig.set("a", kValue, {Expiry{false, 5000}, ""});
    EXPECT_EQ(result.kind, SetResult::Kind::kUndone);
    EXPECT_EQ(result.text, "-NOPERM no");
    EXPECT_EQ(Rig::bytes_of(result.loan), kValue);
  }
  EXPECT_EQ(rig.set("b", kValue).kind, SetResult::Kind::kStored);
  EXPECT_EQ(commands_of(rig),
            (std::vector<Script::Command>{
                {"BLOB.RDMA_SET", "a"}, {"PEXPIRE", "a", "5000"}, {"UNLINK", "a"}, {"BLOB.RDMA_SET", "b"}}));
  EXPECT_EQ(rig.server.accepted(), 1U);
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineExtras, AValueStoredBesideTakesTheKeysPlaceWithItsExpiry) {
  Rig rig({Rig::lane().answer(say("+OK\r\n")).answer(say(":1\r\n")).answer(say("+OK\r\n")).until_closed()});
  rig.start();
  EXPECT_EQ(rig.set("beside", kValue, {Expiry{false, 5000}, "key"}).kind, SetResult::Kind::kStored);
  EXPECT_EQ(commands_of(rig),
            (std::vector<Script::Command>{
                {"BLOB.RDMA_SET", "beside"}, {"PEXPIRE", "beside", "5000"}, {"RENAME", "beside", "key"}}));
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineExtras, AStoreThatIsRefusedHasNoSequel) {
  Rig rig({Rig::lane().answer(say("-WRONGTYPE no\r\n")).answer(say("+OK\r\n")).until_closed()});
  rig.start();
  {
    const SetResult result = rig.set("a", kValue, {Expiry{false, 5000}, ""});
    EXPECT_EQ(result.kind, SetResult::Kind::kRefused);
    EXPECT_EQ(result.text, "-WRONGTYPE no");
    EXPECT_FALSE(result.stored);
  }
  EXPECT_EQ(rig.set("b", kValue).kind, SetResult::Kind::kStored);
  EXPECT_EQ(commands_of(rig), (std::vector<Script::Command>{{"BLOB.RDMA_SET", "a"}, {"BLOB.RDMA_SET", "b"}}));
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineExtras, AConnectionLostBeforeTheExpirySaysThatTheValueIsStoredAndNeedsNoFence) {
  Rig rig({Rig::lane().answer(say("+OK\r\n")).answer([](const Script::Command&) { return std::string(); }).close(),
           Rig::lane().answer(say("+OK\r\n")).until_closed()});
  rig.start();
  const SetResult result = rig.set("a", kValue, {Expiry{false, 5000}, ""});
  EXPECT_EQ(result.kind, SetResult::Kind::kLost);
  EXPECT_TRUE(result.stored);
  EXPECT_EQ(rig.set("b", kValue).kind, SetResult::Kind::kStored);
  rig.until_regions("free", Rig::kRegions);
  EXPECT_EQ(rig.status()["pool"]["regions"]["quarantined"], 0U);
  rig.fabric.wait_for_owed(0);
}

TEST(EngineExtras, AStopBetweenTheValueAndItsExpiryIsAnsweredAndFreesEverything) {
  Rig rig(
      {Rig::lane().answer(say("+OK\r\n")).answer([](const Script::Command&) { return std::string(); }).until_closed()});
  rig.start();
  const auto slot = rig.begin_set("a", rig.lease_with(kValue), 1, {Expiry{false, 5000}, ""});
  while (commands_of(rig).size() < 2) std::this_thread::yield();
  rig.stop();
  const SetResult result = rig.result_of(slot);
  EXPECT_EQ(result.kind, SetResult::Kind::kLost);
  EXPECT_TRUE(result.stored);
}

}  // namespace
}  // namespace keyferry::test
