#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/transfer/rig.h"

namespace keyferry::test {
namespace {

using Kind = ScriptedFabric::Kind;

TEST(EngineLease, SpansHoldExactlyTheLengthInOrder) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  const transfer::Loan loan = rig.lease(4097);
  EXPECT_EQ(loan.length(), 4097U);
  ASSERT_EQ(loan.spans().size(), 2U);
  EXPECT_EQ(loan.spans()[0].size(), 4096U);
  EXPECT_EQ(loan.spans()[1].size(), 1U);
}

TEST(EngineLease, LargestValueIsHalfThePool) {
  Rig rig({Rig::lane().until_closed()});
  EXPECT_EQ(rig.engine->largest_value(), Rig::kRegions * Rig::kRegion / 2);
}

TEST(EngineLease, WaitingLeasesAreGrantedInOrderAsMemoryComesBack) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  transfer::Loan all = rig.lease(Rig::kRegions * Rig::kRegion);
  std::vector<int> order;
  std::vector<transfer::Loan> loans;
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t client = static_cast<std::uint64_t>(i) + 1;
    const std::uint64_t length = (i == 0 ? 6 : 1) * Rig::kRegion;
    rig.engine->lease(client, length, true, rig.mail, [&, i](base::Result<transfer::Loan> result) {
      order.push_back(i);
      loans.push_back(std::move(result.value()));
    });
  }
  rig.until_status([](const nlohmann::json& page) { return page["waiting"]["leases"] == 3; });
  all = {};
  rig.mail.until([&] { return order.size() == 3; });
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
}

TEST(EngineLease, AnybodyCanTellThatSomebodyWaits) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  EXPECT_FALSE(rig.engine->memory_wanted());
  transfer::Loan all = rig.lease(Rig::kRegions * Rig::kRegion);
  EXPECT_FALSE(rig.engine->memory_wanted());
  std::optional<transfer::Loan> next;
  const auto take = [&](base::Result<transfer::Loan> result) { next = std::move(result.value()); };
  rig.engine->lease(1, Rig::kRegion, true, rig.mail, take);
  rig.until_status([](const nlohmann::json& page) { return page["waiting"]["leases"] == 1; });
  EXPECT_TRUE(rig.engine->memory_wanted());
  all = {};
  rig.mail.until([&] { return next.has_value(); });
  rig.until_regions("free", Rig::kRegions - 1);
  EXPECT_FALSE(rig.engine->memory_wanted());
  const transfer::Loan rest = rig.lease((Rig::kRegions - 1) * Rig::kRegion);
  const std::uint64_t ticket = rig.engine->lease(2, Rig::kRegion, true, rig.mail, take);
  rig.until_status([](const nlohmann::json& page) { return page["waiting"]["leases"] == 1; });
  EXPECT_TRUE(rig.engine->memory_wanted());
  rig.engine->cancel_lease(ticket);
  rig.until_status([](const nlohmann::json& page) { return page["waiting"]["leases"] == 0; });
  EXPECT_FALSE(rig.engine->memory_wanted());
}

TEST(EngineLease, AnImpatientOneIsRefusedAtOnceWhereItWouldWait) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  const transfer::Loan most = rig.lease((Rig::kRegions - 1) * Rig::kRegion);
  EXPECT_TRUE(rig.try_lease(1, false));
  rig.until_regions("free", 1);
  const auto refused = rig.try_lease(2 * Rig::kRegion, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EAGAIN);
}

TEST(EngineLease, R37WaitingEndsWithOneErrorAfterPoolWait) {
  Rig rig({Rig::lane().until_closed()},
          [](transfer::EngineOptions& options) { options.pool_wait = std::chrono::milliseconds(50); });
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  const transfer::Loan all = rig.lease(Rig::kRegions * Rig::kRegion);
  const auto refused = rig.try_lease(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ETIMEDOUT);
}

TEST(EngineLease, WhatCouldNeverFitIsRefusedAtOnce) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  EXPECT_EQ(rig.try_lease(Rig::kRegions * Rig::kRegion + 1).error().code, EMSGSIZE);
  EXPECT_EQ(rig.try_lease(0).error().code, EMSGSIZE);
}

TEST(EngineLease, ACancelledRequestLetsTheNextOnePass) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  const transfer::Loan most = rig.lease((Rig::kRegions - 1) * Rig::kRegion);
  bool answered = false;
  const std::uint64_t ticket =
      rig.engine->lease(1, 2 * Rig::kRegion, true, rig.mail, [&](base::Result<transfer::Loan>) { answered = true; });
  std::optional<transfer::Loan> next;
  rig.engine->lease(2, Rig::kRegion, true, rig.mail,
                    [&](base::Result<transfer::Loan> result) { next = std::move(result.value()); });
  rig.until_status([](const nlohmann::json& page) { return page["waiting"]["leases"] == 2; });
  rig.engine->cancel_lease(ticket);
  rig.mail.until([&] { return next.has_value(); });
  EXPECT_FALSE(answered);
}

TEST(EngineLease, ReadyComesWithTheFirstRegionAndLeasesWaitForTheOthers) {
  Rig rig({Rig::lane().until_closed()});
  bool ready = false;
  rig.fabric.set_answer(Kind::kRegister, ScriptedFabric::Answer::kHold);
  rig.engine->start(rig.mail, [&] { ready = true; });
  rig.fabric.wait_for(Kind::kRegister, 1);
  EXPECT_EQ(rig.regions("registering"), Rig::kRegions);
  EXPECT_FALSE(ready);
  rig.fabric.release_held(Kind::kRegister);
  rig.mail.until([&] { return ready; });
  rig.fabric.wait_for(Kind::kRegister, 2);
  EXPECT_EQ(rig.regions("free"), 1U);
  EXPECT_FALSE(rig.try_lease(Rig::kRegion + 1, false));
  rig.fabric.set_answer(Kind::kRegister, ScriptedFabric::Answer::kDeliver);
  rig.fabric.release_held(Kind::kRegister);
  EXPECT_TRUE(rig.try_lease(Rig::kRegions * Rig::kRegion));
}

TEST(EngineLease, R70ARegionThatCannotBeRegisteredIsLeftOut) {
  Rig rig({Rig::lane().until_closed()});
  rig.fabric.fail_next(Kind::kRegister, "no memory", -12, 1);
  rig.start();
  rig.until_regions("free", Rig::kRegions - 1);
  EXPECT_EQ(rig.regions("closed"), 1U);
  EXPECT_TRUE(rig.engine->available());
}

TEST(EngineLease, WithoutAnyRegistrationThePoolWorksAndTransfersAreRepeated) {
  Rig rig({Rig::lane().until_closed()});
  rig.fabric.fail_next(Kind::kRegister, "no memory", -12, 100);
  rig.start();
  EXPECT_EQ(rig.engine->unavailable_reason(), "registration_failed");
  EXPECT_EQ(rig.fabric.count(Kind::kRegister), 3U) << "it gives up after a few";
  const transfer::FetchResult result = rig.get("key", Rig::kRegions * Rig::kRegion);
  EXPECT_EQ(result.kind, transfer::FetchResult::Kind::kRepeat);
  EXPECT_EQ(result.text, "registration_failed");
}

TEST(EngineLease, WithoutAFabricThePoolWorksAndTransfersAreRepeated) {
  memory::PoolMemory memory = memory::PoolMemory::create(Rig::pool_options());
  telemetry::Registry registry;
  base::Loop loop;
  Mailbox mail;
  transfer::Engine engine(loop, {}, {}, "fabric_off", memory, registry);
  std::thread thread([&] { loop.run("engine"); });
  bool ready = false;
  bool stopped = false;
  std::optional<transfer::SetResult> result;
  EXPECT_FALSE(engine.available());
  EXPECT_EQ(engine.unavailable_reason(), "fabric_off");
  engine.start(mail, [&] { ready = true; });
  mail.until([&] { return ready; });
  engine.lease(1, 5000, true, mail, [&](base::Result<transfer::Loan> loan) {
    engine.set("key", 1, std::move(loan.value()), mail, [&](transfer::SetResult one) { result = std::move(one); });
  });
  mail.until([&] { return result.has_value(); });
  EXPECT_EQ(result->kind, transfer::SetResult::Kind::kRepeat);
  EXPECT_EQ(result->text, "fabric_off");
  EXPECT_TRUE(result->loan);
  engine.stop(mail, [&] { stopped = true; });
  mail.until([&] { return stopped; });
  loop.stop();
  thread.join();
}

TEST(EngineLease, R88TheMemoryOfAStoredValueServesForTheNextOneOfItsClient) {
  const std::string first = pattern(8192, 1);
  const std::string second = pattern(8192, 2);
  Shared<std::string> seen;
  Rig rig([&](ScriptedFabric& fabric) {
    const auto store = [&](const Script::Command& command) {
      seen.set(read_windows(fabric, windows_of(command, 5)));
      return std::string("+OK\r\n");
    };
    return std::vector{Rig::lane().answer(store).answer(store).until_closed()};
  });
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  transfer::SetResult stored = rig.set("a", first);
  ASSERT_EQ(stored.kind, transfer::SetResult::Kind::kStored);
  EXPECT_EQ(seen.get(), first);
  ASSERT_TRUE(stored.loan);
  EXPECT_EQ(stored.loan.length(), first.size());
  EXPECT_EQ(rig.regions("leased"), 2U);
  std::size_t at = 0;
  for (const base::MutableBytes span : stored.loan.spans()) {
    std::memcpy(span.data(), second.data() + at, span.size());
    at += span.size();
  }
  const std::uint32_t crc = base::crc32c(base::as_bytes(second));
  EXPECT_EQ(rig.result_of(rig.begin_set("b", std::move(stored.loan), crc)).kind, transfer::SetResult::Kind::kStored);
  EXPECT_EQ(seen.get(), second);
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineLease, TheMemoryOfAStoredValueComesBackAtOnceWhereItIsShort) {
  Rig rig({Rig::lane().answer(say("+OK\r\n")).until_closed()});
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  const transfer::Loan most = rig.lease(4 * Rig::kRegion);
  const transfer::SetResult stored = rig.set("key", "value");
  EXPECT_EQ(stored.kind, transfer::SetResult::Kind::kStored);
  EXPECT_FALSE(stored.loan);
  rig.until_regions("free", 4);
}

TEST(EngineLease, TheMemoryOfALargerValueComesBackAtOnce) {
  memory::PoolOptions pool = Rig::pool_options();
  pool.region_bytes = base::kMiB;
  pool.bytes = 8 * base::kMiB;
  for (const bool larger : {false, true}) {
    Rig rig({Rig::lane().answer(say("+OK\r\n")).until_closed()}, {}, Rig::small_traits(), {}, pool);
    rig.start();
    rig.until_regions("free", Rig::kRegions);
    const transfer::SetResult stored = rig.set("key", std::string(transfer::kLentAgain + (larger ? 1 : 0), 'v'));
    EXPECT_EQ(stored.kind, transfer::SetResult::Kind::kStored);
    EXPECT_EQ(static_cast<bool>(stored.loan), !larger);
  }
}

TEST(EngineLease, ALoanMayOutliveTheEngine) {
  std::optional<Rig> rig;
  rig.emplace(std::vector{Rig::lane().until_closed()});
  rig->start();
  transfer::Loan loan = rig->lease(10);
  rig->end_loop();
  rig->engine.reset();
  loan = {};
}

}  // namespace
}  // namespace keyferry::test
