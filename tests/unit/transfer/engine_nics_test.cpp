#include <gtest/gtest.h>

#include "tests/unit/transfer/rig.h"

// Several NICs: every region is registered with each, a lane is bound to one (design: threads).

namespace keyferry::test {
namespace {

using Kind = ScriptedFabric::Kind;
using Answer = ScriptedFabric::Answer;
using transfer::FetchResult;

/// Two domains; the rig's own fabric is the first.
struct TwoNics {
  explicit TwoNics(std::vector<Script> scripts, const Rig::Adjust& adjust = {},
                   fabric::Traits second_traits = Rig::small_traits())
      : first(Rig::small_traits()),
        second(std::move(second_traits)),
        rig(std::move(scripts),
            [&](transfer::EngineOptions& options) {
              options.lanes = 2;
              if (adjust) adjust(options);
            },
            Rig::small_traits(), {&first, &second}) {}

  ScriptedFabric first;
  ScriptedFabric second;
  Rig rig;
};

Script silent_lane() {
  return Rig::lane().answer(say("")).until_closed();
}
Script next_lane() {
  return Rig::lane().serve(say("$-1\r\n"));
}

TEST(EngineNics, ARegionIsLentOnceEveryNicHasIt) {
  TwoNics nics({next_lane()});
  nics.second.set_answer(Kind::kRegister, Answer::kHold);
  bool ready = false;
  nics.rig.engine->start(nics.rig.mail, [&] { ready = true; });
  nics.second.wait_for(Kind::kRegister, 1);
  EXPECT_EQ(nics.rig.regions("free"), 0U);
  nics.second.set_answer(Kind::kRegister, Answer::kDeliver);
  nics.second.release_held(Kind::kRegister);
  nics.rig.mail.until([&] { return ready; });
  nics.rig.until_regions("free", Rig::kRegions);
  EXPECT_EQ(nics.first.counters().registrations, Rig::kRegions);
  EXPECT_EQ(nics.second.counters().registrations, Rig::kRegions);
  EXPECT_EQ(nics.rig.status()["fabrics"].size(), 2U);
  nics.rig.stop();
  EXPECT_EQ(nics.first.counters().registered_bytes + nics.second.counters().registered_bytes, 0U);
}

TEST(EngineNics, LanesAreSpreadAndNameTheKeysOfTheirOwnNic) {
  TwoNics nics({Rig::lane().answer(say("")).hold().send("$-1\r\n").until_closed(),
                Rig::lane().answer(say("")).hold().send("$-1\r\n").until_closed()});
  // So that the two domains' keys differ.
  nics.second.skip_ids(1000);
  nics.rig.start();
  nics.rig.until_regions("free", Rig::kRegions);
  const auto one = nics.rig.begin_get("one", 10);
  nics.first.wait_for_owed(1);
  const auto two = nics.rig.begin_get("two", 10);
  nics.second.wait_for_owed(1);
  nics.rig.server.go(0);
  nics.rig.server.go(1);
  EXPECT_EQ(nics.rig.result_of(one).kind, FetchResult::Kind::kMissing);
  EXPECT_EQ(nics.rig.result_of(two).kind, FetchResult::Kind::kMissing);
  const NamedWindow first = windows_of(nics.rig.server.commands(0).back(), 2).front();
  const NamedWindow second = windows_of(nics.rig.server.commands(1).back(), 2).front();
  EXPECT_TRUE(nics.first.window(first.rkey, first.addr, first.length));
  EXPECT_FALSE(nics.second.window(first.rkey, first.addr, first.length));
  EXPECT_TRUE(nics.second.window(second.rkey, second.addr, second.length));
  // Lowered after the answers are on their way.
  nics.first.wait_for_owed(0);
  nics.second.wait_for_owed(0);
}

TEST(EngineNics, R88AFenceClosesAndRenewsWithTheLanesNicAlone) {
  fabric::Traits traits = Rig::small_traits();
  traits.deregistration_fences = true;
  TwoNics nics(
      {silent_lane(), silent_lane(), next_lane()}, [](transfer::EngineOptions& options) { options.warm = 2; }, traits);
  nics.rig.start();
  nics.rig.until_regions("free", Rig::kRegions);
  // One on each NIC.
  const auto loan = [&] { return std::move(nics.rig.try_lease(10, true, 1).value()); };
  const auto one = nics.rig.begin_set("one", loan());
  const auto two = nics.rig.begin_set("two", loan());
  nics.rig.engine->end_client(1);
  EXPECT_EQ(nics.rig.result_of(one).kind, transfer::SetResult::Kind::kLost);
  EXPECT_EQ(nics.rig.result_of(two).kind, transfer::SetResult::Kind::kLost);
  nics.rig.until_regions("free", Rig::kRegions);
  EXPECT_EQ(nics.first.count(Kind::kDeregister), 0U) << "there the endpoint is the fence";
  EXPECT_EQ(nics.second.count(Kind::kDeregister), 1U);
  EXPECT_EQ(nics.first.counters().registrations, Rig::kRegions);
  EXPECT_EQ(nics.second.counters().registrations, Rig::kRegions);
  EXPECT_EQ(nics.rig.get("key", Rig::kRegions * Rig::kRegion).kind, FetchResult::Kind::kMissing);
}

TEST(EngineNics, R90ARegionThatOneNicRefusesIsLeftOut) {
  TwoNics nics({next_lane()});
  nics.second.fail_at(Kind::kRegister, 3, "device limit", -12);
  nics.rig.start();
  nics.rig.until_regions("free", Rig::kRegions - 1);
  EXPECT_EQ(nics.rig.regions("closed"), 1U);
  nics.rig.stop();
  EXPECT_EQ(nics.first.counters().registered_bytes, 0U);
  EXPECT_EQ(nics.second.counters().registered_bytes, 0U);
}

TEST(EngineNics, R74ALostQueueClosesItsLanesAndTheOtherNicGoesOn) {
  TwoNics nics({next_lane()}, [](transfer::EngineOptions& options) {
    options.warm = 2;
    options.lane_check = std::chrono::milliseconds(20);
  });
  nics.rig.start();
  nics.rig.until_status([](const nlohmann::json& page) { return page["lanes"].size() == 2; });
  nics.first.lose_queue();
  const auto page = nics.rig.until_status([](const nlohmann::json& now) {
    return now["fabrics"][0]["endpoints"] == 0 && now["fabrics"][1]["endpoints"] == 2;
  });
  EXPECT_TRUE(page["fabrics"][0]["queue_lost"]);
  EXPECT_TRUE(nics.rig.engine->available());
  EXPECT_EQ(nics.rig.get("key", 10).kind, FetchResult::Kind::kMissing);
}

}  // namespace
}  // namespace keyferry::test
