#include "tests/unit/upstream/harness.h"
#include "upstream/whereabouts.h"

namespace keyferry::upstream {

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const Script::Command kQuestion{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"};

std::string address_of(const ScriptedServer& server) {
  const std::string port = std::to_string(server.port());
  return "*2\r\n$9\r\n127.0.0.1\r\n$" + std::to_string(port.size()) + "\r\n" + port + "\r\n";
}

Script sentinel(const std::string& answer) {
  return Script().handshake().expect_command(kQuestion).send(answer).until_closed();
}

/// A server that speaks RESP2 unless asked for 3, and tells its role.
Script server_in(const std::string& role) {
  return Script().serve([role](const Script::Command& command) -> std::string {
    const std::string told = "$4\r\nrole\r\n$" + std::to_string(role.size()) + "\r\n" + role + "\r\n";
    if (command[0] == "HELLO") return (command[1] == "3" ? "%1\r\n" : "*2\r\n") + told;
    return command.back() == "ID" ? ":7\r\n" : "+OK\r\n";
  });
}

ConnectOptions by_sentinels(std::vector<std::uint16_t> ports) {
  SentinelOptions sentinels{{}, "m"};
  for (const std::uint16_t port : ports) sentinels.sentinels.push_back({"127.0.0.1", port});
  ConnectOptions options;
  options.address = {"m", 0};
  options.where = std::make_shared<Whereabouts>(std::move(sentinels));
  return options;
}

TEST(Sentinel, ThePrimaryThatASentinelNamesIsDialledInBothProtocols) {
  ScriptedServer primary({server_in("master")});
  ScriptedServer one({sentinel(address_of(primary))});
  ConnectOptions options = by_sentinels({one.port()});
  for (const auto protocol : {resp::Protocol::kResp2, resp::Protocol::kResp3}) {
    base::Loop loop;
    options.protocol = protocol;
    const Connected outcome = connect(loop, options);
    ASSERT_TRUE(outcome.connection) << outcome.error;
    EXPECT_EQ(outcome.connection->options().address, (Address{"127.0.0.1", primary.port()}));
    EXPECT_FALSE(outcome.connection->options().place_is_old());
  }
  EXPECT_EQ(one.accepted(), 1u) << "what it said a moment ago still holds";
  EXPECT_EQ(options.where->state().primary, (Address{"127.0.0.1", primary.port()}));
}

TEST(Sentinel, OneThatIsGoneOrKnowsNothingIsFollowedByTheNext) {
  base::Loop loop;
  ScriptedServer primary({server_in("master")});
  Port gone(false);
  ScriptedServer ignorant({sentinel("*-1\r\n")});
  ScriptedServer odd({sentinel("*1\r\n$1\r\nx\r\n")});
  ScriptedServer good({sentinel(address_of(primary))});
  const ConnectOptions options = by_sentinels({gone.number(), ignorant.port(), odd.port(), good.port()});
  const Connected outcome = connect(loop, options);
  ASSERT_TRUE(outcome.connection) << outcome.error;
  EXPECT_EQ(options.where->first(), 3u) << "it is asked first the next time";
}

TEST(Sentinel, WhenNoneKnowsThePrimaryTheErrorNamesEachAndWhy) {
  base::Loop loop;
  Port gone(false);
  ScriptedServer ignorant({sentinel("*-1\r\n")});
  ScriptedServer locked(
      {Script().answer([](const auto&) { return "-NOAUTH Authentication required.\r\n"; }).until_closed()});
  ScriptedServer sick({sentinel("-IDONTKNOW I have not enough information\r\n")});
  const ConnectOptions options = by_sentinels({gone.number(), ignorant.port(), locked.port(), sick.port()});
  const Connected outcome = connect(loop, options);
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("m: no sentinel knows the primary (upstream.sentinels, upstream.master): 127.0.0.1:"),
                    HasSubstr(std::to_string(gone.number()) + ": connect: Connection refused"),
                    HasSubstr(std::to_string(ignorant.port()) + ": it watches no primary of that name"),
                    HasSubstr(std::to_string(locked.port()) + ": it wants a password and none is configured "
                                                              "(upstream.sentinel_password_file)"),
                    HasSubstr(std::to_string(sick.port()) + ": it says IDONTKNOW")));
}

TEST(Sentinel, OneThatSaysNothingTakesNoMoreThanItsShareOfTheTime) {
  base::Loop loop;
  ScriptedServer primary({server_in("master")});
  ScriptedServer silent({Script().handshake().until_closed()});
  ScriptedServer good({sentinel(address_of(primary))});
  ConnectOptions options = by_sentinels({silent.port(), good.port()});
  options.timeout = std::chrono::milliseconds(600);
  const Connected outcome = connect(loop, options);
  EXPECT_TRUE(outcome.connection) << outcome.error;
}

TEST(Sentinel, AServerThatIsNoPrimaryIsTurnedDownAndAnotherSentinelIsAskedNext) {
  base::Loop loop;
  ScriptedServer replica({server_in("replica")});
  ScriptedServer primary({server_in("master")});
  ScriptedServer stale({sentinel(address_of(replica))});
  ScriptedServer good({sentinel(address_of(primary))});
  const ConnectOptions options = by_sentinels({stale.port(), good.port()});
  const Connected first = connect(loop, options);
  EXPECT_EQ(first.error,
            "m at 127.0.0.1:" + std::to_string(replica.port()) + ": the server is no primary but a replica");
  const Connected second = connect(loop, options);
  ASSERT_TRUE(second.connection) << second.error;
  EXPECT_EQ(second.connection->options().address.port, primary.port());
  EXPECT_EQ(options.where->state().moves, 1u);
}

TEST(Sentinel, ItsOwnPasswordIsUsedForItAndTheServersForTheServer) {
  base::Loop loop;
  ScriptedServer primary({server_in("master")});
  ScriptedServer one({sentinel(address_of(primary))});
  SentinelOptions sentinels{{{"127.0.0.1", one.port()}}, "m"};
  sentinels.user = "watch";
  sentinels.credentials = std::make_shared<Credentials>("theirs");
  ConnectOptions options;
  options.address = {"m", 0};
  options.where = std::make_shared<Whereabouts>(std::move(sentinels));
  options.password = "ours";
  const Connected outcome = connect(loop, options);
  ASSERT_TRUE(outcome.connection) << outcome.error;
  EXPECT_EQ(one.commands(0)[0], (Script::Command{"AUTH", "watch", "theirs"}));
  EXPECT_EQ(primary.commands(0)[0], (Script::Command{"AUTH", "ours"}));
}

}  // namespace
}  // namespace keyferry::upstream
