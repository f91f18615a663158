#include "upstream/channel.h"

#include "tests/unit/upstream/harness.h"

namespace keyferry::upstream {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string bulk(std::size_t length) {
  return "$" + std::to_string(length) + "\r\n" + std::string(length, 'v') + "\r\n";
}

// A channel to a server that says what the test tells it to.
class ChannelTest : public testing::Test {
 protected:
  ChannelTest() {
    run_until(loop, [&] { return channel->connected(); });
  }

  // Sends one command for each reply to come, and waits until all are with the server.
  void ask(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sink.send(*channel, {"GET", "k"}, next_tag++);
    run_until(loop, [&, out = channel->totals().bytes_out] { return channel->totals().bytes_out > out; });
  }
  // Sends bytes and waits until the channel has read them.
  void say(std::string_view bytes) {
    const std::uint64_t in = channel->totals().bytes_in;
    server.send_now(0, bytes);
    run_until(loop, [&] { return channel->dead() || channel->totals().bytes_in >= in + bytes.size(); });
  }

  base::Loop loop;
  ScriptedServer server{{Script().handshake().until_closed()}};
  RecordingSink sink;
  std::uint64_t next_tag = 1;
  std::unique_ptr<Channel> channel = std::make_unique<Channel>(loop, options_for(server));
};

const std::vector<std::string> kReplies{"+OK\r\n", "$5\r\nhello\r\n", "*2\r\n:1\r\n$-1\r\n", "%1\r\n+k\r\n#t\r\n",
                                        "-ERR no\r\n"};

TEST_F(ChannelTest, R9RepliesCutAtEveryByteArriveTheSame) {
  std::string stream;
  for (const std::string& reply : kReplies) stream += reply;
  for (std::size_t cut = 1; cut < stream.size(); ++cut) {
    sink.replies.clear();
    const std::uint64_t first = next_tag;
    ask(kReplies.size());
    say(stream.substr(0, cut));
    say(stream.substr(cut));
    for (std::size_t i = 0; i < kReplies.size(); ++i)
      ASSERT_EQ(sink.replies[first + i], kReplies[i]) << "cut at " << cut;
    ASSERT_EQ(channel->pending(), 0u);
  }
  EXPECT_THAT(sink.lost, IsEmpty());
}

TEST_F(ChannelTest, R5PushesBetweenRepliesAreDroppedAndCountedAtEveryCut) {
  const std::string push = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";
  const std::string stream = push + "+one\r\n" + push + push + "|1\r\n+ttl\r\n:3\r\n:2\r\n";
  std::uint64_t pushes = 0;
  for (std::size_t cut = 1; cut < stream.size(); ++cut) {
    sink.replies.clear();
    const std::uint64_t first = next_tag;
    ask(2);
    say(stream.substr(0, cut));
    say(stream.substr(cut));
    ASSERT_EQ(sink.replies[first], "+one\r\n") << "cut at " << cut;
    ASSERT_EQ(sink.replies[first + 1], "|1\r\n+ttl\r\n:3\r\n:2\r\n") << "cut at " << cut;
    ASSERT_EQ(channel->totals().pushes_dropped, pushes += 3);
  }
}

TEST_F(ChannelTest, R5APushWithNothingPendingIsNoReply) {
  say(">1\r\n+hello\r\n");
  EXPECT_FALSE(channel->dead());
  EXPECT_EQ(channel->totals().pushes_dropped, 1u);
}

TEST_F(ChannelTest, R13OrderHoldsAcrossManySinks) {
  constexpr std::size_t kSinks = 50;
  constexpr std::size_t kEach = 20;
  ScriptedServer echo({Script().handshake().serve([](const auto& command) { return "+" + command[1] + "\r\n"; })});
  Channel shared(loop, options_for(echo));
  std::vector<RecordingSink> sinks(kSinks);
  for (std::size_t round = 0; round < kEach; ++round) {
    for (std::size_t i = 0; i < kSinks; ++i)
      sinks[i].send(shared, {"ECHO", std::to_string(i) + "/" + std::to_string(round)}, round);
    run_ready(loop);
  }
  run_until(loop, [&] { return shared.pending() == 0; });
  for (std::size_t i = 0; i < kSinks; ++i) {
    ASSERT_EQ(sinks[i].ended.size(), kEach);
    for (std::size_t round = 0; round < kEach; ++round) {
      EXPECT_EQ(sinks[i].ended[round], round);
      EXPECT_EQ(sinks[i].replies[round], "+" + std::to_string(i) + "/" + std::to_string(round) + "\r\n");
    }
  }
}

TEST_F(ChannelTest, AllCommandsOfOneTurnLeaveInOneWrite) {
  const std::uint64_t writes = channel->totals().writes;
  RecordingSink other;
  for (std::uint64_t i = 0; i < 100; ++i) {
    sink.send(*channel, {"GET", "k"}, i);
    other.send(*channel, {"GET", "k"}, i);
  }
  EXPECT_EQ(channel->totals().writes, writes);
  run_until(loop, [&] { return channel->totals().writes > writes; });
  run_ready(loop);
  EXPECT_EQ(channel->totals().writes, writes + 1);
  EXPECT_EQ(channel->pending(), 200u);
}

TEST_F(ChannelTest, WhatIsSentBeforeTheConnectionIsUpLeavesInOneWrite) {
  Channel early(loop, options_for(server));
  RecordingSink mine;
  for (std::uint64_t i = 0; i < 3; ++i) mine.send(early, {"GET", "k"}, i);
  run_until(loop, [&] { return early.connected(); });
  run_ready(loop);
  EXPECT_EQ(early.totals().writes, 1u);
}

TEST_F(ChannelTest, ASinkMaySendFromInsideAReply) {
  sink.then = [&] {
    if (next_tag < 5) sink.send(*channel, {"GET", "k"}, next_tag++);
  };
  ask(1);
  for (int i = 0; i < 4; ++i) {
    say("+a\r\n");
    run_ready(loop);
  }
  EXPECT_THAT(sink.ended, ElementsAre(1, 2, 3, 4));
}

TEST_F(ChannelTest, AReplyOf64KiBDoesNotRetireAndOneByteMoreDoesOnItsHeader) {
  ask(1);
  // The frame with its header must not be longer than kLongReply either.
  say(bulk(Channel::kLongReply - 16));
  EXPECT_TRUE(channel->accepts());
  ask(1);
  say("$" + std::to_string(Channel::kLongReply + 1) + "\r\n");
  EXPECT_TRUE(channel->retired());
  EXPECT_FALSE(channel->accepts());
  EXPECT_FALSE(channel->dead());
}

TEST_F(ChannelTest, ALongReplyOfManySmallElementsRetiresToo) {
  ask(1);
  std::string members = "*20000\r\n";
  for (int i = 0; i < 20000; ++i) members += "$1\r\nm\r\n";
  say(members.substr(0, 1000));
  EXPECT_FALSE(channel->retired());
  say(members.substr(1000, 70000));
  EXPECT_TRUE(channel->retired());
}

TEST_F(ChannelTest, ARetiredChannelDeliversAllItOwesAndThenCloses) {
  ask(3);
  const std::string large = bulk(200000);
  say(large.substr(0, 20));
  ASSERT_TRUE(channel->retired());
  sink.send(*channel, {"GET", "late"}, 99);
  say(large.substr(20) + "+two\r\n");
  EXPECT_FALSE(channel->dead());
  say("+three\r\n");
  EXPECT_TRUE(channel->dead());
  EXPECT_EQ(sink.replies[1], large);
  EXPECT_EQ(sink.replies[2], "+two\r\n");
  EXPECT_EQ(sink.replies[3], "+three\r\n");
  // What came too late ends last, and was not sent.
  EXPECT_THAT(sink.ended, ElementsAre(1, 2, 3, 99));
  ASSERT_EQ(sink.lost.size(), 1u);
  EXPECT_EQ(sink.lost[0].how, Lost::kNotSent);
  server.wait_ended();
}

TEST_F(ChannelTest, R31AFullSinkStopsTheReadingUntilItResumes) {
  constexpr std::size_t kLength = 32 * 1024 * 1024;
  ScriptedServer large({Script().handshake().answer([](const auto&) { return bulk(kLength); }).until_closed()});
  Channel slow(loop, options_for(large));
  sink.hold_after = 256 * 1024;
  sink.send(slow, {"GET", "k"}, 1);
  std::size_t most = 0;
  for (std::size_t holds = 1; sink.ended.empty(); ++holds) {
    run_until(loop, [&] { return sink.holds == holds || !sink.ended.empty(); });
    const std::size_t before = sink.total;
    run_ready(loop);
    EXPECT_EQ(sink.total, before) << "delivered while the sink was full";
    EXPECT_TRUE(slow.retired());
    most = std::max<std::size_t>(most, slow.totals().bytes_in - sink.total);
    slow.resume();
    EXPECT_EQ(sink.total, before) << "delivered inside resume()";
  }
  EXPECT_EQ(sink.total, bulk(kLength).size());
  EXPECT_LE(most, 64u * 1024);
  EXPECT_GT(sink.holds, 50u);
}

TEST_F(ChannelTest, ASinkThatIsFullOnASharedChannelRetiresIt) {
  sink.hold_after = 1;
  ask(2);
  say("+one\r\n+two\r\n");
  EXPECT_TRUE(channel->retired());
  EXPECT_THAT(sink.ended, ElementsAre(1));
  channel->resume();
  run_until(loop, [&] { return sink.ended.size() == 2; });
  EXPECT_EQ(sink.replies[2], "+two\r\n");
}

TEST_F(ChannelTest, ARetiredChannelStillSendsWhatItHadTakenBefore) {
  sink.hold_after = 1;
  sink.then = [&] {
    // Taken while the channel was still good; the reply that this one is for then retires it.
    if (sink.ended.size() == 1) sink.send(*channel, {"GET", "k"}, 2);
  };
  ask(1);
  server.send_now(0, "+one\r\n");
  run_until(loop, [&] { return channel->retired(); });
  channel->resume();
  run_ready(loop);
  ASSERT_FALSE(channel->dead());
  say("+two\r\n");
  EXPECT_EQ(sink.replies[2], "+two\r\n");
  EXPECT_TRUE(channel->dead());
}

TEST_F(ChannelTest, NoSinkIsCalledAfterTheChannelIsGone) {
  ask(2);
  channel.reset();
  server.wait_ended();
  run_ready(loop);
  EXPECT_THAT(sink.ended, IsEmpty());
}

TEST_F(ChannelTest, ASinkMayDestroyTheChannelFromInsideAReply) {
  ask(3);
  sink.then = [&] { channel.reset(); };
  server.send_now(0, "+one\r\n+two\r\n+three\r\n");
  run_until(loop, [&] { return !channel; });
  run_ready(loop);
  EXPECT_THAT(sink.ended, ElementsAre(1));
}

}  // namespace
}  // namespace keyferry::upstream
