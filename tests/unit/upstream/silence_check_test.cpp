#include "upstream/silence_check.h"

#include "tests/unit/upstream/harness.h"

namespace keyferry::upstream {

namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

TEST(SilenceCheck, TheServersAnswerIsJudged) {
  EXPECT_EQ(judge_silence(bulk("")), SilenceVerdict::kGone);
  EXPECT_EQ(judge_silence(bulk("id=7 addr=1.2.3.4:5 name= age=9 idle=9 flags=N db=0 cmd=get\n")),
            SilenceVerdict::kStuck);
  EXPECT_EQ(judge_silence(bulk("id=7 addr=1.2.3.4:5 name= age=9 idle=9 flags=xb db=0 cmd=set\n")),
            SilenceVerdict::kHeld);
  EXPECT_EQ(judge_silence("-BUSY a script is running\r\n"), SilenceVerdict::kNotTold);
  EXPECT_EQ(judge_silence("-NOPERM no\r\n"), SilenceVerdict::kNotTold);
}

/// A channel that owes a reply for which the server sends nothing, and a check that is asked every few milliseconds
/// until `enough`.
struct Silent {
  explicit Silent(std::vector<Script> checks, base::Duration long_enough = milliseconds(20))
      : server([&] {
          checks.insert(checks.begin(), Script().handshake().until_closed());
          return std::move(checks);
        }()),
        check(loop, options_for(server), long_enough) {
    sink.send(*channel, {"GET", "k"}, 1);
    run_until(loop, [&] { return channel->totals().writes == 1; });
  }
  template <typename Condition>
  void look_until(const Condition& enough) {
    while (!enough()) {
      check.look({channel}, base::Clock::steady().now());
      run_on();
    }
  }
  void run_on() {
    base::Timer timer(loop);
    bool over = false;
    timer.start(milliseconds(5), [&] { over = true; });
    run_until(loop, [&] { return over; });
  }

  base::Loop loop;
  ScriptedServer server;
  RecordingSink sink;
  std::shared_ptr<Channel> channel = std::make_shared<Channel>(loop, options_for(server));
  SilenceCheck check;
};

Script answers(std::string reply) {
  return Script().handshake().answer([reply = std::move(reply)](const auto&) { return reply; }).until_closed();
}

TEST(SilenceCheck, R134AConnectionThatTheServerDoesNotKnowIsEnded) {
  Silent silent({answers(bulk(""))});
  silent.look_until([&] { return silent.channel->dead(); });
  ASSERT_EQ(silent.sink.lost.size(), 1u);
  EXPECT_EQ(silent.sink.lost[0].how, Lost::kMayHaveRun);
  EXPECT_THAT(silent.sink.lost[0].reason, HasSubstr("does not know it any more"));
}

TEST(SilenceCheck, R134AConnectionThatNothingHoldsIsEndedWhenItIsFoundSoTwice) {
  Silent silent({answers(bulk("id=7 flags=N db=0\n"))});
  silent.look_until([&] { return silent.channel->dead(); });
  EXPECT_GE(silent.server.accepted(), 3u) << "the channel and two questions";
  EXPECT_THAT(silent.sink.lost.at(0).reason, HasSubstr("silent"));
}

TEST(SilenceCheck, R35AServerThatIsBusyOrHoldsTheCommandEndsNothing) {
  Silent silent({answers("-BUSY a script\r\n"), answers(bulk("id=7 flags=b db=0\n")), Script().handshake().close(),
                 answers(bulk("id=7 flags=b db=0\n"))});
  silent.look_until([&] { return silent.server.accepted() >= 7; });
  EXPECT_FALSE(silent.channel->dead());
  silent.server.send_now(0, "+late\r\n");
  run_until(silent.loop, [&] { return silent.sink.ended.size() == 1; });
  EXPECT_EQ(silent.sink.replies[1], "+late\r\n");
}

TEST(SilenceCheck, ASilenceThatEndsInBetweenIsAnotherOne) {
  Silent silent({answers(bulk("id=7 flags=N db=0\n"))});
  silent.look_until([&] { return silent.server.accepted() == 2; });
  // The question has been answered. It may have been accepted before this side has said anything.
  while (silent.server.running() > 1) silent.run_on();
  silent.server.send_now(0, "+one\r\n");
  run_until(silent.loop, [&] { return silent.sink.ended.size() == 1; });
  const std::size_t asked = silent.server.accepted();
  EXPECT_FALSE(silent.channel->silent_since());
  silent.sink.send(*silent.channel, {"GET", "k"}, 2);
  silent.look_until([&] { return silent.server.accepted() > asked; });
  EXPECT_FALSE(silent.channel->dead()) << "found stuck for the first time in this silence";
}

}  // namespace
}  // namespace keyferry::upstream
