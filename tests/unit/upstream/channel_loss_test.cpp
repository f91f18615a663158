#include "tests/unit/upstream/harness.h"
#include "upstream/channel.h"

namespace keyferry::upstream {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::uint64_t> numbers(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> list;
  for (; from < to; ++from) list.push_back(from);
  return list;
}

TEST(ChannelLoss, R20AfterKRepliesTheRestIsLostOnceAndInOrder) {
  constexpr std::uint64_t kAll = 10;
  for (std::uint64_t answered = 0; answered < kAll; ++answered) {
    base::Loop loop;
    Script script = Script().handshake();
    for (std::uint64_t i = 0; i < kAll; ++i)
      script.answer([=](const auto&) { return i < answered ? "+" + std::to_string(i) + "\r\n" : ""; });
    ScriptedServer server({script.close()});
    Channel channel(loop, options_for(server));
    RecordingSink sink;
    for (std::uint64_t i = 0; i < kAll; ++i) sink.send(channel, {"GET", "k"}, i);
    run_until(loop, [&] { return channel.dead(); });
    EXPECT_EQ(sink.ended, numbers(0, kAll));
    ASSERT_EQ(sink.lost.size(), kAll - answered);
    for (std::uint64_t i = 0; i < answered; ++i) EXPECT_EQ(sink.replies[i], "+" + std::to_string(i) + "\r\n");
    for (const auto& loss : sink.lost) {
      EXPECT_EQ(loss.how, Lost::kMayHaveRun);
      EXPECT_FALSE(loss.begun);
      EXPECT_EQ(loss.reason, "127.0.0.1:" + std::to_string(server.port()) + ": connection lost: closed by the server");
    }
    EXPECT_EQ(channel.pending(), 0u);
    EXPECT_FALSE(channel.accepts());
  }
}

TEST(ChannelLoss, R20AReplyCutInItsMiddleIsLostAsBegun) {
  base::Loop loop;
  ScriptedServer server({Script()
                             .handshake()
                             .answer([](const auto&) { return "$10\r\n12345"; })
                             .answer([](const auto&) { return ""; })
                             .close()});
  Channel channel(loop, options_for(server));
  RecordingSink sink;
  sink.send(channel, {"GET", "k"}, 1);
  sink.send(channel, {"GET", "k"}, 2);
  run_until(loop, [&] { return channel.dead(); });
  EXPECT_EQ(sink.replies[1], "$10\r\n12345");
  ASSERT_EQ(sink.lost.size(), 2u);
  EXPECT_TRUE(sink.lost[0].begun);
  EXPECT_FALSE(sink.lost[1].begun);
}

TEST(ChannelLoss, RepliesThatCameBeforeAResetAreNotMissedByAFailingWrite) {
  base::Loop loop;
  // It answers the first command and resets while the second is still being written: one turn of the loop finds both.
  ScriptedServer server({Script().handshake().answer([](const auto&) { return ""; }).hold().send("+one\r\n").close()});
  Channel channel(loop, options_for(server));
  run_until(loop, [&] { return channel.connected(); });
  RecordingSink sink;
  sink.send(channel, {"GET", "k"}, 1);
  run_until(loop, [&] { return channel.totals().writes == 1; });
  run_ready(loop);
  sink.send(channel, {"SET", "k", std::string(32 << 20, 'x')}, 2);
  run_until(loop, [&] { return channel.totals().writes == 2; });
  run_ready(loop);
  server.go();
  server.wait_ended();
  run_until(loop, [&] { return channel.dead(); });
  EXPECT_EQ(sink.replies[1], "+one\r\n");
  EXPECT_THAT(sink.ended, ElementsAre(1, 2));
  EXPECT_EQ(sink.lost.size(), 1u);
}

TEST(ChannelLoss, R13AReplyThatNobodyAskedForClosesTheConnection) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().answer([](const auto&) { return "+one\r\n+stray\r\n"; }).until_closed()});
  Channel channel(loop, options_for(server));
  RecordingSink sink;
  sink.send(channel, {"GET", "k"}, 1);
  run_until(loop, [&] { return channel.dead(); });
  EXPECT_EQ(sink.replies[1], "+one\r\n");
  EXPECT_THAT(sink.lost, IsEmpty());
  server.wait_ended();
  // The next command is not answered by the stray reply.
  sink.send(channel, {"GET", "k"}, 2);
  run_until(loop, [&] { return sink.ended.size() == 2; });
  EXPECT_EQ(sink.lost[0].how, Lost::kNotSent);
  EXPECT_THAT(sink.lost[0].reason, HasSubstr("the server sent a reply that nobody asked for"));
}

TEST(ChannelLoss, R13AStrayReplyIsNotGivenToACommandThatHasNotLeftYet) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().hold().send("+one\r\n+stray\r\n").hold()});
  Channel channel(loop, options_for(server));
  run_until(loop, [&] { return channel.connected(); });
  RecordingSink sink;
  // The first is more than the sockets take and the server reads nothing, so the second waits here.
  sink.send(channel, {"SET", "k", std::string(32 << 20, 'x')}, 1);
  run_until(loop, [&] { return channel.totals().writes == 1; });
  sink.send(channel, {"GET", "k"}, 2);
  server.go();
  run_until(loop, [&] { return channel.dead(); });
  EXPECT_EQ(sink.replies[1], "+one\r\n");
  ASSERT_EQ(sink.lost.size(), 1u);
  EXPECT_EQ(sink.lost[0].tag, 2u);
  EXPECT_EQ(sink.lost[0].how, Lost::kNotSent);
  EXPECT_FALSE(sink.lost[0].begun);
}

TEST(ChannelLoss, AProtocolErrorIsALossWithItsReason) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().answer([](const auto&) { return "+one\r\n!?bad\r\n"; }).until_closed()});
  Channel channel(loop, options_for(server));
  RecordingSink sink;
  for (std::uint64_t i = 1; i < 4; ++i) sink.send(channel, {"GET", "k"}, i);
  run_until(loop, [&] { return channel.dead(); });
  EXPECT_THAT(sink.ended, ElementsAre(1, 2, 3));
  ASSERT_EQ(sink.lost.size(), 2u);
  EXPECT_EQ(sink.lost[0].how, Lost::kMayHaveRun);
  EXPECT_THAT(sink.lost[0].reason, HasSubstr(": protocol error in a reply: "));
  server.wait_ended();
}

TEST(ChannelLoss, WhatWasQueuedForAServerThatRefusesWasNotSent) {
  base::Loop loop;
  const Port port(false);
  Channel channel(loop, options_for(port.number()));
  RecordingSink sink;
  sink.send(channel, {"GET", "k"}, 1);
  sink.send(channel, {"GET", "k"}, 2);
  run_until(loop, [&] { return channel.dead(); });
  EXPECT_THAT(sink.ended, ElementsAre(1, 2));
  for (const auto& loss : sink.lost) {
    EXPECT_EQ(loss.how, Lost::kNotSent);
    EXPECT_EQ(loss.reason, "127.0.0.1:" + std::to_string(port.number()) + ": connect: Connection refused");
  }
}

TEST(ChannelLoss, WhatWasQueuedForAServerThatNeverAnswersEndsByTheTimeLimit) {
  base::Loop loop;
  const Port silent(true);
  ConnectOptions options = options_for(silent.number());
  options.timeout = std::chrono::milliseconds(500);
  Channel channel(loop, options);
  RecordingSink sink;
  sink.send(channel, {"GET", "k"}, 1);
  EXPECT_FALSE(channel.connected());
  run_until(loop, [&] { return channel.dead(); });
  ASSERT_EQ(sink.lost.size(), 1u);
  EXPECT_EQ(sink.lost[0].how, Lost::kNotSent);
  EXPECT_THAT(sink.lost[0].reason, HasSubstr("handshake: no answer within 0.5 s"));
}

TEST(ChannelLoss, CommandsBehindAWriteThatIsStuckWereNotSent) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().hold().reset()});
  Channel channel(loop, options_for(server));
  run_until(loop, [&] { return channel.connected(); });
  RecordingSink sink;
  // More than the sockets take: the write stays under way.
  sink.send(channel, {"SET", "k", std::string(32 << 20, 'x')}, 1);
  run_until(loop, [&] { return channel.totals().writes == 1; });
  sink.send(channel, {"GET", "k"}, 2);
  run_ready(loop);
  EXPECT_EQ(channel.totals().writes, 1u);
  server.go();
  run_until(loop, [&] { return channel.dead(); });
  ASSERT_EQ(sink.lost.size(), 2u);
  EXPECT_EQ(sink.lost[0].how, Lost::kMayHaveRun);
  EXPECT_EQ(sink.lost[1].how, Lost::kNotSent);
}

TEST(ChannelLoss, ADeadChannelRefusesWhatIsSentAndNeverInsideSend) {
  base::Loop loop;
  const Port port(false);
  Channel channel(loop, options_for(port.number()));
  run_until(loop, [&] { return channel.dead(); });
  RecordingSink sink;
  sink.send(channel, {"GET", "k"}, 1);
  sink.send(channel, {"GET", "k"}, 2);
  EXPECT_EQ(channel.pending(), 2u);
  run_until(loop, [&] { return sink.ended.size() == 2; });
  EXPECT_THAT(sink.ended, ElementsAre(1, 2));
  EXPECT_EQ(sink.lost[0].how, Lost::kNotSent);
  EXPECT_EQ(channel.pending(), 0u);
}

TEST(ChannelLoss, ASinkThatSendsAgainFromALossIsToldLaterAndOnce) {
  base::Loop loop;
  const Port port(false);
  Channel channel(loop, options_for(port.number()));
  RecordingSink sink;
  sink.then = [&] {
    if (sink.ended.size() == 1) sink.send(channel, {"GET", "k"}, 3);
  };
  sink.send(channel, {"GET", "k"}, 1);
  sink.send(channel, {"GET", "k"}, 2);
  run_until(loop, [&] { return sink.ended.size() == 3; });
  EXPECT_THAT(sink.ended, ElementsAre(1, 2, 3));
  run_ready(loop);
  EXPECT_EQ(sink.ended.size(), 3u);
}

TEST(ChannelLoss, NoSinkIsCalledForALossOnceTheChannelIsDestroyedByOneOfThem) {
  base::Loop loop;
  const Port port(false);
  auto channel = std::make_unique<Channel>(loop, options_for(port.number()));
  RecordingSink sink;
  sink.then = [&] { channel.reset(); };
  sink.send(*channel, {"GET", "k"}, 1);
  sink.send(*channel, {"GET", "k"}, 2);
  run_until(loop, [&] { return !channel; });
  run_ready(loop);
  EXPECT_THAT(sink.ended, ElementsAre(1));
}

}  // namespace
}  // namespace keyferry::upstream
