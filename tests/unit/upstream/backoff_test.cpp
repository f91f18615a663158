#include "upstream/backoff.h"

#include <gtest/gtest.h>

namespace keyferry::upstream {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

TEST(Backoff, WithoutAFailureThereIsNoWait) {
  const Backoff backoff(seconds(5));
  EXPECT_FALSE(backoff.failing());
  EXPECT_EQ(backoff.wait(base::TimePoint(seconds(1))), base::Duration::zero());
}

TEST(Backoff, R39WaitsDoubleFrom50MillisecondsUpTo2SecondsWithJitter) {
  for (int round = 0; round < 200; ++round) {
    Backoff backoff(seconds(5));
    base::TimePoint now(seconds(100));
    base::Duration range = milliseconds(100);
    for (int failure = 0; failure < 10; ++failure) {
      backoff.failed(now);
      const base::Duration wait = backoff.wait(now);
      EXPECT_GE(wait, range / 2);
      EXPECT_LE(wait, range);
      EXPECT_GE(wait, Backoff::kFirst);
      now += wait;
      range = std::min<base::Duration>(range * 2, seconds(2));
    }
    EXPECT_EQ(range, seconds(2));
  }
}

TEST(Backoff, R39TwoGatewaysDoNotComeBackInStep) {
  Backoff one(seconds(5)), other(seconds(5));
  const base::TimePoint now(seconds(100));
  int same = 0;
  for (int failure = 0; failure < 8; ++failure) {
    one.failed(now + seconds(10) * failure);
    other.failed(now + seconds(10) * failure);
    same += one.wait(now + seconds(10) * failure) == other.wait(now + seconds(10) * failure) ? 1 : 0;
  }
  EXPECT_LT(same, 8);
}

TEST(Backoff, DialsThatFailTogetherCountOnce) {
  Backoff backoff(seconds(5));
  const base::TimePoint now(seconds(100));
  backoff.failed(now);
  const base::Duration wait = backoff.wait(now);
  for (int i = 0; i < 10; ++i) backoff.failed(now + milliseconds(1));
  EXPECT_EQ(backoff.wait(now), wait);
}

TEST(Backoff, NeverExceedsWhatItsOwnerAllows) {
  Backoff backoff(milliseconds(30));
  base::TimePoint now(seconds(100));
  for (int i = 0; i < 10; ++i) {
    backoff.failed(now);
    EXPECT_LE(backoff.wait(now), milliseconds(30));
    now += seconds(1);
  }
}

TEST(Backoff, ASuccessForgetsTheFailures) {
  Backoff backoff(seconds(5));
  const base::TimePoint now(seconds(100));
  backoff.failed(now);
  backoff.succeeded();
  EXPECT_FALSE(backoff.failing());
  EXPECT_EQ(backoff.wait(now), base::Duration::zero());
}

TEST(Backoff, R128ANodeIsDownOnceDialsHaveFailedForLongAndOneDidLately) {
  Backoff backoff(seconds(5));
  const base::TimePoint now(seconds(100));
  EXPECT_FALSE(backoff.down(now, seconds(5)));
  backoff.failed(now);
  EXPECT_FALSE(backoff.down(now + seconds(4), seconds(5))) << "not for long";
  EXPECT_FALSE(backoff.down(now + seconds(6), seconds(5))) << "nobody has tried since";
  backoff.failed(now + seconds(5));
  EXPECT_TRUE(backoff.down(now + seconds(6), seconds(5)));
  backoff.succeeded();
  EXPECT_FALSE(backoff.down(now + seconds(6), seconds(5)));
}

}  // namespace
}  // namespace keyferry::upstream
