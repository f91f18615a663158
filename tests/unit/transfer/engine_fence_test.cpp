#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/transfer/rig.h"

// A transfer that did not end with a trusted reply: when its memory may be used again, and not a moment earlier (R88,
// C8, C9).

namespace keyferry::test {
namespace {

using Kind = ScriptedFabric::Kind;
using Answer = ScriptedFabric::Answer;
using transfer::FetchResult;
using transfer::SetResult;

Script next_lane() {
  return Rig::lane().serve(say("$-1\r\n"));
}
void until_quarantined(Rig& rig, std::uint64_t regions) {
  rig.until_regions("quarantined", regions);
}

fabric::Traits fenced_by_deregistration() {
  fabric::Traits traits = Rig::small_traits();
  traits.deregistration_fences = true;
  return traits;
}

TEST(EngineFence, R88ALostConnectionQuarantinesTheLeaseUntilTheEndpointIsClosed) {
  Rig rig({Rig::lane().answer(say("")).close(), next_lane()});
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  rig.start();
  const FetchResult result = rig.get("key", 5000);
  EXPECT_EQ(result.kind, FetchResult::Kind::kLost);
  EXPECT_NE(result.text.find("connection was lost"), std::string::npos) << result.text;
  const nlohmann::json page = rig.status();
  EXPECT_EQ(page["pool"]["regions"]["quarantined"], 2);
  EXPECT_EQ(page["quarantine"][0]["reason"], "connection_lost");
  EXPECT_EQ(page["quarantine"][0]["bytes"], 8192);
  EXPECT_EQ(rig.fabric.counters().owed, 1U) << "the fabric is read until the endpoint is closed";
  // Another lane works meanwhile, and what can be leased is not the quarantined memory.
  EXPECT_EQ(rig.get("other", 10).kind, FetchResult::Kind::kMissing);
  EXPECT_EQ(rig.regions("quarantined"), 2U);
  EXPECT_EQ(rig.fabric.release_held(Kind::kCloseEndpoint), 1U);
  rig.until_regions("free", Rig::kRegions);
  rig.fabric.wait_for_owed(0);
  EXPECT_TRUE(rig.status()["quarantine"].empty());
  EXPECT_TRUE(rig.metric_has("keyferry_fences_total{reason=\"connection_lost\"} 1"));
}

TEST(EngineFence, R88ALateWriteMeetsNobodyElsesMemory) {
  Rig rig({Rig::lane().answer(say("")).close(), next_lane()});
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  rig.start();
  EXPECT_EQ(rig.get("key", 2 * Rig::kRegion).kind, FetchResult::Kind::kLost);
  // All that can be had now belongs to somebody else and keeps its bytes whatever the server still writes.
  const std::string others = pattern((Rig::kRegions - 2) * Rig::kRegion, 5);
  const transfer::Loan loan = rig.lease_with(others);
  EXPECT_FALSE(rig.try_lease(1, false));
  ASSERT_TRUE(
      write_windows(rig.fabric, windows_of(rig.server.commands(0).back(), 2), std::string(2 * Rig::kRegion, '!')));
  EXPECT_EQ(Rig::bytes_of(loan), others);
  rig.fabric.release_held(Kind::kCloseEndpoint);
  rig.until_regions("free", 2);
  EXPECT_TRUE(rig.try_lease(1, false));
}

TEST(EngineFence, WhateverIsNeitherResultNorErrorFencesAndIsLost) {
  for (const char* reply :
       {"+QUEUED\r\n", "+OK\r\n", ":5\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", "*2\r\n:-1\r\n:1\r\n",
        "*2\r\n:1\r\n:4294967296\r\n", "?what\r\n", "*2\r\n:1\r\n:2\r\n$-1\r\n", "$-1\r\n+OK\r\n"}) {
    Rig rig({Rig::lane().answer(say(reply)).until_closed(), next_lane()});
    rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
    rig.start();
    EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kLost) << reply;
    EXPECT_EQ(rig.regions("quarantined"), 1U) << reply;
    rig.fabric.release_held(Kind::kCloseEndpoint);
    rig.until_regions("free", Rig::kRegions);
    EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
  }
}

TEST(EngineFence, C6ALengthBeyondTheWindowFencesAndIsRepeated) {
  Rig rig({Rig::lane().answer(say("*2\r\n:4097\r\n:1\r\n")).until_closed(), next_lane()});
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  rig.start();
  const FetchResult result = rig.get("key", 10);
  EXPECT_EQ(result.kind, FetchResult::Kind::kRepeat);
  EXPECT_EQ(result.text, "length");
  EXPECT_EQ(rig.status()["quarantine"][0]["reason"], "length");
  rig.fabric.release_held(Kind::kCloseEndpoint);
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineFence, AnErrorReplyThatMayOvertakeTheDmaFencesAGet) {
  for (const char* reply : {"-ERR RDMA write failed\r\n", "-ERR something nobody has seen\r\n"}) {
    Rig rig({Rig::lane().answer(say(reply)).until_closed(), next_lane()});
    rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
    rig.start();
    EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kRepeat);
    EXPECT_EQ(rig.regions("quarantined"), 1U);
    rig.fabric.release_held(Kind::kCloseEndpoint);
    rig.until_regions("free", Rig::kRegions);
  }
}

TEST(EngineFence, ASetThatIsToBeRepeatedKeepsItsBytesUntilFenceAndWorkerAreDone) {
  for (const bool fence_first : {true, false}) {
    const std::string value = pattern(5000, 6);
    Rig rig({Rig::lane().answer(say("-ERR RDMA read failed\r\n")).until_closed(), next_lane()});
    rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
    rig.start();
    SetResult result = rig.set("key", value);
    EXPECT_EQ(result.kind, SetResult::Kind::kRepeat);
    EXPECT_EQ(result.text, "rdma_error");
    until_quarantined(rig, 2);
    if (fence_first) {
      rig.fabric.release_held(Kind::kCloseEndpoint);
      rig.fabric.wait_for_owed(0);
      EXPECT_EQ(rig.regions("quarantined"), 2U) << "the worker still sends from it";
      const transfer::Loan rest = rig.lease_with(pattern((Rig::kRegions - 2) * Rig::kRegion, 7));
      EXPECT_FALSE(rig.try_lease(1, false));
      EXPECT_EQ(Rig::bytes_of(result.loan), value);
      result.loan = {};
    } else {
      result.loan = {};
      EXPECT_EQ(rig.regions("quarantined"), 2U);
      rig.fabric.release_held(Kind::kCloseEndpoint);
    }
    rig.until_regions("free", Rig::kRegions);
  }
}

TEST(EngineFence, ALoanUnderQuarantineCannotBeSentAgain) {
  Rig rig({Rig::lane().answer(say("-ERR RDMA read failed\r\n")).until_closed(), next_lane()});
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  rig.start();
  SetResult result = rig.set("key", "value");
  ASSERT_EQ(result.kind, SetResult::Kind::kRepeat);
  result = rig.result_of(rig.begin_set("key", std::move(result.loan)));
  EXPECT_EQ(result.text, "unregistered");
}

TEST(EngineFence, ALostSetSaysSoAndKeepsItsMemoryQuarantined) {
  Rig rig({Rig::lane().answer(say("")).reset(), next_lane()});
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  rig.start();
  const SetResult result = rig.set("key", "value");
  EXPECT_EQ(result.kind, SetResult::Kind::kLost);
  EXPECT_FALSE(result.loan);
  EXPECT_EQ(rig.regions("quarantined"), 1U);
}

TEST(EngineFence, C20AFenceThatFailsClosesTheRegionsForGood) {
  Rig rig({Rig::lane().answer(say("")).close(), next_lane()});
  rig.fabric.fail_next(Kind::kCloseEndpoint, "busy", -16);
  rig.start();
  EXPECT_EQ(rig.get("key", 5000).kind, FetchResult::Kind::kLost);
  rig.until_regions("closed", 2);
  rig.fabric.wait_for_owed(0);
  EXPECT_TRUE(rig.status()["quarantine"].empty());
  EXPECT_TRUE(rig.metric_has("keyferry_fences_total{reason=\"failed\"} 1"));
  const transfer::Loan all = rig.lease((Rig::kRegions - 2) * Rig::kRegion);
  EXPECT_FALSE(rig.try_lease(1, false));
  EXPECT_FALSE(rig.try_lease((Rig::kRegions - 1) * Rig::kRegion)) << "can never be had again";
}

TEST(EngineFence, WhereDeregistrationFencesTheRegionsAreFreeOnlyWithNewRegistrations) {
  Rig rig({Rig::lane().answer(say("")).close(), next_lane()}, {}, fenced_by_deregistration());
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  rig.fabric.set_answer(Kind::kDeregister, Answer::kHold);
  rig.start();
  EXPECT_EQ(rig.get("key", 5000).kind, FetchResult::Kind::kLost);
  EXPECT_EQ(rig.fabric.count(Kind::kDeregister), 0U) << "the endpoint goes first";
  EXPECT_EQ(rig.regions("quarantined"), 2U);
  rig.fabric.set_answer(Kind::kRegister, Answer::kHold);
  rig.fabric.release_held(Kind::kCloseEndpoint);
  rig.fabric.wait_for(Kind::kDeregister, 2);
  EXPECT_EQ(rig.regions("quarantined"), 2U);
  rig.fabric.release_held(Kind::kDeregister);
  rig.until_regions("registering", 2);
  rig.fabric.wait_for(Kind::kRegister, Rig::kRegions + 2);
  EXPECT_EQ(rig.regions("free"), Rig::kRegions - 2);
  rig.fabric.release_held(Kind::kRegister);
  rig.until_regions("free", Rig::kRegions);
  EXPECT_EQ(rig.get("again", Rig::kRegions * Rig::kRegion).kind, FetchResult::Kind::kMissing);
  for (const NamedWindow& old : windows_of(rig.server.commands(0).back(), 2)) {
    for (const NamedWindow& fresh : windows_of(rig.server.commands(1).back(), 2)) EXPECT_NE(old.rkey, fresh.rkey);
  }
}

TEST(EngineFence, C20ADeregistrationThatFailsGivesUpThatRegionAlone) {
  Rig rig({Rig::lane().answer(say("")).close(), next_lane()}, {}, fenced_by_deregistration());
  rig.fabric.fail_next(Kind::kDeregister, "busy", -16);
  rig.start();
  EXPECT_EQ(rig.get("key", 3 * Rig::kRegion).kind, FetchResult::Kind::kLost);
  rig.until_regions("free", Rig::kRegions - 1);
  EXPECT_EQ(rig.regions("closed"), 1U);
}

TEST(EngineFence, R90ARegistrationThatFailsAfterAFenceIsTriedAgain) {
  Rig rig({Rig::lane().answer(say("")).close(), next_lane()}, {}, fenced_by_deregistration());
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  rig.fabric.fail_next(Kind::kRegister, "no memory", -12, 2);
  EXPECT_EQ(rig.get("key", Rig::kRegion).kind, FetchResult::Kind::kLost);
  rig.until_regions("free", Rig::kRegions);
  EXPECT_EQ(rig.fabric.counters().registered_bytes, Rig::kRegions * Rig::kRegion);
}

TEST(EngineFence, TrustDecidesWhichErrorRepliesFence) {
  using transfer::TrustErrorReplies;
  const struct {
    TrustErrorReplies trust;
    const char* reply;
    std::uint64_t fences;
  } rows[] = {
      {TrustErrorReplies::kNever, "-WRONGTYPE wrong\r\n", 1},
      {TrustErrorReplies::kBeforeRma, "-WRONGTYPE wrong\r\n", 0},
      {TrustErrorReplies::kBeforeRma, "-ERR RDMA write failed\r\n", 1},
      {TrustErrorReplies::kAlways, "-ERR RDMA write failed\r\n", 0},
  };
  for (const auto& row : rows) {
    Rig rig({Rig::lane().answer(say(row.reply)).until_closed(), next_lane()},
            [&](transfer::EngineOptions& options) { options.trust_error_replies = row.trust; });
    rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
    rig.start();
    rig.get("key", 10);
    rig.until_status([&](const nlohmann::json& page) { return page["quarantine"].size() == row.fences; });
    rig.until_regions("free", Rig::kRegions - row.fences);
  }
}

TEST(EngineFence, ALaneThatIsFencedDoesNotStopItsNeighbour) {
  Rig rig(
      {Rig::lane().answer(say("")).hold().close(), Rig::lane().answer(say("")).hold().send("$-1\r\n").until_closed()},
      [](transfer::EngineOptions& options) { options.lanes = 2; });
  rig.fabric.set_answer(Kind::kCloseEndpoint, Answer::kHold);
  rig.start();
  const auto one = rig.begin_get("one", 10);
  rig.fabric.wait_for_owed(1);
  const auto two = rig.begin_get("two", 10);
  rig.fabric.wait_for_owed(2);
  rig.server.go(0);
  EXPECT_EQ(rig.result_of(one).kind, FetchResult::Kind::kLost);
  rig.server.go(1);
  EXPECT_EQ(rig.result_of(two).kind, FetchResult::Kind::kMissing);
  EXPECT_EQ(rig.regions("quarantined"), 1U);
}

/// Gives the address of the first endpoint to the second as well.
class RepeatingFabric final : public fabric::Fabric {
 public:
  explicit RepeatingFabric(ScriptedFabric& inner) : inner_(inner) {}
  const fabric::Traits& traits() const override { return inner_.traits(); }
  fabric::FabricCounters counters() const override { return inner_.counters(); }
  void open_endpoint(base::Executor& back, fabric::Callback<fabric::Endpoint> done) override {
    const int number = opened++;
    inner_.open_endpoint(back, [this, number, done = std::move(done)](base::Result<fabric::Endpoint> result) mutable {
      if (number == 0) first_ = result->address;
      if (number == 1) result->address = first_;
      done(std::move(result));
    });
  }
  void insert_peers(fabric::EndpointId endpoint, std::vector<std::string> addresses, base::Executor& back,
                    fabric::Callback<void> done) override {
    inner_.insert_peers(endpoint, std::move(addresses), back, std::move(done));
  }
  void close_endpoint(fabric::EndpointId endpoint, base::Executor& back, fabric::Callback<void> done) override {
    inner_.close_endpoint(endpoint, back, std::move(done));
  }
  void register_memory(base::MutableBytes memory, base::Executor& back,
                       fabric::Callback<fabric::Registration> done) override {
    inner_.register_memory(memory, back, std::move(done));
  }
  void deregister(fabric::RegistrationId registration, base::Executor& back, fabric::Callback<void> done) override {
    inner_.deregister(registration, back, std::move(done));
  }
  void raise_owed() override { inner_.raise_owed(); }
  void lower_owed() override { inner_.lower_owed(); }

  std::atomic<int> opened{0};

 private:
  ScriptedFabric& inner_;
  std::string first_;
};

TEST(EngineFence, R87AnEndpointWithAFencedOnesAddressIsNotUsed) {
  ScriptedFabric inner(Rig::small_traits());
  RepeatingFabric repeating(inner);
  Rig rig({Rig::lane().answer(say("")).close(), next_lane()}, {}, Rig::small_traits(), {&repeating});
  rig.start();
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kLost);
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
  EXPECT_EQ(repeating.opened, 3);
  const auto hello_of = [&](std::size_t connection) {
    for (const Script::Command& command : rig.server.commands(connection)) {
      if (command[0] == "BLOB.RDMA_HELLO") return command[1];
    }
    return std::string();
  };
  EXPECT_NE(hello_of(0), hello_of(1));
  rig.stop();
  EXPECT_EQ(inner.counters().endpoints, 0U);
}

}  // namespace
}  // namespace keyferry::test
