#include "upstream/whereabouts.h"

#include "tests/unit/upstream/harness.h"
#include "upstream/pools.h"

namespace keyferry::upstream {

namespace {

using namespace std::chrono_literals;
using resp::Protocol;

SentinelOptions two_sentinels() {
  return {{{"a", 1}, {"b", 2}}, "m"};
}

TEST(Whereabouts, R46DoubtsCountAtOnceAndThenEverMoreSeldomWhileTheyGoOn) {
  Whereabouts where;
  const base::TimePoint start{1h};
  EXPECT_TRUE(where.doubt(start));
  EXPECT_FALSE(where.doubt(start + 999ms));
  EXPECT_TRUE(where.doubt(start + 1s));
  EXPECT_FALSE(where.doubt(start + 2s));
  EXPECT_TRUE(where.doubt(start + 3s));
  EXPECT_EQ(where.number(), 4u);
  EXPECT_EQ(where.state().doubts, 3u);
  // Another story.
  EXPECT_TRUE(where.doubt(start + 2min));
  EXPECT_TRUE(where.doubt(start + 2min + 1s));
}

TEST(Whereabouts, WhatASentinelSaidIsTrueForAWhileUnlessSomethingSpeaksAgainstIt) {
  Whereabouts where(two_sentinels());
  const base::TimePoint start{1h};
  const Address first{"10.0.0.1", 1};
  const Address second{"10.0.0.2", 1};
  EXPECT_FALSE(where.known(start));
  EXPECT_FALSE(where.told(first, 1, start, start)) << "nothing was known before, so nothing has moved";
  EXPECT_EQ(where.number(), 1u);
  EXPECT_EQ(where.known(start + 1s), first);
  EXPECT_FALSE(where.known(start + Whereabouts::kFresh));
  EXPECT_EQ(where.first(), 1u) << "who answered is asked first";
  where.wrong(second);
  EXPECT_EQ(where.known(start), first) << "that was not what it said";
  where.wrong(first);
  EXPECT_FALSE(where.known(start));
  EXPECT_EQ(where.first(), 0u) << "the other one";
  EXPECT_TRUE(where.told(second, 0, start, start));
  EXPECT_EQ(where.number(), 2u);
  EXPECT_EQ(where.state().moves, 1u);
  EXPECT_FALSE(where.told(first, 1, start - 1ms, start + 1ms)) << "it was asked before the change";
  EXPECT_EQ(where.known(start), second);
  where.doubt(start);
  EXPECT_FALSE(where.known(start));
}

TEST(Whereabouts, R46AChannelThatMayLeadToTheWrongServerDeliversWhatItOwesAndIsReplaced) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().expect_command({"GET", "k"}).hold().send("+late\r\n").until_closed(),
                         Script().handshake().until_closed()});
  ConnectOptions options = options_for(server);
  options.where = std::make_shared<Whereabouts>();
  ChannelPool pool(loop, options, 1);
  RecordingSink sink;
  const auto channel = pool.pick(Protocol::kResp2);
  sink.send(*channel, {"GET", "k"}, 1);
  run_until(loop, [&] { return channel->connected(); });
  EXPECT_EQ(pool.pick(Protocol::kResp2), channel);
  ASSERT_TRUE(options.where->doubt(base::Clock::steady().now()));
  pool.review();
  const auto next = pool.pick(Protocol::kResp2);
  EXPECT_NE(next, channel);
  run_until(loop, [&] { return next->connected(); });
  EXPECT_EQ(pool.pick(Protocol::kResp2), next);
  server.go();
  run_until(loop, [&] { return channel->dead(); });
  EXPECT_EQ(sink.replies[1], "+late\r\n");
  EXPECT_TRUE(sink.lost.empty());
}

TEST(Whereabouts, ALentConnectionThatMayLeadToTheWrongServerIsNotLentAgain) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  ConnectOptions options = options_for(server);
  options.where = std::make_shared<Whereabouts>();
  LendingPool pool(loop, options, 2);
  std::unique_ptr<Connection> lent;
  const auto borrow = [&] {
    pool.borrow(Protocol::kResp2, [&](auto result) { lent = std::move(result.value()); });
    run_until(loop, [&] { return lent != nullptr; });
  };
  borrow();
  pool.give_back(std::move(lent));
  borrow();
  EXPECT_EQ(server.accepted(), 1u);
  options.where->doubt(base::Clock::steady().now());
  pool.give_back(std::move(lent));
  borrow();
  EXPECT_EQ(server.accepted(), 2u);
}

}  // namespace
}  // namespace keyferry::upstream
