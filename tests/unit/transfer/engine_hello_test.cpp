#include <gtest/gtest.h>

#include "tests/unit/transfer/rig.h"

// What becomes of transfers and lanes when BLOB.RDMA_HELLO does not go through (blob-rdma spec 2.1, 8.3, C2).

namespace keyferry::test {
namespace {

using transfer::FetchResult;
using transfer::SetResult;

Script hello_says(const std::string& reply) {
  return Script().handshake().answer(say(reply)).until_closed();
}
void on_demand(transfer::EngineOptions& options) {
  options.warm = 0;
}

TEST(EngineHello, ARefusalTellsWhyAndTheTransferIsRepeatedUnsent) {
  const std::pair<const char*, const char*> rows[] = {
      {"-ERR RDMA provider unavailable on this instance\r\n", "server_no_fabric"},
      {"-ERR unknown command 'BLOB.RDMA_HELLO', with args beginning with: '02' \r\n", "no_module"},
      {"-NOPERM User x has no permissions to run the 'blob.rdma_hello' command\r\n", "noperm"},
      {"-ERR session create: service 0: fabric error: fi_av_insert inserted -22 of 1 addresses\r\n", "session_refused"},
      {"-READONLY You can't write against a read only replica.\r\n", "replica"},
      {"-LOADING Valkey is loading the dataset in memory\r\n", "loading"},
  };
  for (const auto& [reply, reason] : rows) {
    Rig rig({hello_says(reply)});
    rig.start();
    EXPECT_FALSE(rig.engine->available());
    EXPECT_EQ(rig.engine->unavailable_reason(), reason);
    SetResult result = rig.set("key", "value");
    EXPECT_EQ(result.kind, SetResult::Kind::kRepeat);
    EXPECT_EQ(result.text, reason);
    EXPECT_EQ(Rig::bytes_of(result.loan), "value");
  }
}

TEST(EngineHello, ATransferThatWaitedForTheRefusedLaneIsRepeatedAtOnce) {
  Rig rig({hello_says("-ERR RDMA provider unavailable on this instance\r\n")}, on_demand);
  rig.start();
  EXPECT_TRUE(rig.engine->available());
  EXPECT_EQ(rig.get("key", 10).text, "server_no_fabric");
}

TEST(EngineHello, ARefusedServerComesBackByItself) {
  Rig rig({hello_says("-ERR RDMA provider unavailable on this instance\r\n"), Rig::lane().serve(say("$-1\r\n"))},
          on_demand);
  rig.start();
  EXPECT_EQ(rig.get("key", 10).text, "server_no_fabric");
  rig.until_status([](const nlohmann::json& page) { return page["available"] == true; });
  EXPECT_EQ(rig.engine->unavailable_reason(), "");
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
}

TEST(EngineHello, C2AnUnsettledConnectionIsReplacedAndTheTransferGoesOnTheNext) {
  for (const char* reply : {"-ERR RDMA session already established\r\n", "*0\r\n", "+OK\r\n", "*1\r\n$3\r\n02a\r\n",
                            "?\r\n", "*1\r\n$1\r\nxyz\r\n"}) {
    Rig rig({hello_says(reply), Rig::lane().serve(say("$-1\r\n"))}, on_demand);
    rig.start();
    EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing) << reply;
    EXPECT_EQ(rig.server.accepted(), 2U);
  }
}

TEST(EngineHello, C2AConnectionLostBeforeTheReplyIsReplaced) {
  Rig rig({Script().handshake().answer(say("")).close(), Rig::lane().serve(say("$-1\r\n"))}, on_demand);
  rig.start();
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
}

TEST(EngineHello, C2AddressesThatCannotBeInsertedReplaceConnectionAndEndpoint) {
  Rig rig({Rig::lane().until_closed(), Rig::lane().serve(say("$-1\r\n"))}, on_demand);
  rig.fabric.fail_next(ScriptedFabric::Kind::kInsertPeers, "refused", -22);
  rig.start();
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
  EXPECT_EQ(rig.server.accepted(), 2U);
  EXPECT_EQ(rig.fabric.count(ScriptedFabric::Kind::kOpenEndpoint), 2U);
  EXPECT_EQ(rig.fabric.count(ScriptedFabric::Kind::kCloseEndpoint), 1U);
}

TEST(EngineHello, TwoUnsettledConnectionsEndTheWaitWithNothingSent) {
  Rig rig({hello_says("*0\r\n")}, on_demand);
  rig.start();
  SetResult result = rig.set("key", "value");
  EXPECT_EQ(result.kind, SetResult::Kind::kRepeat);
  EXPECT_EQ(result.text, "hello_failed");
  EXPECT_EQ(Rig::bytes_of(result.loan), "value");
  EXPECT_EQ(rig.regions("quarantined"), 0U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(rig.server.commands(i).back()[0], "BLOB.RDMA_HELLO");
}

TEST(EngineHello, AHelloWithoutAReplyIsReplacedInTime) {
  Rig rig({Script().handshake().until_closed(), Rig::lane().serve(say("$-1\r\n"))},
          [](transfer::EngineOptions& options) {
            options.warm = 0;
            options.connect.timeout = std::chrono::milliseconds(200);
            options.upstream_wait = std::chrono::minutes(5);
          });
  rig.start();
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
}

TEST(EngineHello, NoLaneInTimeIsARepeat) {
  Rig rig({Script().handshake().until_closed()}, [](transfer::EngineOptions& options) {
    options.warm = 0;
    options.upstream_wait = std::chrono::milliseconds(50);
  });
  rig.start();
  const auto one = rig.begin_get("one", 10);
  const auto two = rig.begin_get("two", 10);
  EXPECT_EQ(rig.result_of(one).text, "no_lane");
  EXPECT_EQ(rig.result_of(two).text, "no_lane");
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineHello, AServerThatIsNotThereDoesNotMakeTheFabricUnavailable) {
  std::uint16_t free_port = 0;
  {
    const ScriptedServer gone({Script().close()});
    free_port = gone.port();
  }
  Rig rig({Script().close()}, [&](transfer::EngineOptions& options) {
    options.connect.address.port = free_port;
    options.upstream_wait = std::chrono::milliseconds(50);
  });
  rig.start();
  EXPECT_TRUE(rig.engine->available());
  EXPECT_EQ(rig.get("key", 10).text, "no_lane");
}

TEST(EngineHello, ALaneIsMadeAgainAfterTheServerCameBack) {
  auto first = std::make_unique<ScriptedServer>(std::vector{Rig::lane().until_closed()});
  const std::uint16_t port = first->port();
  Rig rig({Script().close()}, [&](transfer::EngineOptions& options) {
    options.connect.address.port = port;
    options.upstream_wait = std::chrono::minutes(5);
  });
  rig.start();
  first.reset();
  rig.until_status(
      [](const nlohmann::json& page) { return page["lanes"].empty() || page["lanes"][0]["state"] != "idle"; });
  const auto slot = rig.begin_get("key", 10);
  const ScriptedServer second({Rig::lane(3).serve(say("$-1\r\n"))}, {}, port);
  EXPECT_EQ(rig.result_of(slot).kind, FetchResult::Kind::kMissing);
  // C11: a HELLO of its own, and the new addresses are the only ones left.
  EXPECT_EQ(rig.fabric.count(ScriptedFabric::Kind::kInsertPeers), 2U);
  rig.until_status([](const nlohmann::json& page) { return page["fabrics"][0]["endpoints"] == 1; });
  EXPECT_EQ(rig.fabric.counters().av_entries, 3U);
}

TEST(EngineHello, AnOlderGenerationIsFoundByItsHelloAndSpokenTo) {
  Rig rig([](ScriptedFabric& fabric) {
    const auto old_server = [&fabric](const Script::Command& command) -> std::string {
      if (command[0] == "BLOB.HELLO") return hello_reply();
      if (command[0] == "BLOB.SET") return "+OK\r\n";
      if (command[0] == "BLOB.GET") return give(fabric, "value")(command);
      return "-ERR unknown command '" + command[0] + "', with args beginning with: \r\n";
    };
    return std::vector<Script>{Script().handshake().serve(old_server)};
  });
  rig.start();
  EXPECT_TRUE(rig.engine->available());
  EXPECT_EQ(rig.status()["dialect"], "blob");
  EXPECT_EQ(rig.set("key", "value").kind, SetResult::Kind::kStored);
  const FetchResult result = rig.get("key", 5);
  EXPECT_EQ(result.kind, FetchResult::Kind::kValue);
  // One HELLO a connection (C2), and a SET without CRC: key, length and one window.
  EXPECT_EQ(rig.server.accepted(), 2U);
  const std::vector<Script::Command> commands = rig.server.commands(1);
  EXPECT_EQ(commands[commands.size() - 2].size(), 6U);
}

TEST(EngineHello, WhatNoGenerationKnowsIsAServerWithoutTheModule) {
  Rig rig({hello_says("-ERR unknown command\r\n")});
  rig.start();
  EXPECT_EQ(rig.engine->unavailable_reason(), "no_module");
  EXPECT_EQ(rig.server.commands(0).back()[0], "BLOB.RDMA_HELLO");
  EXPECT_EQ(rig.server.commands(1).back()[0], "BLOB.HELLO");
}

TEST(EngineHello, AFabricWithoutEndpointsIsAReasonAndIsTriedAgain) {
  Rig rig({Script().handshake().until_closed(), Rig::lane().serve(say("$-1\r\n"))});
  rig.fabric.fail_next(ScriptedFabric::Kind::kOpenEndpoint, "no more queue pairs", -12);
  rig.start();
  EXPECT_EQ(rig.engine->unavailable_reason(), "no_endpoint");
  rig.until_status([](const nlohmann::json& page) { return page["available"] == true; });
  EXPECT_EQ(rig.get("key", 10).kind, FetchResult::Kind::kMissing);
}

}  // namespace
}  // namespace keyferry::test
