#include "transfer/sliced_check.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/crc32c.h"

namespace keyferry::transfer {
namespace {

/// Runs one task when it is told to.
class OneByOne final : public base::Executor {
 public:
  void post(base::Task task) override { tasks.push_back(std::move(task)); }
  void run_one() {
    base::Task task = std::move(tasks.front());
    tasks.pop_front();
    task();
  }
  std::deque<base::Task> tasks;
};

class CountingOwner final : public Loan::Owner {
 public:
  void returned(std::uint64_t) override { ++count; }
  int count = 0;
};

class SlicedCheckTest : public testing::Test {
 protected:
  std::shared_ptr<SlicedCheck> begin(std::uint32_t crc_error = 0) {
    const base::MutableBytes memory(reinterpret_cast<std::byte*>(bytes.data()), bytes.size());
    LandedValue value{Loan(owner, 1, {memory.first(7), memory.subspan(7)}, bytes.size()), bytes.size(),
                      base::crc32c(memory) + crc_error};
    return SlicedCheck::begin(
        std::move(value), 10, worker, engine, [this](const SharedValue& one) { right = one; },
        [this](base::Result<SharedValue> one, base::Duration) { result = std::move(one); });
  }

  std::string bytes = "thirty-five bytes, and that is all.";
  std::shared_ptr<CountingOwner> owner = std::make_shared<CountingOwner>();
  OneByOne worker, engine;
  SharedValue right;
  std::optional<base::Result<SharedValue>> result;
};

TEST_F(SlicedCheckTest, WhatOtherClientsAskOfTheWorkerIsServedBetweenTheSlices) {
  begin();
  std::size_t pings = 0;
  std::size_t slices = 0;
  // Each turn of the worker: one slice, then the PING that came meanwhile, then the next slice.
  while (!worker.tasks.empty()) {
    ASSERT_EQ(worker.tasks.size(), 1U);
    worker.post([&] { ++pings; });
    worker.run_one();
    ++slices;
    worker.run_one();
    EXPECT_EQ(pings, slices);
  }
  EXPECT_EQ(slices, 4U) << "35 bytes in slices of 10";
  ASSERT_EQ(engine.tasks.size(), 1U);
  EXPECT_FALSE(result.has_value());
  ASSERT_TRUE(right) << "who is on the worker hears of it there";
  engine.run_one();
  EXPECT_EQ(*result.value(), right);
  ASSERT_TRUE(result && *result);
  EXPECT_EQ((**result)->length(), bytes.size());
}

TEST_F(SlicedCheckTest, AWrongValueGivesItsMemoryBackBeforeItIsTold) {
  begin(1);
  while (!worker.tasks.empty()) worker.run_one();
  EXPECT_EQ(owner->count, 1);
  EXPECT_FALSE(right);
  engine.run_one();
  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(*result);
}

TEST_F(SlicedCheckTest, ACancelledOneStopsAtTheNextSlice) {
  const auto check = begin();
  worker.run_one();
  check->cancel();
  worker.run_one();
  EXPECT_TRUE(worker.tasks.empty());
  EXPECT_TRUE(engine.tasks.empty());
  EXPECT_EQ(owner->count, 1);
}

}  // namespace
}  // namespace keyferry::transfer
