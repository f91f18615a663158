#include "transfer/checked_value.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "base/crc32c.h"

namespace keyferry::transfer {
namespace {

struct CountingOwner final : Loan::Owner {
  void returned(std::uint64_t) override { ++count; }
  int count = 0;
};

class CheckedValueTest : public testing::Test {
 protected:
  LandedValue landed(std::uint64_t length, std::uint32_t crc) {
    return {Loan(owner, 1, {base::MutableBytes(bytes).first(10), base::MutableBytes(bytes).subspan(16, 10)}, 20),
            length, crc};
  }
  std::uint32_t crc_of(std::uint64_t length) const {
    const base::ConstBytes all(bytes);
    const std::uint32_t first = base::crc32c(all.first(std::min<std::size_t>(10, length)));
    return length <= 10 ? first : base::crc32c(all.subspan(16, length - 10), first);
  }
  static base::Result<CheckedValue> check(LandedValue value, std::size_t slice) {
    Checker checker(std::move(value), slice);
    while (!checker.step()) {
    }
    return checker.take();
  }

  std::shared_ptr<CountingOwner> owner = std::make_shared<CountingOwner>();
  std::vector<std::byte> bytes = [] {
    std::vector<std::byte> filled;
    for (unsigned i = 0; i < 32; ++i) filled.push_back(static_cast<std::byte>(i * 7 + 3));
    return filled;
  }();
};

TEST_F(CheckedValueTest, R89NothingButACheckerMakesOne) {
  static_assert(
      !std::is_constructible_v<CheckedValue, Loan, std::vector<base::ConstBytes>, std::uint64_t, std::uint32_t>);
  static_assert(!std::is_constructible_v<CheckedValue, LandedValue>);
  static_assert(!std::is_default_constructible_v<CheckedValue>);
  static_assert(!std::is_copy_constructible_v<CheckedValue>);
}

TEST_F(CheckedValueTest, EverySliceSizeGivesTheSameAnswerForEveryLength) {
  for (std::uint64_t length = 0; length <= 20; ++length) {
    for (std::size_t slice = 1; slice <= 21; ++slice) {
      base::Result<CheckedValue> value = check(landed(length, crc_of(length)), slice);
      ASSERT_TRUE(value) << length << " in slices of " << slice;
      std::uint64_t seen = 0;
      for (const base::ConstBytes span : value->spans()) seen += span.size();
      EXPECT_EQ(seen, length);
      EXPECT_EQ(value->length(), length);
      EXPECT_FALSE(check(landed(length, crc_of(length) ^ 1U), slice)) << length;
    }
  }
}

TEST_F(CheckedValueTest, AStepHashesNoMoreThanItsSlice) {
  Checker checker(landed(20, crc_of(20)), 6);
  EXPECT_FALSE(checker.step());
  EXPECT_FALSE(checker.step());
  EXPECT_FALSE(checker.step());
  EXPECT_TRUE(checker.step());
}

TEST_F(CheckedValueTest, OneWrongByteAnywhereIsAnError) {
  const std::uint32_t crc = crc_of(20);
  for (const std::size_t at : {0U, 9U, 16U, 25U}) {
    bytes[at] ^= std::byte{1};
    EXPECT_FALSE(check(landed(20, crc), 7)) << at;
    bytes[at] ^= std::byte{1};
  }
}

TEST_F(CheckedValueTest, ByteBehindTheLengthDoesNotCount) {
  const std::uint32_t crc = crc_of(13);
  bytes[16 + 3] ^= std::byte{1};
  EXPECT_TRUE(check(landed(13, crc), 7));
}

TEST_F(CheckedValueTest, ALengthBeyondTheLoanIsAnError) {
  EXPECT_FALSE(check(landed(21, crc_of(20)), 7));
}

TEST_F(CheckedValueTest, AnUnfinishedCheckerGivesNothing) {
  Checker checker(landed(20, crc_of(20)), 1);
  EXPECT_FALSE(checker.step());
  EXPECT_FALSE(checker.take());
}

TEST_F(CheckedValueTest, AValueIsTakenOnce) {
  Checker checker(landed(20, crc_of(20)), 100);
  EXPECT_TRUE(checker.step());
  EXPECT_TRUE(checker.take());
  EXPECT_FALSE(checker.take());
}

TEST_F(CheckedValueTest, TheLoanGoesBackWithTheValueOrWithTheCheckerThatRefusedIt) {
  {
    const base::Result<CheckedValue> value = check(landed(20, crc_of(20)), 7);
    EXPECT_EQ(owner->count, 0);
  }
  EXPECT_EQ(owner->count, 1);
  EXPECT_FALSE(check(landed(20, 1), 7));
  EXPECT_EQ(owner->count, 2);
}

}  // namespace
}  // namespace keyferry::transfer
