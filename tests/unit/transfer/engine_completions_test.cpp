#include <gtest/gtest.h>

#include <set>

#include "tests/unit/transfer/rig.h"

// What a fabric can do that a real one can't be told to: completions too many, missing, late past everything; a queue
// that is lost; registrations that fail in the middle.

namespace keyferry::test {
namespace {

using Kind = ScriptedFabric::Kind;
using Answer = ScriptedFabric::Answer;
using transfer::FetchResult;
using transfer::SetResult;

Script lost_lane() {
  return Rig::lane().answer(say("")).close();
}
Script next_lane() {
  return Rig::lane().serve(say("$-1\r\n"));
}

void expect_base(Rig& rig, std::uint64_t regions = Rig::kRegions) {
  rig.until_regions("free", regions);
  EXPECT_EQ(rig.fabric.counters().registered_bytes, regions * Rig::kRegion);
  rig.stop();
  const fabric::FabricCounters counters = rig.fabric.counters();
  EXPECT_EQ(counters.registered_bytes, 0U);
  EXPECT_EQ(counters.endpoints, 0U);
  EXPECT_EQ(counters.av_entries, 0U);
  EXPECT_EQ(counters.owed, 0U);
  EXPECT_EQ(rig.fabric.owed_underflows(), 0U);
}

TEST(EngineCompletions, R88AnAnswerTooManyFreesNothingTwice) {
  Rig rig({lost_lane(), lost_lane(), next_lane()});
  rig.fabric.answer_twice(Kind::kCloseEndpoint);
  rig.start();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(rig.get("key", 2 * Rig::kRegion).kind, FetchResult::Kind::kLost);
    rig.until_regions("free", Rig::kRegions);
    // What was freed once belongs to somebody else by now.
    const std::string others = pattern(Rig::kRegions * Rig::kRegion, 11);
    const transfer::Loan loan = rig.lease_with(others);
    EXPECT_EQ(rig.regions("leased"), Rig::kRegions);
    EXPECT_EQ(Rig::bytes_of(loan), others);
  }
  expect_base(rig);
}

TEST(EngineCompletions, R88AFenceWithoutAnAnswerKeepsItsMemoryAndOnlyThat) {
  Rig rig({lost_lane(), next_lane()});
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  rig.start();
  EXPECT_EQ(rig.get("key", 3 * Rig::kRegion).kind, FetchResult::Kind::kLost);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rig.get("key", Rig::kRegion).kind, FetchResult::Kind::kMissing);
  const nlohmann::json page = rig.status();
  EXPECT_EQ(page["pool"]["bytes"]["quarantined"], 3 * Rig::kRegion);
  EXPECT_GT(page["quarantine"][0]["seconds"].get<double>(), 0.0);
  EXPECT_EQ(page["quarantine"][0]["reason"], "connection_lost");
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kDeliver);
  rig.fabric.release_held(Kind::kCloseEndpoint);
  expect_base(rig);
}

TEST(EngineCompletions, AnEndpointThatNeverOpensCostsItsLaneAndNoTransfer) {
  Rig rig({next_lane()}, [](transfer::EngineOptions& options) {
    options.warm = 0;
    options.upstream_wait = std::chrono::milliseconds(50);
  });
  rig.fabric.set_answer(Kind::kOpenEndpoint, Answer::kHold);
  rig.start();
  EXPECT_EQ(rig.get("key", 10).text, "no_lane");
  rig.fabric.set_answer(Kind::kOpenEndpoint, Answer::kDeliver);
  rig.fabric.release_held(Kind::kOpenEndpoint);
  rig.until_status(
      [](const nlohmann::json& page) { return page["lanes"].size() == 1 && page["lanes"][0]["state"] == "idle"; });
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
  expect_base(rig);
}

TEST(EngineCompletions, C2AnInsertionWithoutAnAnswerReplacesTheLaneInTime) {
  Rig rig({Rig::lane().until_closed(), next_lane()}, [](transfer::EngineOptions& options) {
    options.warm = 0;
    options.connect.timeout = std::chrono::milliseconds(100);
    options.upstream_wait = std::chrono::minutes(5);
  });
  rig.fabric.set_answer(Kind::kInsertPeers, Answer::kHold);
  rig.start();
  const auto slot = rig.begin_get("key", 10);
  rig.fabric.wait_for(Kind::kCloseEndpoint, 1);
  rig.fabric.set_answer(Kind::kInsertPeers, Answer::kDeliver);
  // The late answer meets a lane that is gone.
  rig.fabric.release_held(Kind::kInsertPeers);
  EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kMissing);
  expect_base(rig);
}

TEST(EngineCompletions, R88AReplyDelayedPastEverythingFindsNothingOfItsOwn) {
  // The server answers, and writes, when client, grace, fence and the memory's next use are long over.
  Rig rig(
      {Rig::lane().answer(say("")).hold().send("*2\r\n:10\r\n:1\r\n").until_closed(), next_lane()},
      [](transfer::EngineOptions& options) { options.orphan_grace = std::chrono::milliseconds(1); },
      [] {
        fabric::Traits traits = Rig::small_traits();
        traits.deregistration_fences = true;
        return traits;
      }());
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  const auto slot = rig.begin_get("key", 2 * Rig::kRegion);
  rig.fabric.wait_for_owed(1);
  rig.engine->leave(slot->ticket);
  EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kLeft);
  rig.until_regions("free", Rig::kRegions);
  const std::string others = pattern(Rig::kRegions * Rig::kRegion, 12);
  transfer::Loan loan = rig.lease_with(others);
  rig.server.go(0);
  EXPECT_FALSE(write_windows(rig.fabric, windows_of(rig.server.commands(0).back(), 2), std::string(100, '!')))
      << "the key names nothing any more";
  rig.server.wait_ended(0);
  EXPECT_EQ(Rig::bytes_of(loan), others);
  loan = {};
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
  expect_base(rig);
}

TEST(EngineCompletions, R74ALostQueueFencesWhatIsInFlightAndEndsTheFabricsUse) {
  Rig rig({Rig::lane().answer(say("")).until_closed(), next_lane()},
          [](transfer::EngineOptions& options) { options.lane_check = std::chrono::milliseconds(20); });
  rig.start();
  const auto slot = rig.begin_set("key", rig.lease_with("value"), 1);
  rig.fabric.wait_for_owed(1);
  rig.fabric.lose_queue();
  EXPECT_EQ(rig.result_of(slot).kind, SetResult::Kind::kLost);
  EXPECT_TRUE(rig.metric_has("keyferry_fences_total{reason=\"queue_lost\"} 1"));
  EXPECT_EQ(rig.engine->unavailable_reason(), "queue_lost");
  SetResult repeat = rig.set("key", "value");
  EXPECT_EQ(repeat.kind, SetResult::Kind::kRepeat);
  EXPECT_EQ(repeat.text, "queue_lost");
  repeat.loan = {};
  EXPECT_EQ(rig.server.accepted(), 1U) << "no lane is made there any more";
  expect_base(rig);
}

TEST(EngineCompletions, R90RegistrationsThatFailInTheMiddleLeaveTheRestUsableAndNothingBehind) {
  for (const std::size_t k : {std::size_t{1}, std::size_t{4}, std::size_t{Rig::kRegions}}) {
    Rig rig({next_lane()});
    rig.fabric.fail_at(Kind::kRegister, k, "can't register: Cannot allocate memory", -12);
    rig.start();
    rig.until_regions("closed", 1);
    rig.until_regions("free", Rig::kRegions - 1);
    EXPECT_EQ(rig.get("key", (Rig::kRegions - 1) * Rig::kRegion).kind, FetchResult::Kind::kMissing);
    expect_base(rig, Rig::kRegions - 1);
  }
}

TEST(EngineCompletions, C20ADeregistrationThatFailsIsFinalCountedAndNeverTriedAgain) {
  fabric::Traits traits = Rig::small_traits();
  traits.deregistration_fences = true;
  Rig rig({lost_lane(), next_lane()}, {}, traits);
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  rig.fabric.fail_next(Kind::kDeregister, "busy", -16);
  EXPECT_EQ(rig.get("key", Rig::kRegion).kind, FetchResult::Kind::kLost);
  rig.until_regions("closed", 1);
  EXPECT_EQ(rig.status()["fabrics"][0]["close_failures"], 1);
  rig.stop();
  std::set<std::uint64_t> closed;
  for (const ScriptedFabric::Call& call : rig.fabric.calls()) {
    if (call.kind != Kind::kDeregister) continue;
    EXPECT_TRUE(closed.insert(static_cast<std::uint64_t>(call.registration)).second) << "closed twice";
  }
  EXPECT_EQ(closed.size(), Rig::kRegions);
  EXPECT_EQ(rig.fabric.counters().registered_bytes, Rig::kRegion) << "what could not be closed stays";
}

}  // namespace
}  // namespace keyferry::test
