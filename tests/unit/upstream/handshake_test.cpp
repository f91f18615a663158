#include "upstream/handshake.h"

#include <gtest/gtest.h>

#include "resp/writer.h"

namespace keyferry::upstream {

namespace {

const std::string kSetinfoAndId = "+OK\r\n+OK\r\n:42\r\n";
const std::string kHello = "%2\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$5\r\nproto\r\n:3\r\n";

std::string commands(std::initializer_list<std::initializer_list<std::string_view>> first) {
  std::string out;
  for (const auto& args : first) resp::append_command(out, args);
  resp::append_command(out, {"CLIENT", "SETINFO", "LIB-NAME", "keyferry"});
  resp::append_command(out, {"CLIENT", "SETINFO", "LIB-VER", KEYFERRY_VERSION});
  resp::append_command(out, {"CLIENT", "ID"});
  return out;
}

TEST(Handshake, WithoutPasswordInResp2OnlyTheClientIsNamed) {
  EXPECT_EQ(Handshake(ConnectOptions{}).request(), commands({}));
}

TEST(Handshake, AuthAndSelectComeFirst) {
  ConnectOptions options;
  options.password = "secret";
  options.database = 3;
  EXPECT_EQ(Handshake(options).request(), commands({{"AUTH", "secret"}, {"SELECT", "3"}}));
  options.user = "app";
  EXPECT_EQ(Handshake(options).request(), commands({{"AUTH", "app", "secret"}, {"SELECT", "3"}}));
}

TEST(Handshake, ALoginAsDefaultNamesItsUserAsTheShortFormIsRefusedOnceNoPasswordIsNeeded) {
  const ConnectOptions options =
      ConnectOptions{}.with({.user = "default", .password = "old", .database = 0}, resp::Protocol::kResp2);
  EXPECT_EQ(Handshake(options).request(), commands({{"AUTH", "default", "old"}}));
}

TEST(Handshake, R54ADatabaseChosenBeforeAuthIsChosenByTheConfiguredUserForOneWhoMayNot) {
  ConnectOptions configured;
  configured.password = "secret";
  const ConnectOptions options =
      configured.with({.user = "bob", .password = "x", .database = 9}, resp::Protocol::kResp2);
  Handshake allowed(options);
  EXPECT_TRUE(allowed.request().starts_with(
      commands({{"AUTH", "default", "secret"}, {"SELECT", "9"}, {"AUTH", "bob", "x"}, {"SELECT", "9"}}).substr(0, 20)));
  EXPECT_EQ(allowed.take("+OK\r\n+OK\r\n+OK\r\n-NOPERM no\r\n+OK\r\n+OK\r\n:7\r\n"), Handshake::State::kDone);
  EXPECT_EQ(Handshake(options).take("-NOAUTH x\r\n-NOAUTH y\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n:7\r\n"),
            Handshake::State::kDone);
  EXPECT_EQ(Handshake(options).take("+OK\r\n-NOPERM no\r\n+OK\r\n-NOPERM no\r\n"), Handshake::State::kFailed);
}

TEST(Handshake, InResp3HelloCarriesTheUser) {
  ConnectOptions options;
  options.protocol = resp::Protocol::kResp3;
  EXPECT_EQ(Handshake(options).request(), commands({{"HELLO", "3"}}));
  options.password = "secret";
  EXPECT_EQ(Handshake(options).request(), commands({{"HELLO", "3", "AUTH", "default", "secret"}}));
}

TEST(Handshake, R9EndsTheSameAtEveryCut) {
  ConnectOptions options;
  options.protocol = resp::Protocol::kResp3;
  const std::string answers = kHello + ">1\r\n+news\r\n" + kSetinfoAndId;
  for (std::size_t cut = 1; cut < answers.size(); ++cut) {
    Handshake handshake(options);
    ASSERT_EQ(handshake.take(answers.substr(0, cut)), Handshake::State::kMore) << cut;
    ASSERT_EQ(handshake.take(answers.substr(cut)), Handshake::State::kDone) << cut << handshake.error();
    EXPECT_EQ(handshake.client_id(), 42u);
  }
}

TEST(Handshake, AnOldServerThatKnowsNoSetinfoOrIdIsGoodEnough) {
  Handshake handshake(ConnectOptions{});
  EXPECT_EQ(handshake.take("-ERR unknown\r\n-ERR unknown\r\n-NOPERM no\r\n"), Handshake::State::kDone);
  EXPECT_EQ(handshake.client_id(), 0u);
}

TEST(Handshake, RefusedStepsAreNamed) {
  ConnectOptions options;
  options.password = "wrong";
  Handshake auth(options);
  EXPECT_EQ(auth.take("-WRONGPASS invalid username-password pair\r\n"), Handshake::State::kFailed);
  EXPECT_EQ(auth.error(), "AUTH refused: WRONGPASS invalid username-password pair");

  options.protocol = resp::Protocol::kResp3;
  Handshake hello_auth(options);
  EXPECT_EQ(hello_auth.take("-WRONGPASS invalid\r\n"), Handshake::State::kFailed);
  EXPECT_EQ(hello_auth.error(), "AUTH refused: WRONGPASS invalid");

  Handshake hello(options);
  EXPECT_EQ(hello.take("-NOPROTO unsupported\r\n"), Handshake::State::kFailed);
  EXPECT_EQ(hello.error(), "HELLO 3 refused: NOPROTO unsupported");

  options.protocol = resp::Protocol::kResp2;
  options.database = 99;
  Handshake select(options);
  EXPECT_EQ(select.take("+OK\r\n-ERR DB index is out of range\r\n"), Handshake::State::kFailed);
  EXPECT_EQ(select.error(), "SELECT refused: ERR DB index is out of range");
}

TEST(Handshake, AServerThatWantsAPasswordSaysSoAtConnectAndNotAtEachCommand) {
  Handshake handshake(ConnectOptions{});
  EXPECT_EQ(handshake.take("-NOAUTH Authentication required.\r\n"), Handshake::State::kFailed);
  EXPECT_EQ(handshake.error(),
            "AUTH needed: the server wants a password and none is configured (upstream.password_file): NOAUTH "
            "Authentication required.");
}

TEST(Handshake, WhatIsNotRespOrTooLongOrTooMuchFails) {
  Handshake http(ConnectOptions{});
  EXPECT_EQ(http.take("HTTP/1.1 400 Bad Request\r\n"), Handshake::State::kFailed);
  EXPECT_TRUE(http.error().starts_with("handshake: the server does not speak RESP")) << http.error();

  Handshake bulk(ConnectOptions{});
  EXPECT_EQ(bulk.take("$999999999\r\n"), Handshake::State::kFailed);
  EXPECT_EQ(bulk.error(), "handshake: the server's answer is longer than 64 KiB");

  Handshake elements(ConnectOptions{});
  EXPECT_EQ(elements.take("*100000\r\n"), Handshake::State::kMore);
  std::string ones;
  for (int i = 0; i < 20000; ++i) ones += ":1\r\n";
  EXPECT_EQ(elements.take(ones), Handshake::State::kFailed);
  EXPECT_EQ(elements.error(), "handshake: the server's answer is longer than 64 KiB");

  Handshake extra(ConnectOptions{});
  EXPECT_EQ(extra.take(kSetinfoAndId + "+OK\r\n"), Handshake::State::kFailed);
  EXPECT_EQ(extra.error(), "handshake: the server sent more answers than it was asked for");
}

}  // namespace
}  // namespace keyferry::upstream
