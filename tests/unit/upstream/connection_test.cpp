#include "upstream/connection.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/support/test_certificates.h"
#include "tests/unit/upstream/harness.h"
#include "upstream/transport.h"

namespace keyferry::upstream {

namespace {

std::string read_all(base::Loop& loop, Connection& connection, std::size_t count) {
  std::string got;
  while (got.size() < count) {
    bool done = false;
    connection.read([&](std::error_code error, std::string_view bytes) {
      EXPECT_FALSE(error) << error.message();
      got += bytes;
      done = true;
    });
    run_until(loop, [&] { return done; });
  }
  return got;
}

TEST(Connection, ReportsWhatTheHandshakeFound) {
  base::Loop loop;
  ScriptedServer server({Script().handshake(1234).until_closed()});
  Connected outcome = connect(loop, options_for(server));
  ASSERT_TRUE(outcome.connection) << outcome.error;
  EXPECT_EQ(outcome.connection->client_id(), 1234u);
  EXPECT_EQ(outcome.connection->family(), AF_INET);
  EXPECT_EQ(outcome.connection->options().address.text(), "127.0.0.1:" + std::to_string(server.port()));
  // One pipelined write.
  EXPECT_EQ(server.reads(), 1u);
  EXPECT_EQ(server.commands().size(), 3u);
}

Endpoint loopback(std::uint8_t last, std::uint16_t port) {
  Endpoint endpoint;
  auto* address = reinterpret_cast<sockaddr_in*>(&endpoint.storage);
  address->sin_family = AF_INET;
  address->sin_port = htons(port);
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + last);
  endpoint.length = sizeof(sockaddr_in);
  return endpoint;
}

TEST(Connection, R44ANameIsResolvedAtConnect) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  ConnectOptions options = options_for(server);
  options.address.host = "localhost";
  EXPECT_EQ(connect(loop, options).error, "");
}

TEST(Connection, R44AllAddressesAreTriedInTurn) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  Connected outcome;
  connect_to(loop, options_for(server),
             {loopback(2, server.port()), loopback(3, server.port()), loopback(1, server.port())}, outcome.callback());
  run_until(loop, [&] { return outcome.done; });
  EXPECT_EQ(outcome.error, "");
}

TEST(Connection, WhenAllAddressesRefuseEachIsNamed) {
  base::Loop loop;
  const Port port(false);
  Connected outcome;
  connect_to(loop, options_for(port.number()), {loopback(2, port.number()), loopback(3, port.number())},
             outcome.callback());
  run_until(loop, [&] { return outcome.done; });
  EXPECT_EQ(outcome.error, "127.0.0.1:" + std::to_string(port.number()) +
                               ": connect: 127.0.0.2: Connection refused; 127.0.0.3: Connection refused");
}

TEST(Connection, AnAddressThatSwallowsEverythingLeavesTheOthersTheirTurn) {
  base::Loop loop;
  test::TestCertificates certificates("IP:127.0.0.1");
  const Port silent(true);
  ScriptedServer server({Script().handshake().until_closed()}, {certificates.cert(), certificates.key(), ""});
  ConnectOptions options = options_for(server);
  options.tls = TlsOptions{certificates.ca(), "", "", ""};
  options.timeout = std::chrono::seconds(2);
  Connected outcome;
  // It accepts, and never answers the TLS handshake.
  connect_to(loop, options, {loopback(1, silent.number()), loopback(1, server.port())}, outcome.callback());
  run_until(loop, [&] { return outcome.done; });
  EXPECT_EQ(outcome.error, "");
}

TEST(Connection, ARefusedPortIsNamedWithStepAndCause) {
  base::Loop loop;
  const Port port(false);
  const Connected outcome = connect(loop, options_for(port.number()));
  EXPECT_EQ(outcome.error, "127.0.0.1:" + std::to_string(port.number()) + ": connect: Connection refused");
}

TEST(Connection, ANameThatDoesNotExistFailsAtResolve) {
  base::Loop loop;
  ConnectOptions options = options_for(1);
  options.address.host = "no-such-host.invalid";
  const Connected outcome = connect(loop, options);
  // Where no resolver answers at all, the time limit ends it at the same step.
  EXPECT_TRUE(outcome.error.starts_with("no-such-host.invalid:1: resolve: ")) << outcome.error;
}

TEST(Connection, AServerThatNeverAnswersEndsByTheTimeLimit) {
  base::Loop loop;
  const Port port(true);
  ConnectOptions options = options_for(port.number());
  options.timeout = std::chrono::milliseconds(500);
  const Connected outcome = connect(loop, options);
  EXPECT_EQ(outcome.error, "127.0.0.1:" + std::to_string(port.number()) + ": handshake: no answer within 0.5 s");
}

TEST(Connection, ARefusedPasswordIsNamed) {
  base::Loop loop;
  ScriptedServer server({Script().answer(
      [](const auto&) { return "-WRONGPASS invalid username-password pair or user is disabled.\r\n"; })});
  ConnectOptions options = options_for(server);
  options.password = "wrong";
  const Connected outcome = connect(loop, options);
  EXPECT_EQ(outcome.error,
            options.address.text() + ": AUTH refused: WRONGPASS invalid username-password pair or user is disabled.");
}

TEST(Connection, AServerThatTurnsEverybodyAwayIsQuoted) {
  base::Loop loop;
  ScriptedServer server(
      {Script().answer([](const auto&) { return "-ERR max number of clients reached\r\n"; }).close()});
  const ConnectOptions options = options_for(server);
  const Connected outcome = connect(loop, options);
  EXPECT_TRUE(outcome.error.starts_with(options.address.text() + ": handshake: ")) << outcome.error;
  EXPECT_TRUE(outcome.error.ends_with("after it said: ERR max number of clients reached")) << outcome.error;
}

TEST(Connection, ConnectNeverCallsBackAtOnce) {
  base::Loop loop;
  Connected outcome;
  ConnectOptions options = options_for(1);
  options.tls = TlsOptions{"/nonexistent/ca.crt", "", "", ""};
  Connection::connect(loop, options, outcome.callback());
  EXPECT_FALSE(outcome.done);
  run_until(loop, [&] { return outcome.done; });
}

TEST(Connection, ALoopThatGoesInMidConnectTakesItAlong) {
  const Port silent(true);
  Connected outcome;
  {
    base::Loop loop;
    Connection::connect(loop, options_for(silent.number()), outcome.callback());
    for (int i = 0; i < 3; ++i) loop.context().poll_one();
  }
  EXPECT_FALSE(outcome.done);
}

TEST(Connection, ManyPiecesArriveInOrder) {
  base::Loop loop;
  // More than one call to the stream takes, of sizes that do not divide its buffers, and more than a socket's buffer in
  // all.
  std::vector<std::string> parts;
  std::string whole;
  for (std::size_t i = 0; i < 700; ++i) {
    parts.emplace_back(i * 137 % 90000, static_cast<char>('a' + i % 26));
    whole += parts.back();
  }
  ScriptedServer server({Script().handshake().hold().expect(whole).send("+OK\r\n").until_closed()});
  Connected outcome = connect(loop, options_for(server));
  std::vector<base::ConstBytes> pieces;
  for (const std::string& part : parts) pieces.push_back(base::as_bytes(part));
  bool written = false;
  outcome.connection->write(std::move(pieces), [&](std::error_code error) {
    EXPECT_FALSE(error);
    written = true;
  });
  run_ready(loop);
  EXPECT_FALSE(written);
  server.go();
  EXPECT_EQ(read_all(loop, *outcome.connection, 5), "+OK\r\n");
  EXPECT_TRUE(written);
}

TEST(Connection, CloseEndsWhatIsUnderWayWithOperationCanceled) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  Connected outcome = connect(loop, options_for(server));
  std::error_code got;
  bool done = false;
  outcome.connection->read([&](std::error_code error, std::string_view) {
    got = error;
    done = true;
  });
  outcome.connection->close();
  EXPECT_FALSE(done);
  run_until(loop, [&] { return done; });
  EXPECT_EQ(got, std::errc::operation_canceled);
  done = false;
  outcome.connection->read([&](std::error_code error, std::string_view) {
    got = error;
    done = true;
  });
  outcome.connection.reset();
  run_until(loop, [&] { return done; });
  EXPECT_EQ(got, std::errc::operation_canceled);
}

TEST(Connection, AWatchSeesTheServerClose) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().hold().close()});
  Connected outcome = connect(loop, options_for(server));
  bool stirred = false;
  outcome.connection->watch([&] { stirred = true; });
  server.go();
  run_until(loop, [&] { return stirred; });
}

TEST(Connection, AReadTakesAWatchOverAndNoByteIsLost) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().hold().send("+one\r\n").hold().send("+two\r\n").until_closed()});
  Connected outcome = connect(loop, options_for(server));
  // Taken over while nothing has come.
  outcome.connection->watch([] { FAIL() << "the watch was over"; });
  outcome.connection->watch({});
  std::string got;
  outcome.connection->read([&](std::error_code, std::string_view bytes) { got = bytes; });
  server.go();
  run_until(loop, [&] { return !got.empty(); });
  EXPECT_EQ(got, "+one\r\n");
  // Taken over after something has come.
  bool stirred = false;
  outcome.connection->watch([&] { stirred = true; });
  server.go();
  run_until(loop, [&] { return stirred; });
  EXPECT_EQ(read_all(loop, *outcome.connection, 6), "+two\r\n");
}

}  // namespace
}  // namespace keyferry::upstream
