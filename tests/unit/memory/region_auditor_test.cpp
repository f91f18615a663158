#include "memory/region_auditor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "memory/pool.h"

namespace keyferry::memory {
namespace {

constexpr std::uint64_t kRegion = 4096;

struct ManualClock final : base::Clock {
  base::TimePoint now() const override { return time; }
  base::TimePoint time{std::chrono::hours(1)};
};

/// Four regions; the last to become free is the first to be leased.
struct RegionAuditorTest : testing::Test {
  RegionAuditorTest() {
    pool.audit_by(auditor);
    pool.all_registered();
  }
  std::uint64_t foreign() const { return auditor.counts().foreign; }
  /// As somebody would who does not own that byte.
  void write(RegionIndex region, std::size_t offset) { pool.region(region)[offset] ^= std::byte{1}; }

  std::vector<std::byte> memory = std::vector<std::byte>(4 * kRegion);
  ManualClock clock;
  std::vector<std::string> reports;
  RegionAuditor auditor{memory, kRegion, clock, [this](std::string what) { reports.push_back(std::move(what)); }};
  Pool pool{memory, kRegion};
};

TEST_F(RegionAuditorTest, TransfersThatKeepToTheirOwnBytesAreNotReported) {
  for (int round = 0; round < 20; ++round) {
    const auto lease = pool.try_lease(2 * kRegion + 100);
    ASSERT_TRUE(lease);
    std::memset(pool.region(lease->regions[0]).data(), round, kRegion);
    pool.set_in_flight(*lease);
    std::memset(pool.region(lease->regions[1]).data(), round, kRegion);
    std::memset(pool.region(lease->regions[2]).data(), round, 100);
    if (round % 2 == 0) {
      pool.settle(*lease);
    } else {
      pool.quarantine(*lease);
    }
    pool.release(*lease);
    clock.time += RegionAuditor::kAfterFence;
    auditor.check_fenced();
  }
  EXPECT_EQ(foreign(), 0U) << reports.front();
  EXPECT_EQ(auditor.counts().leased, 60U);
  EXPECT_EQ(auditor.counts().given_back, 60U);
  EXPECT_EQ(auditor.counts().settled, 30U);
  EXPECT_EQ(auditor.counts().after_fence, 30U);
}

TEST_F(RegionAuditorTest, R88_AByteThatIsWrittenAfterTheFreeIsFoundAtTheNextLease) {
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{2048}, kRegion - 1}) {
    const auto lease = pool.try_lease(kRegion);
    pool.release(*lease);
    const std::uint64_t before = foreign();
    write(lease->regions[0], offset);
    const auto next = pool.try_lease(kRegion);
    EXPECT_EQ(foreign(), before + 1);
    EXPECT_NE(reports.back().find("byte " + std::to_string(offset) + " "), std::string::npos) << reports.back();
    pool.release(*next);
  }
}

TEST_F(RegionAuditorTest, R88_AByteThatIsWrittenAfterAFenceIsFoundTwoSecondsLater) {
  const auto lease = pool.try_lease(2 * kRegion);
  pool.set_in_flight(*lease);
  pool.quarantine(*lease);
  EXPECT_FALSE(auditor.due());
  pool.release(*lease);
  ASSERT_EQ(auditor.due(), clock.time + RegionAuditor::kAfterFence);
  write(lease->regions[1], 77);
  clock.time += RegionAuditor::kAfterFence - std::chrono::milliseconds(1);
  auditor.check_fenced();
  EXPECT_EQ(foreign(), 0U);
  clock.time += std::chrono::milliseconds(1);
  auditor.check_fenced();
  EXPECT_EQ(foreign(), 1U);
  EXPECT_EQ(auditor.counts().after_fence, 2U);
  EXPECT_FALSE(auditor.due());
}

TEST_F(RegionAuditorTest, AFenceThatRenewsRegistrationsIsLookedAtWhenTheRegionIsBack) {
  const auto lease = pool.try_lease(kRegion);
  pool.set_in_flight(*lease);
  pool.quarantine(*lease);
  pool.renew(*lease);
  EXPECT_FALSE(auditor.due());
  pool.region_registered(lease->regions[0]);
  write(lease->regions[0], 5);
  clock.time += RegionAuditor::kAfterFence;
  auditor.check_fenced();
  EXPECT_EQ(foreign(), 1U);
}

TEST_F(RegionAuditorTest, AByteBehindALeasesLengthIsFoundWhenItIsGivenBack) {
  const auto lease = pool.try_lease(kRegion + 100);
  write(lease->regions[1], 99);
  write(lease->regions[0], kRegion - 1);
  pool.release(*lease);
  EXPECT_EQ(foreign(), 0U);
  const auto next = pool.try_lease(kRegion + 100);
  write(next->regions[1], 100);
  pool.release(*next);
  EXPECT_EQ(foreign(), 1U);
}

TEST_F(RegionAuditorTest, R88_AByteThatChangesBetweenTheReplyAndTheReturnIsFound) {
  const auto lease = pool.try_lease(kRegion);
  pool.set_in_flight(*lease);
  write(lease->regions[0], 7);
  pool.settle(*lease);
  write(lease->regions[0], 8);
  pool.release(*lease);
  EXPECT_EQ(foreign(), 1U);
}

TEST_F(RegionAuditorTest, R88_ALeaseThatIsLentAgainIsCheckedAsIfItHadComeBack) {
  const auto lease = pool.try_lease(2 * kRegion + 100);
  for (int round = 0; round < 3; ++round) {
    std::memset(pool.region(lease->regions[0]).data(), round, kRegion);
    pool.set_in_flight(*lease);
    pool.settle(*lease);
    EXPECT_TRUE(pool.lend_again(*lease));
  }
  EXPECT_EQ(foreign(), 0U);
  EXPECT_EQ(auditor.counts().leased, 12U);
  EXPECT_EQ(auditor.counts().given_back, 9U);
  write(lease->regions[2], 100);
  EXPECT_TRUE(pool.lend_again(*lease));
  EXPECT_EQ(foreign(), 1U) << "behind its length";
  pool.set_in_flight(*lease);
  pool.settle(*lease);
  write(lease->regions[0], 8);
  EXPECT_TRUE(pool.lend_again(*lease));
  EXPECT_EQ(foreign(), 2U) << "between the reply and its return";
  pool.release(*lease);
  EXPECT_EQ(foreign(), 2U);
}

TEST_F(RegionAuditorTest, ASecondCommandOnTheSameLeaseMayChangeItAgain) {
  const auto lease = pool.try_lease(kRegion);
  pool.set_in_flight(*lease);
  pool.settle(*lease);
  pool.set_in_flight(*lease);
  write(lease->regions[0], 9);
  pool.settle(*lease);
  pool.release(*lease);
  EXPECT_EQ(foreign(), 0U);
}

}  // namespace
}  // namespace keyferry::memory
