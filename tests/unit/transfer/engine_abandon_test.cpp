#include <gtest/gtest.h>

#include "tests/unit/transfer/rig.h"

namespace keyferry::test {
namespace {

using transfer::FetchResult;

TEST(EngineAbandon, R95AGetThatNobodyWaitsForIsFencedAfterItsGraceAndItsMemoryComesBack) {
  Rig rig({Rig::lane().answer(say("")).until_closed(), Rig::lane().answer(say("$-1\r\n")).until_closed()},
          [](transfer::EngineOptions& options) { options.orphan_grace = std::chrono::milliseconds(1); });
  rig.start();
  const auto slot = rig.begin_get("key", 5000);
  rig.fabric.wait_for_owed(1);
  rig.engine->leave(slot->ticket);
  EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kLeft);
  rig.until_regions("free", Rig::kRegions);
  rig.fabric.wait_for_owed(0);
  EXPECT_TRUE(rig.metric_has("keyferry_fences_total{reason=\"abandoned\"} 1"));
  EXPECT_EQ(rig.get("other", 10).kind, FetchResult::Kind::kMissing) << "a new lane takes its place";
}

TEST(EngineAbandon, AReplyWithinTheGraceEndsItWithoutAFence) {
  const std::string bytes = pattern(5000, 3);
  Rig rig(
      [&](ScriptedFabric& fabric) {
        return std::vector<Script>{Rig::lane().answer(say("")).hold().send("$-1\r\n").serve(give(fabric, bytes))};
      },
      [](transfer::EngineOptions& options) { options.orphan_grace = std::chrono::hours(1); });
  rig.start();
  const auto slot = rig.begin_get("key", bytes.size());
  rig.fabric.wait_for_owed(1);
  rig.engine->leave(slot->ticket);
  EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kLeft);
  EXPECT_EQ(rig.regions("in_flight"), 2U) << "the server may still write to it";
  rig.server.go();
  rig.until_regions("free", Rig::kRegions);
  EXPECT_FALSE(rig.metric_has("keyferry_fences_total{reason=\"abandoned\"}"));
  EXPECT_EQ(Rig::bytes_of(rig.get("key", bytes.size())), bytes) << "the lane goes on";
}

TEST(EngineAbandon, OneThatStillWaitsForALaneEndsAtOnce) {
  Rig rig({Rig::lane().answer(say("")).until_closed()},
          [](transfer::EngineOptions& options) { options.orphan_grace = std::chrono::hours(1); });
  rig.start();
  const auto running = rig.begin_get("first", 10);
  rig.fabric.wait_for_owed(1);
  const auto slot = rig.begin_get("second", 10);
  rig.until_status([](const nlohmann::json& page) { return page["waiting"]["transfers"] == 1; });
  rig.engine->leave(slot->ticket);
  EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kLeft);
  rig.until_status([](const nlohmann::json& page) { return page["waiting"]["transfers"] == 0; });
  rig.until_regions("free", Rig::kRegions - 1);
  EXPECT_FALSE(running->has_value());
  rig.stop();
}

}  // namespace
}  // namespace keyferry::test
