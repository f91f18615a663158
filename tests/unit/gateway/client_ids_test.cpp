#include "gateway/client_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyferry::gateway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Way = ClientsPlan::Way;

constexpr const char* kNobody = "9223372036854775807";

/// Clients 1 (the one that asks, server's id 51), 2 (server's id 52), 3 (without a connection of its own).
class ClientIds : public testing::Test {
 protected:
  ClientIds() {
    for (const std::uint64_t id : {1U, 2U, 3U}) {
      ClientFacts facts;
      facts.id = id;
      facts.name = "client-" + std::to_string(id);
      facts.since = base::Clock::steady().now();
      directory.enter(facts, [this, id] { killed = id; });
    }
    directory.pinned(1, 51);
    directory.pinned(2, 52);
  }
  ClientsPlan plan(std::vector<std::string_view> args) { return plan_clients(args, directory, 1); }

  ClientDirectory directory;
  std::uint64_t killed = 0;
};

TEST_F(ClientIds, AreTheServersOnTheWayThere) {
  EXPECT_THAT(plan({"CLIENT", "UNBLOCK", "2", "ERROR"}).args, ElementsAre("CLIENT", "UNBLOCK", "52", "ERROR"));
  EXPECT_THAT(plan({"CLIENT", "UNBLOCK", "3"}).args, ElementsAre("CLIENT", "UNBLOCK", kNobody));
  EXPECT_THAT(plan({"CLIENT", "KILL", "id", "52"}).args, ElementsAre("CLIENT", "KILL", "id", kNobody));
  EXPECT_THAT(plan({"CLIENT", "LIST", "ID", "1", "2", "x"}).args, ElementsAre("CLIENT", "LIST", "ID", "51", "52", "x"));
}

TEST_F(ClientIds, AreTheServersInARedirectionToo) {
  const std::vector<std::string_view> args{"CLIENT", "TRACKING", "on", "PREFIX", "REDIRECT", "redirect", "2"};
  EXPECT_THAT(redirect_args(args, directory),
              ElementsAre("CLIENT", "TRACKING", "on", "PREFIX", "REDIRECT", "redirect", "52"));
  EXPECT_TRUE(redirect_args(std::vector<std::string_view>{"CLIENT", "TRACKING", "on"}, directory).empty());
}

TEST_F(ClientIds, AreTheGatewaysOnTheWayBackWithoutTheConnectionsThatClientsShare) {
  const std::string text =
      "id=51 addr=a name= redir=52 lib-name= x\nid=52 addr=b redir=-1 lib-name=keyferry x\n"
      "id=7 addr=c redir=-1 lib-name=keyferry x\nid=8 addr=d redir=-1 lib-name= x\n";
  const std::string reply = "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  const std::string list = translate_client_list(reply, "more\n", directory, resp::Protocol::kResp2);
  EXPECT_THAT(list, HasSubstr("\nid=1 addr=a name= redir=2 lib-name= x\n"));
  EXPECT_THAT(list, HasSubstr("\nid=2 addr=b "));
  EXPECT_THAT(list, Not(HasSubstr("addr=c")));
  EXPECT_THAT(list, HasSubstr("\nid=8 addr=d redir=-1 lib-name= x\nmore\n\r\n"));
  EXPECT_EQ(translate_client_list("-ERR x\r\n", "more", directory, resp::Protocol::kResp2), "-ERR x\r\n");
}

TEST_F(ClientIds, ClientsWithoutAConnectionAreListedAndKilledHere) {
  EXPECT_THAT(plan({"CLIENT", "LIST"}).more, HasSubstr("id=3 addr= laddr= fd=-1 name=client-3 "));
  EXPECT_THAT(plan({"CLIENT", "LIST"}).more, Not(HasSubstr("id=2 ")));
  EXPECT_EQ(plan({"CLIENT", "LIST", "ID", "2"}).more, "");
  EXPECT_EQ(plan({"CLIENT", "LIST", "TYPE", "pubsub"}).more, "");
  const ClientsPlan kill = plan({"CLIENT", "KILL", "ID", "3"});
  EXPECT_EQ(kill.way, Way::kKillHere);
  EXPECT_TRUE(directory.kill(kill.id));
  EXPECT_EQ(killed, 3U);
  directory.remove(3);
  EXPECT_EQ(plan({"CLIENT", "KILL", "ID", "3"}).way, Way::kForward);
}

TEST_F(ClientIds, WhatMightEndSharedConnectionsIsRefused) {
  EXPECT_EQ(plan({"CLIENT", "KILL", "TYPE", "normal"}).way, Way::kRefuse);
  EXPECT_EQ(plan({"CLIENT", "KILL", "127.0.0.1:1"}).way, Way::kRefuse);
  EXPECT_EQ(plan({"CLIENT", "LIST", "USER", "x"}).way, Way::kRefuse);
}

}  // namespace
}  // namespace keyferry::gateway
