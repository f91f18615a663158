#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/transfer/rig.h"

namespace keyferry::test {
namespace {

using Kind = ScriptedFabric::Kind;
using Answer = ScriptedFabric::Answer;
using transfer::FetchResult;
using transfer::SetResult;

void expect_nothing_left(const ScriptedFabric& fabric) {
  const fabric::FabricCounters counters = fabric.counters();
  EXPECT_EQ(counters.endpoints, 0U);
  EXPECT_EQ(counters.av_entries, 0U);
  EXPECT_EQ(counters.registrations, 0U);
  EXPECT_EQ(counters.registered_bytes, 0U);
  EXPECT_EQ(counters.owed, 0U);
  EXPECT_EQ(fabric.owed_underflows(), 0U);
}

TEST(EngineStop, R90NothingIsLeftOfAnIdleEngine) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  rig.stop();
  expect_nothing_left(rig.fabric);
  EXPECT_EQ(rig.engine->unavailable_reason(), "stopping");
  rig.server.wait_ended();
}

TEST(EngineStop, EverythingInFlightIsAnswered) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  const auto busy = rig.begin_set("busy", rig.lease_with("value"), 1);
  rig.fabric.wait_for_owed(1);
  const auto waiting_get = rig.begin_get("waiting", 10);
  const auto waiting_set = rig.begin_set("waiting", rig.lease_with("other"), 1);
  const transfer::Loan rest = rig.lease((Rig::kRegions - 3) * Rig::kRegion);
  std::optional<base::Result<transfer::Loan>> lease;
  rig.engine->lease(1, 10, true, rig.mail,
                    [&](base::Result<transfer::Loan> result) { lease.emplace(std::move(result)); });
  rig.until_status(
      [](const nlohmann::json& page) { return page["waiting"]["leases"] == 1 && page["waiting"]["transfers"] == 2; });

  rig.stop();
  EXPECT_EQ(rig.result_of(busy).kind, SetResult::Kind::kLost);
  EXPECT_EQ(rig.result_of(waiting_get).kind, FetchResult::Kind::kRepeat);
  SetResult set = rig.result_of(waiting_set);
  EXPECT_EQ(set.kind, SetResult::Kind::kRepeat);
  EXPECT_EQ(set.text, "stopping");
  EXPECT_EQ(Rig::bytes_of(set.loan), "other");
  rig.mail.until([&] { return lease.has_value(); });
  EXPECT_EQ(lease->error().code, ECANCELED);
  expect_nothing_left(rig.fabric);
}

TEST(EngineStop, R88ItWaitsForTheFencesBeforeItDeregisters) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  const auto busy = rig.begin_get("busy", 10);
  rig.fabric.wait_for_owed(1);
  bool stopped = false;
  rig.engine->stop(rig.mail, [&] { stopped = true; });
  rig.fabric.wait_for(Kind::kCloseEndpoint, 1);
  EXPECT_EQ(rig.regions("quarantined"), 1U);
  EXPECT_EQ(rig.fabric.count(Kind::kDeregister), 0U);
  EXPECT_FALSE(stopped);
  rig.fabric.release_held(Kind::kCloseEndpoint);
  rig.mail.until([&] { return stopped; });
  EXPECT_EQ(rig.result_of(busy).kind, FetchResult::Kind::kLost);
  expect_nothing_left(rig.fabric);
}

TEST(EngineStop, AReplyThatIsThereAlreadyWins) {
  Rig rig({Rig::lane().answer(say("$-1\r\n")).until_closed()});
  rig.start();
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
  rig.stop();
  expect_nothing_left(rig.fabric);
}

TEST(EngineStop, ItEndsWhileACommandCannotBeWritten) {
  for (const bool early_reply : {true, false}) {
    Script script = Rig::lane();
    if (early_reply) script.hold().send("$-1\r\n");
    Rig rig({script.hold().until_closed()});
    rig.start();
    const auto busy = rig.begin_get(std::string(std::size_t{16} << 20U, 'k'), 10);
    rig.fabric.wait_for_owed(1);
    if (early_reply) rig.server.go();
    rig.stop();
    const FetchResult::Kind kind = rig.result_of(busy).kind;
    EXPECT_TRUE(kind == FetchResult::Kind::kLost || (early_reply && kind == FetchResult::Kind::kMissing));
    expect_nothing_left(rig.fabric);
  }
}

TEST(EngineStop, ItEndsWhileALaneIsDiallingOrShakingHands) {
  for (const Script& script : {Script().until_closed(), Script().handshake().until_closed()}) {
    Rig rig({script});
    bool stopped = false;
    rig.engine->start(rig.mail, [] {});
    rig.server.wait_accepted(1);
    rig.engine->stop(rig.mail, [&] { stopped = true; });
    rig.mail.until([&] { return stopped; });
    expect_nothing_left(rig.fabric);
  }
}

TEST(EngineStop, AnEndpointThatOpensAfterTheStopIsClosed) {
  Rig rig({Script().handshake().until_closed()});
  bool stopped = false;
  rig.fabric.set_answer(Kind::kOpenEndpoint, Answer::kHold);
  rig.engine->start(rig.mail, [] {});
  rig.fabric.wait_for(Kind::kOpenEndpoint, 1);
  rig.engine->stop(rig.mail, [&] { stopped = true; });
  EXPECT_EQ(rig.status()["lanes"][0]["state"], "draining");
  EXPECT_FALSE(stopped);
  rig.fabric.release_held(Kind::kOpenEndpoint);
  rig.mail.until([&] { return stopped; });
  expect_nothing_left(rig.fabric);
}

TEST(EngineStop, ItEndsInTheMiddleOfTheRegistration) {
  Rig rig({Rig::lane().until_closed()});
  bool stopped = false;
  rig.fabric.set_answer(Kind::kRegister, Answer::kHold);
  rig.engine->start(rig.mail, [] {});
  rig.fabric.wait_for(Kind::kRegister, 1);
  rig.engine->stop(rig.mail, [&] { stopped = true; });
  EXPECT_EQ(rig.status()["unavailable_reason"], "stopping");
  rig.fabric.release_held(Kind::kRegister);
  rig.mail.until([&] { return stopped; });
  EXPECT_EQ(rig.fabric.count(Kind::kRegister), 1U);
  expect_nothing_left(rig.fabric);
}

TEST(EngineStop, ARegistrationThatCannotBeClosedDoesNotHoldItUp) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  rig.fabric.fail_next(Kind::kDeregister, "busy", -16);
  rig.stop();
  EXPECT_EQ(rig.fabric.counters().registrations, 1U);
  EXPECT_EQ(rig.fabric.count(Kind::kDeregister), Rig::kRegions) << "never closed twice";
}

TEST(EngineStop, AfterwardsEverythingIsAnsweredAtOnce) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  transfer::Loan loan = rig.lease(10);
  rig.stop();
  EXPECT_EQ(rig.try_lease(10).error().code, ECANCELED);
  EXPECT_EQ(rig.result_of(rig.begin_set("key", std::move(loan))).text, "stopping");
}

}  // namespace
}  // namespace keyferry::test
