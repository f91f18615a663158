#include "transfer/lease_book.h"

#include <gtest/gtest.h>

namespace keyferry::transfer {
namespace {

using memory::RegionState;

class LeaseBookTest : public testing::Test, protected LeaseBook::Listener {
 protected:
  LeaseBookTest() { pool.all_registered(); }

  memory::LeaseId granted() {
    memory::Lease lease = *pool.try_lease(8192);
    const memory::LeaseId id = lease.id;
    book.granted(std::move(lease), memory::ClientId{1}, std::chrono::seconds(1));
    return id;
  }
  std::uint64_t in(RegionState state) const { return pool.stats().regions_in(state); }
  void regions_moved() override { ++moved; }
  void flight_changed() override { in_flight_told = in(RegionState::kInFlight); }
  void not_held(memory::ClientId client, std::uint64_t freed) override {
    EXPECT_EQ(client, memory::ClientId{1});
    given_back += freed;
  }
  bool somebody_waits() const override { return waiting; }
  void needs_registration(const std::vector<memory::RegionIndex>& regions) override { renewing = regions; }

  std::vector<std::byte> bytes = std::vector<std::byte>(std::size_t{4} * 4096);
  memory::Pool pool{bytes, 4096};
  LeaseBook book{pool, *this};
  int moved = 0;
  bool waiting = false;
  std::uint64_t in_flight_told = 0;
  std::uint64_t given_back = 0;
  std::vector<memory::RegionIndex> renewing;
};

TEST_F(LeaseBookTest, ALoanThatComesBackUnusedFreesItsRegions) {
  const memory::LeaseId id = granted();
  EXPECT_EQ(in(RegionState::kLeased), 2U);
  book.loan_returned(id);
  EXPECT_EQ(in(RegionState::kFree), 4U);
  EXPECT_EQ(moved, 1);
  EXPECT_EQ(given_back, 8192U);
  EXPECT_EQ(book.size(), 0U);
}

TEST_F(LeaseBookTest, R88ALoanThatComesBackInFlightFreesNothing) {
  const memory::LeaseId id = granted();
  book.posted(id);
  book.loan_returned(id);
  EXPECT_EQ(in(RegionState::kInFlight), 2U);
  EXPECT_EQ(in_flight_told, 2U);
  book.settled(id);
  EXPECT_EQ(in_flight_told, 0U);
  EXPECT_EQ(in(RegionState::kFree), 4U);
}

TEST_F(LeaseBookTest, R88AQuarantinedLeaseWaitsForTheFenceAndForTheLoanInEitherOrder) {
  for (const bool loan_first : {true, false}) {
    const memory::LeaseId id = granted();
    book.posted(id);
    given_back = 0;
    book.quarantined(id, "test", base::Clock::steady().now());
    if (loan_first) {
      book.loan_returned(id);
    } else {
      book.fence_confirmed(id, false);
    }
    EXPECT_EQ(in(RegionState::kQuarantined), 2U);
    EXPECT_EQ(given_back, 8192U) << "quarantine is not its client's doing";
    EXPECT_EQ(book.quarantine().size(), 1U);
    if (loan_first) {
      book.fence_confirmed(id, false);
    } else {
      book.loan_returned(id);
    }
    EXPECT_EQ(in(RegionState::kFree), 4U);
    EXPECT_TRUE(book.quarantine().empty());
    EXPECT_EQ(given_back, 8192U) << "counted once";
  }
}

TEST_F(LeaseBookTest, ASettledLeaseCanBeUsedAgainAndAQuarantinedOneCannot) {
  const memory::LeaseId id = granted();
  EXPECT_NE(book.usable(id), nullptr);
  book.posted(id);
  EXPECT_EQ(book.usable(id), nullptr);
  book.settled(id);
  EXPECT_NE(book.usable(id), nullptr);
  book.posted(id);
  book.quarantined(id, "test", base::Clock::steady().now());
  EXPECT_EQ(book.usable(id), nullptr);
  book.fence_confirmed(id, true);
  EXPECT_EQ(book.usable(id), nullptr);
}

TEST_F(LeaseBookTest, R88ALeaseIsLentAgainOnlyWhileNothingButItsLoanHoldsIt) {
  const memory::LeaseId id = granted();
  book.posted(id);
  EXPECT_FALSE(book.lend_again(id)) << "the server may still read it";
  book.settled(id);
  EXPECT_TRUE(book.lend_again(id));
  EXPECT_NE(book.usable(id), nullptr);
  EXPECT_EQ(book.waited(id), base::Duration{}) << "nothing was waited for";
  book.posted(id);
  book.quarantined(id, "test", base::Clock::steady().now());
  EXPECT_FALSE(book.lend_again(id));
  book.fence_confirmed(id, true);
  EXPECT_FALSE(book.lend_again(id)) << "its registrations are closed";
  book.loan_returned(id);
  EXPECT_FALSE(book.lend_again(id));
}

TEST_F(LeaseBookTest, NothingIsLentAgainWhileMemoryIsShort) {
  const memory::LeaseId id = granted();
  waiting = true;
  EXPECT_FALSE(book.lend_again(id));
  waiting = false;
  EXPECT_TRUE(book.lend_again(id)) << "half of the pool is free";
  const memory::Lease other = *pool.try_lease(1);
  EXPECT_FALSE(book.lend_again(id));
  pool.release(other);
  EXPECT_TRUE(book.lend_again(id));
  EXPECT_EQ(given_back, 0U) << "it counts as held all the time";
  book.loan_returned(id);
  EXPECT_EQ(given_back, 8192U);
  EXPECT_EQ(in(RegionState::kFree), 4U);
}

TEST_F(LeaseBookTest, AFenceThatClosedTheRegistrationsLeavesTheRegionsRegistering) {
  const memory::LeaseId id = granted();
  book.posted(id);
  book.quarantined(id, "test", base::Clock::steady().now());
  book.fence_confirmed(id, true);
  EXPECT_TRUE(renewing.empty()) << "the worker still reads the memory";
  EXPECT_EQ(in(RegionState::kQuarantined), 2U);
  book.loan_returned(id);
  EXPECT_EQ(renewing.size(), 2U);
  EXPECT_EQ(in(RegionState::kRegistering), 2U);
}

TEST_F(LeaseBookTest, AFenceThatFailedClosesTheRegionsForGood) {
  const memory::LeaseId id = granted();
  book.posted(id);
  book.quarantined(id, "test", base::Clock::steady().now());
  book.fence_failed(id);
  EXPECT_EQ(in(RegionState::kClosed), 2U);
  book.loan_returned(id);
  EXPECT_EQ(in(RegionState::kClosed), 2U);
  EXPECT_EQ(in(RegionState::kFree), 2U);
  EXPECT_EQ(book.size(), 0U);
}

TEST_F(LeaseBookTest, NoticesThatFitNoLeaseChangeNothing) {
  const memory::LeaseId id = granted();
  book.settled(id);
  book.quarantined(id, "test", base::Clock::steady().now());
  book.fence_confirmed(id, false);
  book.fence_failed(id);
  book.loan_returned(memory::LeaseId{999});
  EXPECT_EQ(in(RegionState::kLeased), 2U);
  EXPECT_EQ(pool.illegal_transitions(), 0U);
}

}  // namespace
}  // namespace keyferry::transfer
