#include "gateway/client_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/client_list.h"

namespace keyferry::gateway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kNobody = "9223372036854775807";

/// Runs what it was given when it is told to.
struct Queue final : base::Executor {
  void post(base::Task task) override { tasks.push_back(std::move(task)); }
  void run() {
    for (base::Task& task : std::exchange(tasks, {})) task();
  }
  std::vector<base::Task> tasks;
};

struct Client final : ReachableClient {
  void kill() override { killed = true; }
  void attach(std::function<void()> done) override {
    attached = true;
    done();
  }
  bool killed = false;
  bool attached = false;
};

/// Clients 1 (server's id 51), 2 (server's id 52), 3 (without a connection of its own, by a Unix socket).
class ClientIds : public testing::Test {
 protected:
  ClientIds() {
    for (const std::uint64_t id : {1U, 2U, 3U}) {
      ClientFacts facts;
      facts.id = id;
      facts.name = "client-" + std::to_string(id);
      if (id != 3) facts.peer = "127.0.0.1:700" + std::to_string(id);
      facts.local_address = std::make_shared<const std::string>(id == 3 ? "/run/s:0" : "127.0.0.1:6380");
      facts.unix_socket = id == 3;
      facts.user = id == 2 ? "ann" : "default";
      facts.database = id == 3 ? 4 : 0;
      facts.redirect = id == 2 ? 1 : 0;
      facts.since = now - std::chrono::seconds(10 * id);
      directory.enter(facts, home, entered.emplace_back(std::make_shared<Client>()));
    }
    directory.pinned(1, 51);
    directory.pinned(2, 52);
  }
  std::vector<std::uint64_t> matching(std::vector<std::string_view> options, bool skip_me = false) const {
    const ClientFilter filter(options, skip_me);
    std::vector<std::uint64_t> ids;
    for (const LocalClient& client : local_clients(directory, server_list, asked, now)) {
      if (filter.matches(client.line, "1")) ids.push_back(client.id);
    }
    return ids;
  }

  const base::TimePoint now = base::Clock::steady().now();
  base::TimePoint asked = now;
  /// 7: the gateway's own, 8: somebody else's.
  const std::string server_list =
      "id=51 addr=a:1 laddr=b:2 name= age=0 idle=0 flags=P capa=r db=0 sub=1 cmd=subscribe user=default redir=-1 "
      "lib-name= lib-ver=\n"
      "id=52 addr=a:2 laddr=b:2 name= age=0 idle=0 flags=tx capa= db=7 sub=0 cmd=exec user=ann redir=51 lib-name=jedis "
      "lib-ver=\n"
      "id=7 addr=c:1 flags=N lib-name=keyferry\nid=8 addr=d:1 flags=N\n";
  ClientDirectory directory;
  Queue home;
  std::vector<std::shared_ptr<Client>> entered;
};

TEST_F(ClientIds, AreTheServersOnTheWayThere) {
  EXPECT_EQ(server_id_text("2", directory), "52");
  EXPECT_EQ(server_id_text("3", directory), kNobody);
  EXPECT_EQ(server_id_text("52", directory), kNobody);
  EXPECT_EQ(server_id_text("x", directory), "x");
  EXPECT_EQ(server_id_text("0", directory), "0");
}

TEST_F(ClientIds, StandBehindRedirectButNotInsideAPrefix) {
  const std::vector<std::string_view> args{"CLIENT", "TRACKING", "on", "PREFIX", "REDIRECT", "redirect", "2"};
  EXPECT_EQ(redirect_place(args), 6U);
  EXPECT_EQ(redirect_place(std::vector<std::string_view>{"CLIENT", "TRACKING", "on"}), std::nullopt);
}

TEST_F(ClientIds, R7AKillThatTheServerCarriesOutNamesConnectionsOfLocalClientsOnly) {
  const auto confined = [&](std::vector<std::string_view> args, bool dedicated) {
    return in_server_words(args, directory, dedicated).value();
  };
  EXPECT_THAT(confined({"CLIENT", "KILL", "TYPE", "id"}, false),
              ElementsAre("CLIENT", "KILL", "TYPE", "id", "ID", kNobody, "51", "52"));
  EXPECT_THAT(confined({"CLIENT", "KILL", "id", "2", "3", "SKIPME", "no"}, false),
              ElementsAre("CLIENT", "KILL", "id", "52", kNobody, "SKIPME", "no"));
  EXPECT_THAT(confined({"CLIENT", "KILL", "ID", "52", "7", "0"}, true),
              ElementsAre("CLIENT", "KILL", "ID", "52", kNobody, "0"));
  EXPECT_THAT(confined({"client", "kill", "10.0.0.1:1"}, true),
              ElementsAre("CLIENT", "KILL", "SKIPME", "no", "ADDR", "10.0.0.1:1", "ID", kNobody, "51", "52"));
  EXPECT_THAT(confined({"CLIENT", "KILL", "127.0.0.1:7002"}, false),
              ElementsAre("CLIENT", "KILL", "SKIPME", "no", "ID", "52"));
  EXPECT_THAT(confined({"CLIENT", "KILL", "/run/s:0"}, false), ElementsAre("CLIENT", "KILL", "0:0"));
  EXPECT_THAT(confined({"CLIENT", "UNBLOCK", "2", "ERROR"}, false), ElementsAre("CLIENT", "UNBLOCK", "52", "ERROR"));
  EXPECT_THAT(confined({"CLIENT", "TRACKING", "ON", "REDIRECT", "1"}, false),
              ElementsAre("CLIENT", "TRACKING", "ON", "REDIRECT", "51"));
  for (const bool dedicated : {false, true})
    EXPECT_EQ(in_server_words(std::vector<std::string_view>{"CLIENT", "LIST", "ID", "1"}, directory, dedicated),
              std::nullopt);
  EXPECT_EQ(in_server_words(std::vector<std::string_view>{"CLIENT", "UNBLOCK", "52"}, directory, true), std::nullopt);
}

TEST_F(ClientIds, AKillOfTheOldFormIsAnsweredAsThat) {
  EXPECT_EQ(old_kill_reply(":0\r\n"), "-ERR No such client\r\n");
  EXPECT_EQ(old_kill_reply(":2\r\n"), "+OK\r\n");
  EXPECT_EQ(old_kill_reply("-NOPERM x\r\n"), "-NOPERM x\r\n");
  EXPECT_TRUE(is_old_kill(std::vector<std::string_view>{"Client", "kill", "a:1"}));
  EXPECT_FALSE(is_old_kill(std::vector<std::string_view>{"CLIENT", "KILL", "ID", "1"}));
}

TEST_F(ClientIds, AreTheGatewaysInReplies) {
  EXPECT_EQ(with_id(":52\r\n", kGetRedirId, 2), ":2\r\n");
  EXPECT_EQ(with_id(":-1\r\n", kGetRedirId, 2), ":-1\r\n");
  EXPECT_EQ(with_id(":0\r\n", kGetRedirId, 2), ":0\r\n");
  EXPECT_EQ(with_id(">2\r\n$21\r\ntracking-redir-broken\r\n:52\r\n", kBrokenRedirId, 2),
            ">2\r\n$21\r\ntracking-redir-broken\r\n:2\r\n");
  EXPECT_EQ(with_id("%1\r\n$2\r\nid\r\n:9\r\n", kHelloId, 123), "%1\r\n$2\r\nid\r\n:123\r\n");
  EXPECT_EQ(with_id(":52\r\n", kGetRedirId, 0), ":52\r\n");
  EXPECT_EQ(with_id("-ERR x\r\n", kHelloId, 1), "-ERR x\r\n");
}

TEST_F(ClientIds, R7AListShowsLocalClientsByTheirOwnIdsAndAddressesAndNobodyElse) {
  const std::vector<LocalClient> clients = local_clients(directory, server_list, now, now);
  ASSERT_EQ(clients.size(), 3U);
  EXPECT_THAT(clients[0].line.text(), HasSubstr("id=1 addr=127.0.0.1:7001 laddr=127.0.0.1:6380 name=client-1 age=10 "));
  EXPECT_EQ(clients[1].line.get("redir"), "1");
  EXPECT_EQ(clients[1].line.get("lib-name"), "jedis");
  EXPECT_THAT(clients[2].line.text(), HasSubstr("id=3 addr=/run/s:0 laddr=/run/s:0 fd=-1 name=client-3 age=30 idle= "
                                                "flags=U capa= db=4 "));
  EXPECT_THAT(clients[2].line.text(), testing::EndsWith("\n"));
}

TEST_F(ClientIds, AClientWhoseConnectionTheServerHasClosedIsOnNoList) {
  directory.pinned(3, 53);
  EXPECT_THAT(matching({}), ElementsAre(1, 2, 3)) << "it became its own behind the question";
  asked = base::Clock::steady().now() + std::chrono::seconds(1);
  EXPECT_THAT(matching({}), ElementsAre(1, 2));
  EXPECT_THAT(local_clients(directory, "", asked, now), testing::SizeIs(3)) << "the server's list is not known";
}

TEST_F(ClientIds, OutputThatWaitsAtTheGatewayIsTheClients) {
  ClientFacts facts;
  const auto activity = std::make_shared<ClientActivity>();
  activity->output = 1000;
  facts.activity = activity;
  facts.local_address = std::make_shared<const std::string>();
  EXPECT_THAT(line_of(facts, nullptr, now).text(), HasSubstr(" omem=1000 tot-mem=1000 "));
  const ClientLine server("id=51 idle=0 omem=20 tot-mem=300 cmd=get");
  EXPECT_THAT(line_of(facts, &server, now).text(), HasSubstr(" omem=1020 tot-mem=1300 "));
}

TEST_F(ClientIds, FiltersMeanWhatTheyMeanAtTheServer) {
  EXPECT_THAT(matching({}), ElementsAre(1, 2, 3));
  EXPECT_THAT(matching({}, true), ElementsAre(2, 3));
  EXPECT_THAT(matching({"SKIPME", "yes"}), ElementsAre(2, 3));
  EXPECT_THAT(matching({"ID", "1", "3", "id", "2", "TYPE", "normal"}), ElementsAre(2, 3));
  EXPECT_THAT(matching({"NOT-ID", "1", "3"}), ElementsAre(2));
  EXPECT_THAT(matching({"TYPE", "pubsub"}), ElementsAre(1));
  EXPECT_THAT(matching({"not-type", "PubSub"}), ElementsAre(2, 3));
  EXPECT_THAT(matching({"USER", "ann"}), ElementsAre(2));
  EXPECT_THAT(matching({"NOT-USER", "ann"}), ElementsAre(1, 3));
  EXPECT_THAT(matching({"FLAGS", "xt"}), ElementsAre(2));
  EXPECT_THAT(matching({"NOT-FLAGS", "U"}), ElementsAre(1, 2));
  EXPECT_THAT(matching({"NAME", "x", "NAME", "client-3"}), ElementsAre(3)) << "the last counts";
  EXPECT_THAT(matching({"LIB-NAME", "jedis"}), ElementsAre(2));
  EXPECT_THAT(matching({"NOT-LIB-VER", "1"}), ElementsAre(1, 2, 3));
  EXPECT_THAT(matching({"DB", "7"}), ElementsAre(2));
  EXPECT_THAT(matching({"CAPA", "r"}), ElementsAre(1));
  EXPECT_THAT(matching({"IP", "127.0.0.1"}), ElementsAre(1, 2));
  EXPECT_THAT(matching({"ADDR", "127.0.0.1:7002"}), ElementsAre(2));
  EXPECT_THAT(matching({"NOT-LADDR", "127.0.0.1:6380"}), ElementsAre(3));
  EXPECT_THAT(matching({"MAXAGE", "20"}), ElementsAre(2, 3));
  EXPECT_THAT(matching({"IDLE", "1"}), ElementsAre());
}

TEST_F(ClientIds, AKilledClientIsOnNoListAnyMore) {
  bool done = false;
  EXPECT_TRUE(directory.kill(2, [&] { done = true; }));
  EXPECT_FALSE(entered[1]->killed || done) << "on a thread that is not its own";
  home.run();
  EXPECT_TRUE(entered[1]->killed && done);
  EXPECT_FALSE(entered[0]->killed || entered[2]->killed);
  EXPECT_FALSE(directory.kill(2, [] {}));
  EXPECT_EQ(directory.client_of(52), 0U);
  EXPECT_THAT(matching({}), ElementsAre(1, 3));
}

TEST_F(ClientIds, AClientIsAttachedOnItsOwnThread) {
  bool done = false;
  EXPECT_TRUE(directory.attach(1, [&] { done = true; }));
  EXPECT_FALSE(entered[0]->attached || done);
  home.run();
  EXPECT_TRUE(entered[0]->attached && done);
  EXPECT_FALSE(directory.attach(4, [] {}));
}

TEST_F(ClientIds, WhoAsksSomethingOfAClientThatIsGoneIsToldSo) {
  int done = 0;
  EXPECT_TRUE(directory.attach(2, [&] { ++done; }));
  EXPECT_TRUE(directory.kill(2, [&] { ++done; }));
  entered[1].reset();
  home.run();
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace keyferry::gateway
