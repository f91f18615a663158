#include "gateway/stall_watch.h"

#include <gtest/gtest.h>

namespace keyferry::gateway {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kLeast = StallWatch::kLeast;

class StallWatchTest : public testing::Test {
 protected:
  /// After `passed` more.
  bool stalled(base::Duration passed, bool waited_for, std::uint64_t unsent = 0) {
    now += passed;
    return watch.stalled(now, waited_for, unsent, 30s);
  }
  base::TimePoint now = base::Clock::steady().now();
  StallWatch watch;
};

TEST_F(StallWatchTest, TellsOfOneThatMovesNothingWhileSomethingWaitsForIt) {
  EXPECT_FALSE(stalled(0s, true));
  EXPECT_FALSE(stalled(29s, true));
  EXPECT_TRUE(stalled(1s, true));
}

TEST_F(StallWatchTest, NobodyWaitsForAnIdleClientAndItsTimeBeginsWithTheWait) {
  EXPECT_FALSE(stalled(0s, false));
  EXPECT_FALSE(stalled(1000s, false));
  EXPECT_FALSE(stalled(29s, true));
  EXPECT_TRUE(stalled(1s, true));
}

TEST_F(StallWatchTest, LittleIsNoProgressAndMuchBeginsAnew) {
  EXPECT_FALSE(stalled(0s, true));
  watch.moved(kLeast - 1);
  EXPECT_TRUE(stalled(30s, true));
  watch.moved(1);
  EXPECT_FALSE(stalled(1s, true));
  EXPECT_FALSE(stalled(29s, true));
  EXPECT_TRUE(stalled(1s, true));
}

TEST_F(StallWatchTest, WhatTheKernelHoldsWasNotTaken) {
  EXPECT_FALSE(stalled(0s, true));
  watch.moved(kLeast);
  EXPECT_TRUE(stalled(30s, true, 1));
  EXPECT_FALSE(stalled(1s, true, 0));
}

}  // namespace
}  // namespace keyferry::gateway
