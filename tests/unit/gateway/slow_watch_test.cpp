#include "gateway/slow_watch.h"

#include <gtest/gtest.h>

#include "gateway/command_table.h"

namespace keyferry::gateway {
namespace {

using namespace std::chrono_literals;

class SlowWatchTest : public testing::Test {
 protected:
  /// A reply whose command came `age` ago, was asked for `queue` later and answered after `upstream`.
  static ReplySlots::Reply reply(base::Duration age, base::Duration queue, base::Duration upstream) {
    const base::TimePoint opened = base::Clock::steady().now() - age;
    const std::string_view name = "GET";
    return {CommandClass::kOrdinary, find_command(std::span(&name, 1)), opened, opened + queue,
            opened + queue + upstream};
  }
  SlowLog log{1h, 3};
  SlowWatch watch{log, 9};
};

TEST_F(SlowWatchTest, WhatItWaitedForIsToldApart) {
  watch.left(reply(4h, 1h, 2h), 10);
  EXPECT_TRUE(log.latest().empty()) << "its client has not taken it";
  watch.taken(9);
  EXPECT_TRUE(log.latest().empty());
  watch.taken(10);
  ASSERT_EQ(log.latest().size(), 1u);
  const SlowCommand slow = log.latest()[0];
  EXPECT_EQ(slow.command, "GET");
  EXPECT_EQ(slow.command_class, "ordinary");
  EXPECT_EQ(slow.client, 9u);
  EXPECT_EQ(slow.queue, base::Duration(1h));
  EXPECT_EQ(slow.upstream, base::Duration(2h));
  EXPECT_GE(slow.delivery, base::Duration(1h));
  EXPECT_LT(slow.delivery, base::Duration(2h));
}

TEST_F(SlowWatchTest, AReplyThatCameSoonButIsNotTakenIsSlowToo) {
  watch.left(reply(2h, 0s, 0s), 10);
  watch.taken(10);
  ASSERT_EQ(log.latest().size(), 1u);
  EXPECT_GE(log.latest()[0].delivery, base::Duration(2h));
}

TEST_F(SlowWatchTest, QuickAndBlockingCommandsAreNotKept) {
  watch.left(reply(1s, 0s, 1s), 10);
  ReplySlots::Reply blocking = reply(4h, 0s, 3h);
  blocking.command_class = CommandClass::kBlocking;
  watch.left(blocking, 20);
  watch.taken(20);
  EXPECT_TRUE(log.latest().empty());
}

TEST_F(SlowWatchTest, TheLatestAreKeptAndAClientThatTakesNothingCostsNoMoreThanItsShare) {
  for (int i = 1; i <= 5; ++i) {
    ReplySlots::Reply one = reply(4h, 0s, 3h);
    one.asked = {};
    watch.left(one, static_cast<std::uint64_t>(i));
    watch.taken(static_cast<std::uint64_t>(i));
  }
  ASSERT_EQ(log.latest().size(), 3u);
  EXPECT_EQ(log.latest()[0].upstream, base::Duration(0)) << "the server was not asked";
  EXPECT_EQ(log.latest()[0].queue, base::Duration(3h));
  SlowLog all{1h, 1000};
  SlowWatch stuck(all, 1);
  for (std::uint64_t i = 1; i <= 1000; ++i) stuck.left(reply(4h, 0s, 3h), i);
  stuck.taken(1000);
  EXPECT_EQ(all.latest().size(), SlowWatch::kMost);
}

}  // namespace
}  // namespace keyferry::gateway
