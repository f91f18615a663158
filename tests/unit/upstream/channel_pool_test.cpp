#include <algorithm>
#include <cerrno>
#include <utility>

#include "tests/unit/upstream/harness.h"
#include "upstream/pools.h"

namespace keyferry::upstream {

namespace {

using resp::Protocol;
using testing::HasSubstr;

Script echo() {
  return Script().handshake().serve([](const auto& command) { return "+" + command.back() + "\r\n"; });
}

/// Lateness comes with time alone.
template <typename Condition>
void run_while_not(base::Loop& loop, const Condition& condition) {
  while (!condition()) loop.context().run_for(std::chrono::milliseconds(1));
}

TEST(ChannelPool, IdleChannelsAreReusedAndBusyOnesJoinedByMoreUpToTheLimit) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  ChannelPool pool(loop, options_for(server), 2);
  RecordingSink sink;
  const auto first = pool.pick(Protocol::kResp2);
  EXPECT_EQ(pool.pick(Protocol::kResp2), first);
  sink.send(*first, {"GET", "k"}, 1);
  const auto second = pool.pick(Protocol::kResp2);
  EXPECT_NE(second, first);
  sink.send(*second, {"GET", "k"}, 2);
  sink.send(*second, {"GET", "k"}, 3);
  EXPECT_EQ(pool.pick(Protocol::kResp2), first) << "the least loaded";
  EXPECT_EQ(pool.counts().connecting, 2u);
  run_until(loop, [&] { return pool.counts().open == 2; });
  EXPECT_EQ(pool.counts().connecting, 0u);
}

TEST(ChannelPool, R58ALiveChannelLogsInAgainWhenThePasswordHasChanged) {
  base::Loop loop;
  ScriptedServer server({echo()});
  ConnectOptions options = options_for(server);
  const auto credentials = std::make_shared<Credentials>("first");
  options.credentials = credentials;
  ChannelPool pool(loop, options, 1);
  RecordingSink sink;
  const auto channel = pool.pick(Protocol::kResp2);
  run_until(loop, [&] { return channel->connected(); });
  EXPECT_EQ(server.commands(0)[0], (Script::Command{"AUTH", "first"}));
  pool.trim(base::Clock::steady().now());
  sink.send(*channel, {"ECHO", "before"}, 1);
  run_until(loop, [&] { return channel->pending() == 0; });
  credentials->renew("second");
  for (int i = 0; i < 2; ++i) pool.trim(base::Clock::steady().now());
  sink.send(*channel, {"ECHO", "after"}, 2);
  run_until(loop, [&] { return channel->pending() == 0; });
  const auto commands = server.commands(0);
  const auto logins = std::count(commands.begin(), commands.end(), Script::Command{"AUTH", "second"});
  EXPECT_EQ(logins, 1);
  EXPECT_EQ(server.accepted(), 1u);
}

TEST(ChannelPool, TheIdentityThatWasIdleLongestGivesWayAndWhoFindsNoRoomWaits) {
  base::Loop loop;
  ScriptedServer server({echo()});
  std::size_t room = 2;
  bool elsewhere = false;
  ChannelPool pool(loop, options_for(server), 2,
                   {[&] { return room; }, [&] { return std::exchange(elsewhere, false); }});
  RecordingSink sink;
  std::weak_ptr<Channel> first = pool.pick({"ann", "", 0}, Protocol::kResp2);
  auto second = pool.pick({"bob", "", 0}, Protocol::kResp2);
  EXPECT_EQ(pool.total(), 2u);
  auto third = pool.pick({"eve", "", 0}, Protocol::kResp2);
  EXPECT_TRUE(first.expired()) << "nobody held it";
  EXPECT_EQ(pool.total(), 2u);
  // Both are held: the next one waits for room.
  auto fourth = pool.pick({"ned", "", 0}, Protocol::kResp2);
  EXPECT_TRUE(fourth->held());
  sink.send(*fourth, {"ECHO", "x"}, 1);
  pool.trim(base::Clock::steady().now());
  EXPECT_TRUE(fourth->held());
  second.reset();
  pool.trim(base::Clock::steady().now());
  EXPECT_FALSE(fourth->held());
  run_until(loop, [&] { return fourth->pending() == 0; });
  EXPECT_EQ(pool.total(), 2u);
}

TEST(ChannelPool, WhoFindsNoRoomInTimeIsToldTheLimit) {
  base::Loop loop;
  ScriptedServer server({echo()});
  ConnectOptions options = options_for(server);
  options.timeout = std::chrono::milliseconds(20);
  ChannelPool pool(loop, options, 1, {[] { return std::size_t{0}; }, [] { return false; }});
  const auto channel = pool.pick(Protocol::kResp2);
  run_until(loop, [&] { return channel->dead(); });
  EXPECT_EQ(channel->failure(), EAGAIN);
  EXPECT_EQ(server.accepted(), 0u);
}

TEST(ChannelPool, EachProtocolHasItsOwnChannels) {
  base::Loop loop;
  ScriptedServer server({echo()});
  ChannelPool pool(loop, options_for(server), 1);
  const auto two = pool.pick(Protocol::kResp2);
  const auto three = pool.pick(Protocol::kResp3);
  EXPECT_NE(two, three);
  run_until(loop, [&] { return two->connected() && three->connected(); });
  std::size_t hellos = 0;
  for (std::size_t i = 0; i < 2; ++i) hellos += server.commands(i)[0][0] == "HELLO" ? 1 : 0;
  EXPECT_EQ(hellos, 1u);
}

TEST(ChannelPool, NoReadWaitsForAWriteThatTheServerHoldsBack) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().hold().send("+OK\r\n").until_closed()});
  ChannelPool pool(loop, options_for(server), 2);
  RecordingSink sink;
  const auto pick = [&](Access access) { return pool.pick(Identity{}, Protocol::kResp2, access); };
  const auto late = [](const auto& channel) { return channel->late(base::Clock::steady().now(), Channel::kVeryLate); };
  const auto writes = pick(Access::kWrites);
  run_until(loop, [&] { return writes->connected(); });
  sink.send(*writes, {"SET", "k", "v"}, 1, Access::kWrites);
  const auto reads = pick(Access::kReads);
  EXPECT_NE(reads, writes);
  run_while_not(loop, [&] { return reads->connected() && late(writes); });
  EXPECT_TRUE(pool.holds_writes(Identity{}, Protocol::kResp2));
  // The other one is left to reads, and one more made for the writes that come next.
  EXPECT_EQ(pick(Access::kWrites), writes);
  run_until(loop, [&] { return pool.counts().open == 3; });
  const auto more = pick(Access::kWrites);
  EXPECT_NE(more, writes);
  sink.send(*more, {"SET", "k", "v"}, 2, Access::kWrites);
  run_while_not(loop, [&] { return late(more); });
  EXPECT_TRUE(pick(Access::kWrites)->owes_writes());
  EXPECT_FALSE(pick(Access::kReads)->owes_writes());
  pool.tick(base::Clock::steady().now());
  EXPECT_EQ(pool.total(), 3u);
  for (std::size_t i = 0; i < 3; ++i) server.go(i);
  run_until(loop, [&] { return sink.ended.size() == 2; });
  EXPECT_FALSE(pool.holds_writes(Identity{}, Protocol::kResp2));
  pool.tick(base::Clock::steady().now());
  run_until(loop, [&] { return pool.total() == 2; });
}

TEST(ChannelPool, WhereWritesAreOnAllChannelsReadsGetOneMore) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  ChannelPool pool(loop, options_for(server), 1);
  RecordingSink sink;
  const auto writes = pool.pick(Identity{}, Protocol::kResp2, Access::kWrites);
  run_until(loop, [&] { return writes->connected(); });
  sink.send(*writes, {"SET", "k", "v"}, 1, Access::kWrites);
  run_while_not(loop, [&] { return writes->late(base::Clock::steady().now(), Channel::kVeryLate); });
  EXPECT_EQ(pool.pick(Protocol::kResp2), writes) << "the other one is not there yet";
  run_until(loop, [&] { return pool.counts().open == 2; });
  EXPECT_NE(pool.pick(Protocol::kResp2), writes);
}

TEST(ChannelPool, ARetiredChannelIsReplacedAndCountedUntilItIsDone) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  ChannelPool pool(loop, options_for(server), 1);
  RecordingSink sink;
  auto held = pool.pick(Protocol::kResp2);
  sink.send(*held, {"GET", "k"}, 1);
  run_until(loop, [&] { return held->totals().writes == 1; });
  server.send_now(0, "$100000\r\n");
  run_until(loop, [&] { return held->retired(); });
  EXPECT_EQ(pool.counts().retired, 1u);
  const auto fresh = pool.pick(Protocol::kResp2);
  EXPECT_NE(fresh, held);
  EXPECT_EQ(pool.counts().retired, 1u);
  server.send_now(0, std::string(100000, 'x') + "\r\n");
  run_until(loop, [&] { return held->dead(); });
  EXPECT_EQ(sink.total, 100011u);
  EXPECT_EQ(pool.counts().retired, 0u);
}

TEST(ChannelPool, ALongReplyIsNoFailureAndHoldsNothingBack) {
  base::Loop loop;
  const std::string large = "$100000\r\n" + std::string(100000, 'x') + "\r\n";
  ScriptedServer server({Script().handshake().answer([&](const auto&) { return large; }).until_closed()});
  ChannelPool pool(loop, options_for(server), 1);
  RecordingSink sink;
  const auto first = pool.pick(Protocol::kResp2);
  sink.send(*first, {"GET", "k"}, 1);
  run_until(loop, [&] { return first->dead(); });
  EXPECT_TRUE(sink.lost.empty());
  const auto next = pool.pick(Protocol::kResp2);
  run_ready(loop);
  // Dialled in this turn, without the loop's timers.
  server.wait_accepted(2);
}

TEST(ChannelPool, R39AfterAFailureOneChannelWaitsBeforeItDials) {
  base::Loop loop;
  std::uint16_t number = 0;
  {
    const Port port(false);
    number = port.number();
  }
  ChannelPool pool(loop, options_for(number), 4);
  RecordingSink sink;
  const auto first = pool.pick(Protocol::kResp2);
  sink.send(*first, {"GET", "k"}, 1);
  run_until(loop, [&] { return first->dead(); });
  const auto waiting = pool.pick(Protocol::kResp2);
  EXPECT_NE(waiting, first);
  EXPECT_TRUE(waiting->accepts());
  ScriptedServer server({echo()}, {}, number);
  sink.send(*waiting, {"ECHO", "later"}, 2);
  run_ready(loop);
  // Still not dialled, although the server is there by now; and all share the one that waits.
  EXPECT_EQ(server.accepted(), 0u);
  EXPECT_EQ(pool.pick(Protocol::kResp2), waiting);
  EXPECT_EQ(pool.counts().connecting, 1u);
  run_until(loop, [&] { return sink.ended.size() == 2; });
  EXPECT_EQ(sink.replies[2], "+later\r\n");
}

TEST(ChannelPool, R39AServerThatAcceptsAndDiesIsNotDialledInALoop) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().close(), echo()});
  ChannelPool pool(loop, options_for(server), 1);
  const auto first = pool.pick(Protocol::kResp2);
  run_until(loop, [&] { return first->dead(); });
  const auto next = pool.pick(Protocol::kResp2);
  run_ready(loop);
  EXPECT_EQ(server.accepted(), 1u);
  run_until(loop, [&] { return next->connected(); });
}

TEST(ChannelPool, TheBackOffLeavesTimeToDialWithinTheTimeLimit) {
  base::Loop loop;
  const Port port(false);
  ConnectOptions options = options_for(port.number());
  options.timeout = std::chrono::milliseconds(400);
  ChannelPool pool(loop, options, 1);
  for (std::uint64_t i = 0; i < 8; ++i) {
    RecordingSink sink;
    const auto channel = pool.pick(Protocol::kResp2);
    sink.send(*channel, {"GET", "k"}, i);
    run_until(loop, [&] { return channel->dead(); });
    ASSERT_EQ(sink.lost.size(), 1u);
    EXPECT_THAT(sink.lost[0].reason, HasSubstr("connect: Connection refused"));
  }
}

TEST(ChannelPool, R42ALateChannelTakesNothingNewWhileAnotherIsNotLate) {
  base::Loop loop;
  // What the second one is used to is long: its own replies do not make it late for a while.
  Script used_to_long = Script().handshake().hold();
  for (int i = 0; i < 16; ++i) used_to_long.answer([](const auto&) { return "+OK\r\n"; });
  ScriptedServer server({Script().handshake().until_closed(), used_to_long.until_closed()});
  ChannelPool pool(loop, options_for(server), 2);
  RecordingSink sink;
  const auto stuck = pool.pick(Protocol::kResp2);
  sink.send(*stuck, {"KEYS", "*"}, 1);
  run_until(loop, [&] { return stuck->connected(); });
  const auto other = pool.pick(Protocol::kResp2);
  ASSERT_NE(other, stuck);
  for (std::uint64_t tag = 2; tag < 18; ++tag) sink.send(*other, {"GET", "k"}, tag);
  base::Timer timer(loop);
  timer.start(std::chrono::seconds(1), [&] { server.go(1); });
  run_until(loop, [&] { return sink.ended.size() == 16; });
  const base::TimePoint now = base::Clock::steady().now();
  EXPECT_TRUE(stuck->late(now));
  EXPECT_FALSE(other->late(now));
  sink.send(*other, {"GET", "k"}, 18);
  sink.send(*other, {"GET", "k"}, 19);
  EXPECT_EQ(pool.pick(Protocol::kResp2), other) << "more is owed there, but nothing long runs";
  EXPECT_TRUE(other->late(base::Clock::steady().now() + std::chrono::minutes(1)));
}

TEST(ChannelPool, R128ANodeThatIsDownRefusesCommandsAtOnceUntilItIsReachedAgain) {
  base::Loop loop;
  std::uint16_t number = 0;
  {
    const Port port(false);
    number = port.number();
  }
  ConnectOptions options = options_for(number);
  options.timeout = std::chrono::milliseconds(400);
  ChannelPool pool(loop, options, 1);
  RecordingSink sink;
  std::uint64_t tag = 0;
  const auto down = [&] {
    return !sink.lost.empty() && sink.lost.back().reason.find("refused until then") != std::string::npos;
  };
  std::shared_ptr<Channel> channel;
  while (!down()) {
    channel = pool.pick(Protocol::kResp2);
    sink.send(*channel, {"GET", "k"}, ++tag);
    EXPECT_EQ(channel->pending(), 1u);
    run_until(loop, [&] { return sink.ended.size() == tag; });
  }
  EXPECT_EQ(sink.lost.back().how, Lost::kNotSent);
  EXPECT_THAT(sink.lost.back().reason, HasSubstr("Connection refused"));
  EXPECT_FALSE(channel->dead()) << "it was the command that was refused: the next dial is still ahead";
  EXPECT_EQ(channel->pending(), 0u);

  ScriptedServer server({echo()}, {}, number);
  // It dials by itself, whether or not anybody asks.
  while (!channel->connected()) {
    channel = pool.pick(Protocol::kResp2);
    run_until(loop, [&] { return channel->connected() || channel->dead(); });
  }
  EXPECT_EQ(pool.pick(Protocol::kResp2), channel);
  sink.send(*channel, {"ECHO", "again"}, ++tag);
  run_until(loop, [&] { return sink.ended.size() == tag; });
  EXPECT_EQ(sink.replies[tag], "+again\r\n");
}

TEST(ChannelPool, ChannelsOutliveThePoolWithTheirSessions) {
  base::Loop loop;
  ScriptedServer server({echo()});
  auto pool = std::make_unique<ChannelPool>(loop, options_for(server), 1);
  RecordingSink sink;
  const auto channel = pool->pick(Protocol::kResp2);
  sink.send(*channel, {"ECHO", "a"}, 1);
  pool.reset();
  run_until(loop, [&] { return sink.ended.size() == 1; });
  EXPECT_EQ(sink.replies[1], "+a\r\n");
}

}  // namespace
}  // namespace keyferry::upstream
