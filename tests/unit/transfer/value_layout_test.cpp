#include "transfer/value_layout.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace keyferry::transfer {
namespace {

constexpr std::size_t kRegion = 4096;

class ValueLayout : public testing::Test {
 protected:
  explicit ValueLayout(std::size_t regions = 4)
      : bytes(regions * kRegion, '\0'), pool({reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}, kRegion) {
    pool.all_registered();
  }
  memory::Lease lease(std::uint64_t length) { return pool.try_lease(length).value(); }
  const std::byte* begin_of(const memory::Lease& of, std::size_t region) {
    return pool.region(of.regions[region]).data();
  }

  std::string bytes;
  memory::Pool pool;
};

class ValueLayoutOfManyRegions : public ValueLayout {
 protected:
  ValueLayoutOfManyRegions() : ValueLayout(memory::kMaxRegionsPerLease) {}
};

std::size_t total(const std::vector<base::MutableBytes>& spans) {
  std::size_t sum = 0;
  for (const base::MutableBytes span : spans) sum += span.size();
  return sum;
}

TEST_F(ValueLayout, FromTheStartItFillsRegionAfterRegion) {
  const memory::Lease two = lease(kRegion + 1);
  const auto spans = spans_of(pool, two, Layout::kFromStart);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].data(), begin_of(two, 0));
  EXPECT_EQ(spans[0].size(), kRegion);
  EXPECT_EQ(spans[1].data(), begin_of(two, 1));
  EXPECT_EQ(spans[1].size(), 1U);
}

TEST_F(ValueLayout, BehindTheLeadAValueOfWholeRegionsEndsInTheLead) {
  const memory::Lease two = lease(2 * kRegion);
  const auto spans = spans_of(pool, two, Layout::kBehindLead);
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0].data(), begin_of(two, 0) + kLead);
  EXPECT_EQ(spans[0].size(), kRegion - kLead);
  EXPECT_EQ(spans[1].data(), begin_of(two, 1));
  EXPECT_EQ(spans[1].size(), kRegion);
  EXPECT_EQ(spans[2].data(), begin_of(two, 0)) << "span 2 of 2 regions is region 0's again";
  EXPECT_EQ(spans[2].size(), kLead);
}

TEST_F(ValueLayout, OfAShorterValueTheLeadStaysFree) {
  const memory::Lease two = lease(2 * kRegion - kLead);
  const auto spans = spans_of(pool, two, Layout::kBehindLead);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(total(spans), 2 * kRegion - kLead);
}

TEST_F(ValueLayout, EveryLengthHasItsRoomAndNoByteTwice) {
  for (const std::size_t length :
       {std::size_t{1}, kLead, kRegion - kLead, kRegion - kLead + 1, kRegion, 4 * kRegion - 1, 4 * kRegion}) {
    memory::Lease one = lease(length);
    const auto spans = spans_of(pool, one, Layout::kBehindLead);
    EXPECT_EQ(total(spans), length);
    for (const base::MutableBytes span : spans) {
      for (std::byte& byte : span) {
        EXPECT_EQ(byte, std::byte{0});
        byte = std::byte{1};
      }
    }
    for (const base::MutableBytes span : spans) std::fill(span.begin(), span.end(), std::byte{0});
    pool.release(std::move(one));
  }
}

TEST_F(ValueLayoutOfManyRegions, TheLongestLeaseHasNoLeadAsACommandNamesNoMoreWindows) {
  const memory::Lease all = lease(memory::kMaxRegionsPerLease * kRegion);
  const auto spans = spans_of(pool, all, Layout::kBehindLead);
  ASSERT_EQ(spans.size(), memory::kMaxRegionsPerLease);
  EXPECT_EQ(spans[0].data(), begin_of(all, 0));
}

}  // namespace
}  // namespace keyferry::transfer
