#include <filesystem>

#include "tests/support/test_certificates.h"
#include "tests/unit/upstream/harness.h"

namespace keyferry::upstream {

namespace {

class TlsTest : public testing::Test {
 protected:
  ConnectOptions options(const ScriptedServer& server) const {
    ConnectOptions made = options_for(server);
    made.tls = TlsOptions{certificates.ca(), "", "", ""};
    return made;
  }
  static std::vector<Script> answering() {
    return {Script().handshake().serve([](const auto& command) { return "+" + command.back() + "\r\n"; })};
  }

  test::TestCertificates certificates{"DNS:valkey.example,IP:127.0.0.1"};
  base::Loop loop;
};

TEST_F(TlsTest, CommandsAndRepliesPassWhenTheCertificateIsGood) {
  ScriptedServer server(answering(), {certificates.cert(), certificates.key(), ""});
  RecordingSink sink;
  Channel channel(loop, options(server));
  const std::string large(300000, 'x');
  sink.send(channel, {"ECHO", "a"}, 1);
  sink.send(channel, {"SET", large, "b"}, 2);
  run_until(loop, [&] { return sink.ended.size() == 2; });
  EXPECT_TRUE(sink.lost.empty()) << sink.lost[0].reason;
  EXPECT_EQ(sink.replies[1], "+a\r\n");
  EXPECT_EQ(sink.replies[2], "+b\r\n");
}

TEST_F(TlsTest, R56AReconnectResumesTheSession) {
  ScriptedServer server(answering(), {certificates.cert(), certificates.key(), ""});
  for (std::uint64_t i = 0; i < 3; ++i) {
    RecordingSink sink;
    Channel channel(loop, options(server));
    sink.send(channel, {"ECHO", "a"}, 1);
    run_until(loop, [&] { return sink.ended.size() == 1; });
    EXPECT_EQ(sink.replies[1], "+a\r\n");
    EXPECT_EQ(server.resumed(), i);
  }
}

TEST_F(TlsTest, TheNameOfTheOptionsIsCheckedInPlaceOfTheHost) {
  ScriptedServer server(answering(), {certificates.cert(), certificates.key(), ""});
  ConnectOptions named = options(server);
  named.tls->name = "valkey.example";
  EXPECT_EQ(connect(loop, named).error, "");
}

TEST_F(TlsTest, AnUnknownAuthorityIsRefusedByName) {
  ScriptedServer server(answering(), {certificates.cert(), certificates.key(), ""});
  ConnectOptions wrong = options(server);
  wrong.tls->ca = certificates.other_ca();
  EXPECT_EQ(connect(loop, wrong).error,
            wrong.address.text() + ": TLS: certificate refused: unable to get local issuer certificate");
  // The system's authorities do not know it either.
  wrong.tls->ca.clear();
  EXPECT_EQ(connect(loop, wrong).error,
            wrong.address.text() + ": TLS: certificate refused: unable to get local issuer certificate");
}

TEST_F(TlsTest, AWrongNameIsRefusedByName) {
  ScriptedServer server(answering(), {certificates.cert(), certificates.key(), ""});
  ConnectOptions wrong = options(server);
  wrong.tls->name = "other.example";
  EXPECT_EQ(connect(loop, wrong).error, wrong.address.text() +
                                            ": TLS: certificate refused: hostname mismatch: it is not for "
                                            "'other.example' (tls.name names another)");
  wrong.tls->name = "127.0.0.2";
  EXPECT_EQ(connect(loop, wrong).error, wrong.address.text() +
                                            ": TLS: certificate refused: IP address mismatch: it is not for "
                                            "'127.0.0.2' (tls.name names another)");
}

TEST_F(TlsTest, AServerThatWantsAClientCertificateGetsIt) {
  ScriptedServer server(answering(), {certificates.cert(), certificates.key(), certificates.ca()});
  ConnectOptions with = options(server);
  const Connected without = connect(loop, with);
  EXPECT_TRUE(without.error.starts_with(with.address.text() + ": ")) << without.error;
  with.tls->cert = certificates.cert();
  with.tls->key = certificates.key();
  EXPECT_EQ(connect(loop, with).error, "");
}

TEST_F(TlsTest, FilesThatCannotBeLoadedAreNamed) {
  ConnectOptions wrong = options_for(1);
  wrong.tls = TlsOptions{"/nonexistent/ca.crt", "", "", ""};
  EXPECT_TRUE(
      connect(loop, wrong).error.starts_with("127.0.0.1:1: TLS: cannot load the authorities /nonexistent/ca.crt: "));
  wrong.tls = TlsOptions{certificates.ca(), certificates.cert(), "", ""};
  EXPECT_EQ(connect(loop, wrong).error,
            "127.0.0.1:1: TLS: a client certificate needs both a certificate and a key file");
}

TEST_F(TlsTest, R57FilesThatChangedAreLoadedAnew) {
  ScriptedServer server(answering(), {certificates.cert(), certificates.key(), ""});
  const std::string path = certificates.ca() + ".current";
  std::filesystem::copy_file(certificates.other_ca(), path);
  ConnectOptions changing = options(server);
  changing.tls->ca = path;
  EXPECT_NE(connect(loop, changing).error, "");
  std::filesystem::remove(path);
  std::filesystem::copy_file(certificates.ca(), path);
  EXPECT_EQ(connect(loop, changing).error, "");
}

TEST_F(TlsTest, APlainPortIsNotTakenForATlsPort) {
  ScriptedServer server({Script().send("-ERR plain\r\n").until_closed()});
  const ConnectOptions wrong = options(server);
  const Connected outcome = connect(loop, wrong);
  EXPECT_TRUE(outcome.error.starts_with(wrong.address.text() + ": TLS: ")) << outcome.error;
}

TEST_F(TlsTest, AServerThatStallsInTheTlsHandshakeEndsByTheTimeLimit) {
  const Port silent(true);
  ConnectOptions stalled = options_for(silent.number());
  stalled.tls = TlsOptions{certificates.ca(), "", "", ""};
  stalled.timeout = std::chrono::milliseconds(500);
  EXPECT_EQ(connect(loop, stalled).error, stalled.address.text() + ": TLS: no answer within 0.5 s");
}

}  // namespace
}  // namespace keyferry::upstream
