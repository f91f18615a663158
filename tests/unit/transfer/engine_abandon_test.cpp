#include <gtest/gtest.h>

#include "tests/unit/transfer/rig.h"

namespace keyferry::test {
namespace {

using transfer::GetResult;

TEST(EngineAbandon, R95AGetThatNobodyWaitsForIsFencedAfterItsGraceAndItsMemoryComesBack) {
  Rig rig({Rig::lane().answer(say("")).until_closed(), Rig::lane().answer(say("$-1\r\n")).until_closed()},
          [](transfer::EngineOptions& options) { options.orphan_grace = std::chrono::milliseconds(1); });
  rig.start();
  std::optional<GetResult> result;
  const std::uint64_t ticket =
      rig.engine->get("key", rig.lease(5000), rig.mail, [&](GetResult one) { result.emplace(std::move(one)); });
  rig.engine->abandon_get(ticket);
  rig.mail.until([&] { return result.has_value(); });
  EXPECT_EQ(result->kind, GetResult::Kind::kLost);
  rig.until_regions("free", Rig::kRegions);
  rig.fabric.wait_for_owed(0);
  EXPECT_TRUE(rig.metric_has("keyferry_fences_total{reason=\"abandoned\"} 1"));
  EXPECT_EQ(rig.get("other", 10).kind, GetResult::Kind::kMissing) << "a new lane takes its place";
}

TEST(EngineAbandon, AReplyWithinTheGraceEndsItWithoutAFence) {
  const std::string bytes = pattern(5000, 3);
  Rig rig(
      [&](ScriptedFabric& fabric) {
        return std::vector<Script>{Rig::lane().answer(give(fabric, bytes)).until_closed()};
      },
      [](transfer::EngineOptions& options) { options.orphan_grace = std::chrono::hours(1); });
  rig.start();
  std::optional<GetResult> result;
  const std::uint64_t ticket =
      rig.engine->get("key", rig.lease(bytes.size()), rig.mail, [&](GetResult one) { result.emplace(std::move(one)); });
  rig.engine->abandon_get(ticket);
  rig.mail.until([&] { return result.has_value(); });
  EXPECT_EQ(result->kind, GetResult::Kind::kLanded);
  result.reset();
  rig.until_regions("free", Rig::kRegions);
  EXPECT_FALSE(rig.metric_has("keyferry_fences_total{reason=\"abandoned\"}"));
}

TEST(EngineAbandon, OneThatStillWaitsForALaneEndsAtOnce) {
  Rig rig({Rig::lane().answer(say("")).until_closed()},
          [](transfer::EngineOptions& options) { options.orphan_grace = std::chrono::hours(1); });
  rig.start();
  const auto running = rig.begin_get("first", rig.lease(10));
  std::optional<GetResult> result;
  const std::uint64_t ticket =
      rig.engine->get("second", rig.lease(10), rig.mail, [&](GetResult one) { result.emplace(std::move(one)); });
  rig.engine->abandon_get(ticket);
  rig.mail.until([&] { return result.has_value(); });
  EXPECT_EQ(result->kind, GetResult::Kind::kRepeat);
  EXPECT_EQ(result->text, "abandoned");
  EXPECT_FALSE(running->has_value());
  rig.stop();
}

}  // namespace
}  // namespace keyferry::test
