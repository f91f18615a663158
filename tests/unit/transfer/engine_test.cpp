#include "transfer/engine.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/transfer/rig.h"
#include "transfer/checked_value.h"
#include "transfer/state_machine.h"

namespace keyferry::test {
namespace {

using transfer::FetchResult;
using transfer::SetResult;

TEST(Engine, SetNamesTheValueAndItsChecksumSoThatTheServerReadsItWhole) {
  const std::string value = pattern(10000, 1);
  Shared<std::string> seen;
  Rig rig([&](ScriptedFabric& fabric) {
    return std::vector{Rig::lane()
                           .answer([&](const Script::Command& command) {
                             seen.set(read_windows(fabric, windows_of(command, 5)));
                             return "+OK\r\n";
                           })
                           .until_closed()};
  });
  rig.start();
  EXPECT_EQ(rig.set("key", value).kind, SetResult::Kind::kStored);
  EXPECT_EQ(seen.get(), value);
  const Script::Command command = rig.server.commands().back();
  EXPECT_EQ(
      std::vector(command.begin(), command.begin() + 5),
      (Script::Command{"BLOB.RDMA_SET", "key", "10000", "CRC", std::to_string(base::crc32c(base::as_bytes(value)))}));
  const std::vector<NamedWindow> windows = windows_of(command, 5);
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_EQ(windows[0].length, 4096U);
  EXPECT_EQ(windows[2].length, 10000U - 2 * 4096U);
  rig.until_regions("free", Rig::kRegions);
}

TEST(Engine, GetHandsOutWhatLandedAndItsMemoryIsFreeWhenTheReaderIsDone) {
  const std::string value = pattern(9000, 2);
  Rig rig([&](ScriptedFabric& fabric) { return std::vector{Rig::lane().answer(give(fabric, value)).until_closed()}; });
  rig.start();
  {
    FetchResult result = rig.get("key", 12000);
    ASSERT_EQ(result.kind, FetchResult::Kind::kValue);
    EXPECT_EQ(rig.regions("leased"), 3U);
    EXPECT_EQ(Rig::bytes_of(result), value);
  }
  rig.until_regions("free", Rig::kRegions);
}

TEST(Engine, MissingAndRefusedAreToldApartAndFreeTheMemory) {
  Rig rig({Rig::lane()
               .answer(say("$-1\r\n"))
               .answer(say("-WRONGTYPE wrong\r\n"))
               .answer(say("-OOM no\r\n"))
               .until_closed()});
  rig.start();
  EXPECT_EQ(rig.get("a", 100).kind, FetchResult::Kind::kMissing);
  const FetchResult get = rig.get("b", 100);
  EXPECT_EQ(get.kind, FetchResult::Kind::kRefused);
  EXPECT_EQ(get.text, "-WRONGTYPE wrong");
  {
    const SetResult set = rig.set("c", "value");
    EXPECT_EQ(set.kind, SetResult::Kind::kRefused);
    EXPECT_EQ(set.text, "-OOM no");
    // Its memory comes back, for whoever wants to store it in another way.
    EXPECT_EQ(Rig::bytes_of(set.loan), "value");
  }
  rig.until_regions("free", Rig::kRegions);
  EXPECT_EQ(rig.server.accepted(), 1U);
}

TEST(Engine, TheFabricIsOwedFromBeforeTheCommandUntilItsReply) {
  std::atomic<std::uint64_t> owed{99};
  Rig rig([&](ScriptedFabric& fabric) {
    return std::vector{Rig::lane()
                           .answer([&](const Script::Command&) {
                             owed = fabric.counters().owed;
                             return "$-1\r\n";
                           })
                           .until_closed()};
  });
  rig.start();
  EXPECT_EQ(rig.fabric.counters().owed, 0U);
  rig.get("key", 100);
  EXPECT_EQ(owed, 1U);
  rig.fabric.wait_for_owed(0);
  EXPECT_EQ(rig.fabric.owed_underflows(), 0U);
}

TEST(Engine, C5AddressesFollowTheRegistration) {
  const std::string value = pattern(5000, 3);
  Rig rig([&](ScriptedFabric& fabric) {
    fabric.set_virtual_addresses(true);
    return std::vector{Rig::lane().answer(give(fabric, value)).until_closed()};
  });
  rig.start();
  FetchResult result = rig.get("key", 5000);
  ASSERT_EQ(result.kind, FetchResult::Kind::kValue);
  const auto windows = windows_of(rig.server.commands().back(), 2);
  EXPECT_EQ(windows[0].addr, reinterpret_cast<std::uint64_t>(result.value->spans()[0].data()));
  EXPECT_EQ(Rig::bytes_of(result), value);
}

TEST(Engine, C7AServerWithoutCrcGetsTheSameLeaseAgainWithoutIt) {
  const std::string value = pattern(5000, 4);
  Shared<std::string> seen;
  Rig rig([&](ScriptedFabric& fabric) {
    return std::vector{Rig::lane()
                           .answer(say("-ERR invalid rkey\r\n"))
                           .answer([&](const Script::Command& command) {
                             seen.set(read_windows(fabric, windows_of(command, 3)));
                             return "+OK\r\n";
                           })
                           .answer(say("+OK\r\n"))
                           .until_closed()};
  });
  rig.start();
  EXPECT_EQ(rig.set("key", value).kind, SetResult::Kind::kStored);
  EXPECT_EQ(seen.get(), value);
  EXPECT_EQ(rig.status()["set_with_crc"], false);
  EXPECT_EQ(rig.set("next", value).kind, SetResult::Kind::kStored);
  const auto commands = rig.server.commands();
  const Script::Command& first = commands[commands.size() - 3];
  const Script::Command& second = commands[commands.size() - 2];
  EXPECT_EQ(first[3], "CRC");
  EXPECT_EQ(second.size() + 2, first.size());
  EXPECT_EQ(std::vector(second.begin() + 3, second.end()), std::vector(first.begin() + 5, first.end()));
  EXPECT_NE(commands.back()[3], "CRC");
  EXPECT_TRUE(rig.metric_has("keyferry_transfers_total{op=\"set\",outcome=\"ok\",path=\"rdma\"} 2") ||
              rig.metric_has("keyferry_transfers_total{op=\"set\",path=\"rdma\",outcome=\"ok\"} 2"))
      << rig.registry.scrape();
  rig.fabric.wait_for_owed(0);
  EXPECT_EQ(rig.fabric.owed_underflows(), 0U);
}

TEST(Engine, C7ATripleErrorToAServerWithoutCrcIsRepeated) {
  Rig rig({Rig::lane().answer(say("-ERR invalid rkey\r\n")).answer(say("-ERR invalid rkey\r\n")).until_closed()});
  rig.start();
  SetResult result = rig.set("key", "value");
  EXPECT_EQ(result.kind, SetResult::Kind::kRepeat);
  EXPECT_EQ(result.text, "triples");
  EXPECT_EQ(Rig::bytes_of(result.loan), "value");
}

TEST(Engine, TransfersRunInOrderOfArrivalOneAtATimeOnALane) {
  Rig rig({Rig::lane().answer(say("$-1\r\n")).hold().serve(say("$-1\r\n"))});
  rig.start();
  rig.get("first", 10);
  std::vector<Rig::GetSlot> slots;
  for (const char* key : {"a", "b", "c", "d"}) slots.push_back(rig.begin_get(key, 10));
  rig.until_status([](const nlohmann::json& page) { return page["waiting"]["transfers"] == 3; });
  rig.server.go();
  for (const Rig::GetSlot& slot : slots) EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kMissing);
  const auto commands = rig.server.commands();
  std::vector<std::string> keys;
  for (const Script::Command& command : commands) {
    if (command[0] == "BLOB.RDMA_GET") keys.push_back(command[1]);
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"first", "a", "b", "c", "d"}));
}

TEST(Engine, AnotherLaneIsMadeWhenTheFirstIsBusyAndNoneBeyondTheLimit) {
  Rig rig({Rig::lane().answer(say("")).hold().send("$-1\r\n").until_closed(),
           Rig::lane().answer(say("")).hold().send("$-1\r\n").serve(say("$-1\r\n"))},
          [](transfer::EngineOptions& options) { options.lanes = 2; });
  rig.start();
  const auto one = rig.begin_get("one", 10);
  const auto two = rig.begin_get("two", 10);
  const auto three = rig.begin_get("three", 10);
  rig.until_status(
      [](const nlohmann::json& page) { return page["waiting"]["transfers"] == 1 && page["lanes"].size() == 2; });
  EXPECT_EQ(rig.server.accepted(), 2U);
  rig.server.go(1);
  EXPECT_EQ(rig.result_of(two).kind, FetchResult::Kind::kMissing);
  EXPECT_EQ(rig.result_of(three).kind, FetchResult::Kind::kMissing);
  rig.server.go(0);
  EXPECT_EQ(rig.result_of(one).kind, FetchResult::Kind::kMissing);
  EXPECT_EQ(rig.server.accepted(), 2U);
}

TEST(Engine, EveryConnectionDoesExactlyOneHelloAndEveryAddressIsInserted) {
  Rig rig({Rig::lane(3).serve(say("$-1\r\n"))});
  rig.start();
  for (int i = 0; i < 5; ++i) rig.get("key", 10);
  std::size_t hellos = 0;
  for (const Script::Command& command : rig.server.commands()) hellos += command[0] == "BLOB.RDMA_HELLO" ? 1 : 0;
  EXPECT_EQ(hellos, 1U);
  for (const ScriptedFabric::Call& call : rig.fabric.calls()) {
    if (call.kind == ScriptedFabric::Kind::kInsertPeers) {
      EXPECT_EQ(call.addresses.size(), 3U);
    }
  }
  EXPECT_EQ(rig.fabric.counters().av_entries, 3U);
}

TEST(Engine, AnIdleLaneWhoseConnectionEndsIsReplacedAndItsAddressesGo) {
  Rig rig({Rig::lane().hold().close(), Rig::lane().serve(say("$-1\r\n"))});
  rig.start();
  rig.server.go();
  rig.server.wait_accepted(2);
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
  rig.until_status([](const nlohmann::json& page) { return page["lanes"].size() == 1; });
  EXPECT_EQ(rig.fabric.counters().endpoints, 1U);
  EXPECT_EQ(rig.fabric.counters().av_entries, 2U);
}

TEST(Engine, R13AnIdleLaneThatGetsBytesNobodyAskedForIsReplaced) {
  Rig rig({Rig::lane().hold().send("$-1\r\n").until_closed(), Rig::lane().serve(say("-WRONGTYPE right\r\n"))});
  rig.start();
  rig.server.go();
  rig.server.wait_accepted(2);
  EXPECT_EQ(rig.get("key", 10).text, "-WRONGTYPE right");
}

TEST(Engine, AReplyInPiecesIsOneReply) {
  // Of a value that the server did not have to write.
  const std::string bytes(5, '\0'), reply = pair_reply(bytes);
  Rig rig({Rig::lane()
               .answer(say(reply.substr(0, 5)))
               .hold()
               .send(reply.substr(5, 2))
               .hold()
               .send(reply.substr(7))
               .until_closed()});
  rig.start();
  const auto slot = rig.begin_get("key", 10);
  rig.server.go();
  rig.server.go();
  EXPECT_EQ(Rig::bytes_of(rig.result_of(slot)), bytes);
}

TEST(Engine, AReplyThatComesBeforeItsCommandIsWrittenWaitsForTheWrite) {
  Rig rig({Rig::lane().hold().send("$-1\r\n").hold().answer(say("")).answer(say("$-1\r\n")).until_closed()});
  rig.start();
  const std::string key(std::size_t{16} << 20U, 'k');
  const auto slot = rig.begin_get(key, 10);
  const auto next = rig.begin_get("next", 10);
  rig.fabric.wait_for_owed(1);
  rig.server.go();
  // Enough turns of the engine for the reply to be there; the lane must not take the next command for it.
  for (int turn = 0; turn < 200; ++turn) EXPECT_EQ(rig.status()["lanes"][0]["transfers"], 1);
  EXPECT_FALSE(slot->has_value());
  rig.server.go();
  EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kMissing);
  EXPECT_EQ(rig.result_of(next).kind, FetchResult::Kind::kMissing);
  EXPECT_EQ(rig.server.commands().back()[1], "next");
}

TEST(Engine, NoSessionOnALaneReplacesItAndRepeats) {
  Rig rig({Rig::lane().answer(say("-ERR no RDMA session (call BLOB.RDMA_HELLO first)\r\n")).until_closed(),
           Rig::lane().serve(say("+OK\r\n"))});
  rig.start();
  {
    SetResult result = rig.set("key", "value");
    EXPECT_EQ(result.kind, SetResult::Kind::kRepeat);
    EXPECT_EQ(result.text, "no_session");
    EXPECT_EQ(rig.regions("leased"), 1U) << "nothing was in flight: no quarantine";
  }
  EXPECT_EQ(rig.set("key", "value").kind, SetResult::Kind::kStored);
  EXPECT_EQ(rig.server.accepted(), 2U);
}

struct Dropping final : base::Executor {
  void post(base::Task task) override { task.reset(); }
};

TEST(Engine, AResultThatNobodyTakesGivesItsMemoryBack) {
  Dropping dropping;
  Rig rig({Rig::lane().answer(say("-OOM no\r\n")).until_closed()});
  rig.start();
  rig.engine->set("key", 1, rig.lease_with("value"), dropping, [](SetResult) {});
  rig.until_status([](const nlohmann::json& page) {
    return page["lanes"][0]["transfers"] == 1 && page["lanes"][0]["state"] == "idle";
  });
  rig.until_regions("free", Rig::kRegions);
}

TEST(Engine, AnEmptyLoanIsRepeatedAndNotSent) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  EXPECT_EQ(rig.result_of(rig.begin_set("key", transfer::Loan())).kind, SetResult::Kind::kRepeat);
}

TEST(Engine, StatusShowsLanesPoolAndWhatWaits) {
  Rig rig({Rig::lane().until_closed()});
  rig.start();
  rig.until_regions("free", Rig::kRegions);
  const transfer::Loan loan = rig.lease(5000);
  const nlohmann::json page = rig.status();
  EXPECT_EQ(page["available"], true);
  EXPECT_EQ(page["provider"], "scripted");
  EXPECT_EQ(page["lanes"][0]["state"], "idle");
  EXPECT_EQ(page["pool"]["bytes"]["leased"], 8192);
  EXPECT_EQ(page["pool"]["bytes"]["free"], (Rig::kRegions - 2) * Rig::kRegion);
  EXPECT_EQ(page["waiting"]["transfers"], 0);
  EXPECT_EQ(page["illegal_transitions"], transfer::illegal_transitions());
}

}  // namespace
}  // namespace keyferry::test
