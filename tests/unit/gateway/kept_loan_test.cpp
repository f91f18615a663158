#include "gateway/kept_loan.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace keyferry::gateway {
namespace {

using transfer::Loan;

/// Where loans come back to, on the test's own thread.
class Desk final : public Loan::Owner {
 public:
  explicit Desk(base::Loop& loop) : loop_(loop) {}
  void returned(std::uint64_t lease) override {
    back.push_back(lease);
    loop_.stop();
  }
  std::vector<std::uint64_t> back;

 private:
  base::Loop& loop_;
};

class KeptLoanTest : public testing::Test {
 protected:
  Loan loan(std::uint64_t lease, std::uint64_t length) { return {desk, lease, {}, length}; }

  base::Loop loop;
  std::shared_ptr<Desk> desk = std::make_shared<Desk>(loop);
  KeptLoan kept{loop};
};

TEST_F(KeptLoanTest, TheSameClientHasItForAValueOfThatLength) {
  kept.keep(7, loan(1, 100));
  const Loan again = kept.take(7, 100, false);
  ASSERT_TRUE(again);
  EXPECT_EQ(again.lease(), 1U);
  EXPECT_TRUE(kept.empty());
  EXPECT_FALSE(kept.take(7, 100, false)) << "taken once";
  EXPECT_TRUE(desk->back.empty());
}

TEST_F(KeptLoanTest, NoOtherClientEverHasIt) {
  kept.keep(7, loan(1, 100));
  EXPECT_FALSE(kept.take(8, 100, false));
  kept.drop(8);
  EXPECT_TRUE(kept.take(7, 100, false)) << "what others ask for takes nothing away";
}

TEST_F(KeptLoanTest, ForAnotherLengthItGoesBackFirst) {
  kept.keep(7, loan(1, 100));
  EXPECT_FALSE(kept.take(7, 101, false));
  EXPECT_EQ(desk->back, (std::vector<std::uint64_t>{1}));
  EXPECT_TRUE(kept.empty());
}

TEST_F(KeptLoanTest, R31ItGoesBackFirstWhereSomebodyWaits) {
  kept.keep(7, loan(1, 100));
  EXPECT_FALSE(kept.take(7, 100, true));
  EXPECT_EQ(desk->back, (std::vector<std::uint64_t>{1}));
  EXPECT_TRUE(kept.empty());
}

TEST_F(KeptLoanTest, OneIsKeptAtATime) {
  kept.keep(7, loan(1, 100));
  kept.keep(8, loan(2, 100));
  EXPECT_EQ(desk->back, (std::vector<std::uint64_t>{1}));
  EXPECT_FALSE(kept.take(7, 100, false));
  EXPECT_TRUE(kept.take(8, 100, false));
}

TEST_F(KeptLoanTest, ItGoesBackWithItsClient) {
  kept.keep(7, loan(1, 100));
  kept.drop(7);
  EXPECT_EQ(desk->back, (std::vector<std::uint64_t>{1}));
}

TEST_F(KeptLoanTest, ItGoesBackByItselfWhenNothingFollows) {
  const base::TimePoint begin = base::Clock::steady().now();
  kept.keep(7, loan(1, 100));
  loop.run("kept");
  EXPECT_EQ(desk->back, (std::vector<std::uint64_t>{1}));
  EXPECT_GE(base::Clock::steady().now() - begin, KeptLoan::kFor);
}

TEST_F(KeptLoanTest, WhatIsKeptAgainMeanwhileHasItsWholeTime) {
  base::Timer between(loop);
  base::TimePoint again;
  kept.keep(7, loan(1, 100));
  between.start(KeptLoan::kFor / 2, [&] {
    again = base::Clock::steady().now();
    kept.keep(7, kept.take(7, 100, false));
  });
  loop.run("kept");
  EXPECT_EQ(desk->back, (std::vector<std::uint64_t>{1}));
  EXPECT_GE(base::Clock::steady().now() - again, KeptLoan::kFor);
}

}  // namespace
}  // namespace keyferry::gateway
