#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/transfer/rig.h"

// What ends a transfer from this side: a deadline, the end of its client, a server that is dead elsewhere too. Each
// closes the lane, none gives memory back early (promise 4, C13).

namespace keyferry::test {
namespace {

using Kind = ScriptedFabric::Kind;
using Answer = ScriptedFabric::Answer;
using transfer::FetchResult;
using transfer::SetResult;

Script silent_lane() {
  return Rig::lane().answer(say("")).until_closed();
}
Script next_lane() {
  return Rig::lane().serve(say("$-1\r\n"));
}

TEST(EngineLimits, C13ATransferBeyondItsDeadlineIsFencedAndItsMemoryWaitsForThat) {
  Rig rig({silent_lane(), next_lane()}, [](transfer::EngineOptions& options) {
    options.min_rate = base::kMiB;
    options.deadline_base = std::chrono::milliseconds(30);
  });
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  rig.start();
  const SetResult result = rig.set("key", pattern(5000, 1));
  EXPECT_EQ(result.kind, SetResult::Kind::kLost);
  EXPECT_NE(result.text.find("transfer.min_rate"), std::string::npos) << result.text;
  EXPECT_EQ(rig.status()["quarantine"][0]["reason"], "deadline");
  EXPECT_EQ(rig.regions("quarantined"), 2U);
  rig.fabric.release_held(Kind::kCloseEndpoint);
  rig.until_regions("free", Rig::kRegions);
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
}

TEST(EngineLimits, ADeadlineGrowsWithTheBytesAndNoRateMeansNone) {
  for (const std::uint64_t rate : {std::uint64_t{1}, std::uint64_t{0}}) {
    Rig rig({Rig::lane().answer(say("")).hold().send("+OK\r\n").until_closed()}, [&](transfer::EngineOptions& options) {
      options.min_rate = rate;
      options.deadline_base = std::chrono::milliseconds(1);
    });
    rig.start();
    // 5000 bytes at 1 byte/s: far beyond this test.
    const auto slot = rig.begin_set("key", rig.lease_with(pattern(5000, 2)), 1);
    rig.fabric.wait_for_owed(1);
    rig.server.go();
    EXPECT_EQ(rig.result_of(slot).kind, SetResult::Kind::kStored);
  }
}

TEST(EngineLimits, TheEndOfAClientFencesWhatItHasOutAndRefusesWhatWaits) {
  Rig rig({silent_lane(), next_lane()});
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  const auto loan_for = [&](std::uint64_t client) { return std::move(rig.try_lease(10, true, client).value()); };
  const auto out = rig.begin_set("out", loan_for(7));
  rig.fabric.wait_for_owed(1);
  const auto waits = rig.begin_set("waits", loan_for(7));
  const auto others = rig.begin_get("others", 10);
  std::optional<base::Result<transfer::Loan>> lease;
  rig.engine->lease(7, Rig::kRegions * Rig::kRegion, true, rig.mail,
                    [&](base::Result<transfer::Loan> result) { lease.emplace(std::move(result)); });
  rig.until_status(
      [](const nlohmann::json& page) { return page["waiting"]["leases"] == 1 && page["waiting"]["transfers"] == 2; });

  rig.engine->end_client(7);
  EXPECT_EQ(rig.result_of(out).kind, SetResult::Kind::kLost);
  {
    const SetResult refused = rig.result_of(waits);
    EXPECT_EQ(refused.kind, SetResult::Kind::kRefused);
    EXPECT_TRUE(refused.text.starts_with("-ERR keyferry: ")) << refused.text;
  }
  rig.mail.until([&] { return lease.has_value(); });
  EXPECT_EQ(lease->error().code, ECANCELED);
  EXPECT_EQ(rig.status()["quarantine"][0]["reason"], "client_ended");
  EXPECT_EQ(rig.result_of(others).kind, FetchResult::Kind::kMissing);
  rig.fabric.release_held(Kind::kCloseEndpoint);
  rig.until_regions("free", Rig::kRegions);
  rig.engine->end_client(7);
  EXPECT_EQ(rig.get("again", 10).kind, FetchResult::Kind::kMissing);
}

void probe_soon(transfer::EngineOptions& options) {
  options.probe_after = std::chrono::milliseconds(20);
  options.probe_wait = std::chrono::milliseconds(100);
}

/// Long enough for any machine.
void probe_soon_and_wait(transfer::EngineOptions& options) {
  options.probe_after = std::chrono::milliseconds(20);
  options.probe_wait = std::chrono::minutes(2);
}

TEST(EngineLimits, R35ANodeThatIsSilentOnAnotherConnectionTooEndsWhatItOwes) {
  // The second connection is the probe's: one never answers at all, the other stops answering.
  for (const bool shakes_hands : {false, true}) {
    Script probe = shakes_hands ? Script().handshake().until_closed() : Script().until_closed();
    Rig rig({silent_lane(), std::move(probe), Rig::lane().serve(say("$-1\r\n"))}, probe_soon);
    rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
    rig.start();
    const FetchResult result = rig.get("key", 10);
    EXPECT_EQ(result.kind, FetchResult::Kind::kLost);
    EXPECT_NE(result.text.find("fails its probe"), std::string::npos) << result.text;
    EXPECT_EQ(rig.status()["quarantine"][0]["reason"], "probe");
    rig.fabric.release_held(Kind::kCloseEndpoint);
    rig.until_regions("free", Rig::kRegions);
  }
}

TEST(EngineLimits, R35AnAnswerOfAnyKindIsLife) {
  for (const char* answer :
       {"+PONG\r\n", "-BUSY Valkey is busy running a script.\r\n", "-LOADING Valkey is loading\r\n"}) {
    Rig rig(
        {Rig::lane().answer(say("")).hold().send("$-1\r\n").until_closed(), Script().handshake().serve(say(answer))},
        probe_soon_and_wait);
    rig.start();
    const auto slot = rig.begin_get("key", 10);
    rig.server.wait_accepted(2);
    const auto pings = [&] {
      std::size_t count = 0;
      for (const Script::Command& command : rig.server.commands(1)) count += command[0] == "PING" ? 1 : 0;
      return count;
    };
    while (pings() < 3) std::this_thread::yield();
    EXPECT_FALSE(slot->has_value()) << answer;
    rig.server.go();
    EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kMissing) << answer;
    // Nothing is owed any more: the probe's connection goes.
    rig.server.wait_ended(1);
  }
}

TEST(EngineLimits, R35AServerThatTurnsTheProbeAwayIsAlive) {
  Rig rig({Rig::lane().answer(say("")).hold().send("$-1\r\n").until_closed(),
           Script().send("-ERR max number of clients reached\r\n").close()},
          probe_soon_and_wait);
  rig.start();
  const auto slot = rig.begin_get("key", 10);
  rig.server.wait_accepted(4);
  EXPECT_FALSE(slot->has_value());
  rig.server.go();
  EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kMissing);
}

TEST(EngineLimits, R35ADeadIdleLaneIsFoundBeforeATransferMeetsIt) {
  Rig rig({Rig::lane().answer(say("")).until_closed(), next_lane()}, [](transfer::EngineOptions& options) {
    options.lane_check = std::chrono::milliseconds(20);
    options.connect.timeout = std::chrono::milliseconds(500);
  });
  rig.start();
  rig.until_status([](const nlohmann::json& page) {
    return page["lanes"].size() == 1 && page["lanes"][0]["number"] > 1 && page["lanes"][0]["state"] == "idle";
  });
  EXPECT_EQ(rig.server.commands(0).back(), (Script::Command{"PING"}));
  EXPECT_EQ(rig.regions("quarantined"), 0U);
}

TEST(EngineLimits, R35ALaneThatAnswersItsCheckStaysAndIsNotOwedTo) {
  Rig rig({Rig::lane().answer(say("+PONG\r\n")).answer(say("-LOADING yet\r\n")).serve(say("$-1\r\n"))},
          [](transfer::EngineOptions& options) { options.lane_check = std::chrono::milliseconds(20); });
  rig.start();
  while (rig.server.commands(0).size() < 8) std::this_thread::yield();
  EXPECT_EQ(rig.fabric.counters().owed, 0U);
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
  EXPECT_EQ(rig.server.accepted(), 1U);
}

}  // namespace
}  // namespace keyferry::test
