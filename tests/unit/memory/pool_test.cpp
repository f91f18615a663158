#include "memory/pool.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace keyferry::memory {
namespace {

constexpr std::uint64_t kRegion = 4096;

struct PoolTest : testing::Test {
  explicit PoolTest(std::size_t regions = 8) : memory(regions * kRegion), pool(memory, kRegion) {
    pool.all_registered();
  }
  std::uint64_t regions(RegionState state) const { return pool.stats().regions_in(state); }

  std::vector<std::byte> memory;
  Pool pool;
};

#ifdef KEYFERRY_DEBUG
#define EXPECT_ILLEGAL(statement) EXPECT_DEATH(statement, "books do not allow")
#else
#define EXPECT_ILLEGAL(statement)                            \
  do {                                                       \
    const std::uint64_t before = pool.illegal_transitions(); \
    statement;                                               \
    EXPECT_EQ(pool.illegal_transitions(), before + 1);       \
  } while (false)
#endif

TEST_F(PoolTest, RegionsAreFreeOnlyOnceTheyAreRegistered) {
  Pool fresh(memory, kRegion);
  EXPECT_FALSE(fresh.try_lease(1));
  fresh.region_registered(3);
  const auto lease = fresh.try_lease(1);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->regions, std::vector<RegionIndex>{3});
  fresh.region_failed(0);
  EXPECT_EQ(fresh.state(0), RegionState::kClosed);
  EXPECT_EQ(fresh.usable_bytes(), 7 * kRegion);
}

TEST_F(PoolTest, ALeaseHasAsManyRegionsAsTheLengthNeedsAndNoTwoLeasesShareOne) {
  std::set<RegionIndex> seen;
  for (const auto& [length, regions] :
       {std::pair<std::uint64_t, std::size_t>{1, 1}, {kRegion, 1}, {kRegion + 1, 2}, {3 * kRegion, 3}}) {
    const auto lease = pool.try_lease(length);
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->regions.size(), regions);
    EXPECT_EQ(lease->length, length);
    for (RegionIndex index : lease->regions) EXPECT_TRUE(seen.insert(index).second);
  }
  EXPECT_EQ(regions(RegionState::kLeased), 7U);
}

TEST_F(PoolTest, ALeaseIsGrantedWholeOrNotAtAll) {
  const auto most = pool.try_lease(6 * kRegion);
  ASSERT_TRUE(most);
  EXPECT_FALSE(pool.try_lease(2 * kRegion + 1));
  EXPECT_EQ(regions(RegionState::kFree), 2U);
  EXPECT_TRUE(pool.try_lease(2 * kRegion));
}

TEST_F(PoolTest, RegionsLieBesideEachOtherInTheMemory) {
  for (RegionIndex index = 0; index < 8; ++index) {
    EXPECT_EQ(pool.region(index).data(), memory.data() + index * kRegion);
    EXPECT_EQ(pool.region(index).size(), kRegion);
  }
}

TEST_F(PoolTest, LengthsThatNoLeaseCanHoldAreKnownBeforehand) {
  EXPECT_FALSE(pool.could_ever_lease(0));
  EXPECT_FALSE(pool.try_lease(0));
  EXPECT_TRUE(pool.could_ever_lease(8 * kRegion));
  EXPECT_FALSE(pool.could_ever_lease(8 * kRegion + 1));
  EXPECT_FALSE(pool.could_ever_lease(UINT64_MAX));
  EXPECT_FALSE(pool.try_lease(UINT64_MAX));
}

TEST_F(PoolTest, ALeaseHasAtMost256Regions) {
  std::vector<std::byte> large(300 * kRegion);
  Pool many(large, kRegion);
  many.all_registered();
  EXPECT_TRUE(many.could_ever_lease(256 * kRegion));
  EXPECT_FALSE(many.could_ever_lease(256 * kRegion + 1));
  EXPECT_FALSE(many.try_lease(256 * kRegion + 1));
  EXPECT_TRUE(many.try_lease(256 * kRegion));
}

TEST_F(PoolTest, ATransferThatEndsWithAReplyGivesItsMemoryBack) {
  auto lease = pool.try_lease(2 * kRegion);
  pool.set_in_flight(*lease);
  EXPECT_EQ(regions(RegionState::kInFlight), 2U);
  pool.settle(*lease);
  EXPECT_EQ(regions(RegionState::kLeased), 2U);
  pool.release(*std::move(lease));
  EXPECT_EQ(regions(RegionState::kFree), 8U);
}

TEST_F(PoolTest, R88MemoryInFlightIsNotFreedBeforeItsFence) {
  auto lease = pool.try_lease(8 * kRegion);
  pool.set_in_flight(*lease);
  EXPECT_ILLEGAL(pool.release(*lease));
  EXPECT_FALSE(pool.try_lease(1));
  pool.quarantine(*lease);
  EXPECT_ILLEGAL(pool.settle(*lease));
  EXPECT_FALSE(pool.try_lease(1));
  EXPECT_EQ(pool.stats().bytes_in(RegionState::kQuarantined), 8 * kRegion);
  pool.release(*std::move(lease));
  EXPECT_TRUE(pool.try_lease(8 * kRegion));
}

TEST_F(PoolTest, RenewedRegionsComeBackOneByOne) {
  auto lease = pool.try_lease(2 * kRegion);
  const std::vector<RegionIndex> indexes = lease->regions;
  pool.set_in_flight(*lease);
  pool.quarantine(*lease);
  pool.renew(*std::move(lease));
  EXPECT_EQ(regions(RegionState::kRegistering), 2U);
  pool.region_registered(indexes[0]);
  pool.region_failed(indexes[1]);
  EXPECT_EQ(regions(RegionState::kFree), 7U);
  EXPECT_EQ(regions(RegionState::kClosed), 1U);
}

TEST_F(PoolTest, AFailedFenceTakesItsRegionsOutForGood) {
  auto lease = pool.try_lease(3 * kRegion);
  pool.set_in_flight(*lease);
  pool.quarantine(*lease);
  pool.close(*std::move(lease));
  EXPECT_EQ(pool.usable_bytes(), 5 * kRegion);
  EXPECT_FALSE(pool.could_ever_lease(6 * kRegion));
  EXPECT_TRUE(pool.try_lease(5 * kRegion));
}

TEST_F(PoolTest, ALeaseThatWasGivenBackCanNotTouchItsNextHolder) {
  auto first = pool.try_lease(8 * kRegion);
  const Lease stale = *first;
  pool.release(*std::move(first));
  const auto second = pool.try_lease(8 * kRegion);
  ASSERT_TRUE(second);
  EXPECT_NE(second->id, stale.id);
  EXPECT_ILLEGAL(pool.release(stale));
  EXPECT_ILLEGAL(pool.set_in_flight(stale));
  EXPECT_EQ(regions(RegionState::kLeased), 8U);
}

TEST_F(PoolTest, R88WhatIsLentAgainIsItsHoldersAloneAndNotInFlight) {
  auto lease = pool.try_lease(3 * kRegion);
  EXPECT_TRUE(pool.lend_again(*lease));
  EXPECT_EQ(regions(RegionState::kLeased), 3U);
  EXPECT_EQ(regions(RegionState::kFree), 5U);
  pool.set_in_flight(*lease);
  EXPECT_FALSE(pool.lend_again(*lease));
  pool.quarantine(*lease);
  EXPECT_FALSE(pool.lend_again(*lease));
  const Lease stale = *lease;
  pool.release(*std::move(lease));
  EXPECT_FALSE(pool.lend_again(stale));
  EXPECT_EQ(regions(RegionState::kFree), 8U);
}

TEST_F(PoolTest, WhatTheStatesDoNotAllowChangesNothing) {
  auto lease = pool.try_lease(kRegion);
  EXPECT_ILLEGAL(pool.settle(*lease));
  EXPECT_ILLEGAL(pool.quarantine(*lease));
  EXPECT_ILLEGAL(pool.renew(*lease));
  EXPECT_ILLEGAL(pool.close(*lease));
  EXPECT_ILLEGAL(pool.region_registered(lease->regions[0]));
  EXPECT_ILLEGAL(pool.region_failed(lease->regions[0]));
  EXPECT_ILLEGAL(pool.region_registered(99));
  const Lease strange{lease->id, {99}, 1};
  EXPECT_ILLEGAL(pool.release(strange));
  EXPECT_ILLEGAL(pool.release(Lease{}));
  EXPECT_EQ(regions(RegionState::kLeased), 1U);
  EXPECT_EQ(regions(RegionState::kFree), 7U);
}

}  // namespace
}  // namespace keyferry::memory
