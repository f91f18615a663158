#include "memory/lease_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <vector>

namespace keyferry::memory {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
constexpr std::uint64_t kRegion = 4096;

struct LeaseQueueTest : testing::Test {
  LeaseQueueTest() { pool.all_registered(); }

  /// Asks for whole regions; the outcome is appended to `order` as the client's number, negative for an error.
  Ticket ask(int client, std::uint64_t regions, base::TimePoint at = {}) {
    return queue.request(ClientId{static_cast<std::uint64_t>(client)}, regions * kRegion, at,
                         [this, client](base::Result<Lease> result) {
                           order.push_back(result ? client : -client);
                           if (result) {
                             held[client].push_back(*std::move(result));
                           } else {
                             errors.push_back(result.error());
                           }
                         });
  }
  void give_back(int client, base::TimePoint at = {}) {
    queue.gave_back(ClientId{static_cast<std::uint64_t>(client)}, held[client].at(0).regions.size() * kRegion, at);
    pool.release(std::move(held[client].at(0)));
    held[client].erase(held[client].begin());
    queue.pump();
  }

  std::vector<std::byte> memory = std::vector<std::byte>(8 * kRegion);
  Pool pool{memory, kRegion};
  LeaseQueue queue{pool, std::chrono::seconds(60)};
  std::vector<int> order;
  std::map<int, std::vector<Lease>> held;
  std::vector<base::Error> errors;
};

TEST_F(LeaseQueueTest, GrantsAtOnceWhileThereIsRoom) {
  ask(1, 4);
  ask(2, 4);
  EXPECT_THAT(order, ElementsAre(1, 2));
  EXPECT_EQ(queue.depth(), 0U);
}

TEST_F(LeaseQueueTest, ExhaustionIsAWaitThatEndsWithTheNextRelease) {
  ask(1, 8);
  ask(2, 8);
  EXPECT_THAT(order, ElementsAre(1));
  EXPECT_EQ(queue.depth(), 1U);
  give_back(1);
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST_F(LeaseQueueTest, ClientsAreServedInTurnsAndEachOnesRequestsInOrder) {
  ask(9, 8);
  for (int i = 0; i < 3; ++i) ask(1, 8);
  ask(2, 8);
  ask(3, 8);
  for (int client : {9, 1, 2, 3, 1}) give_back(client);
  EXPECT_THAT(order, ElementsAre(9, 1, 2, 3, 1, 1));
}

TEST_F(LeaseQueueTest, SmallRequestsDoNotOvertakeALargeOne) {
  ask(1, 6);
  ask(2, 8);
  ask(3, 1);
  EXPECT_THAT(order, ElementsAre(1)) << "two regions are free, but it is not client 3's turn";
  EXPECT_FALSE(queue.try_now(ClientId{4}, kRegion));
  give_back(1);
  EXPECT_THAT(order, ElementsAre(1, 2));
  give_back(2);
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
  EXPECT_TRUE(queue.try_now(ClientId{4}, kRegion));
}

TEST_F(LeaseQueueTest, ThirtyTwoClientsOf64MiBFinishOneAfterAnotherInAPoolOf256MiB) {
  constexpr std::uint64_t kBig = 4 * base::kMiB;
  // The books never touch the memory, so it need not be there.
  Pool big(base::MutableBytes(static_cast<std::byte*>(nullptr), 256 * base::kMiB), kBig);
  big.all_registered();
  LeaseQueue waiting(big, std::chrono::seconds(60));
  std::vector<std::pair<int, Lease>> running;
  std::vector<int> started;
  for (int client = 0; client < 32; ++client) {
    waiting.request(ClientId{static_cast<std::uint64_t>(client)}, 64 * base::kMiB, {},
                    [&, client](base::Result<Lease> result) {
                      ASSERT_TRUE(result);
                      started.push_back(client);
                      running.emplace_back(client, *std::move(result));
                    });
  }
  std::vector<int> finished;
  while (!running.empty()) {
    EXPECT_LE(running.size(), 4U);
    EXPECT_EQ(big.stats().bytes_in(RegionState::kLeased), running.size() * 64 * base::kMiB);
    auto [client, lease] = std::move(running.front());
    running.erase(running.begin());
    big.set_in_flight(lease);
    big.settle(lease);
    waiting.gave_back(ClientId{static_cast<std::uint64_t>(client)}, 64 * base::kMiB, {});
    big.release(std::move(lease));
    finished.push_back(client);
    waiting.pump();
  }
  std::vector<int> all;
  for (int client = 0; client < 32; ++client) all.push_back(client);
  EXPECT_EQ(started, all);
  EXPECT_EQ(finished, all);
  EXPECT_EQ(big.stats().bytes_in(RegionState::kFree), 256 * base::kMiB);
}

TEST_F(LeaseQueueTest, OneWhoHoldsMuchComesAfterOneWhoHoldsNothing) {
  ask(1, 2);
  ask(2, 6);
  ask(1, 2);
  ask(3, 4);
  EXPECT_THAT(order, ElementsAre(1, 2)) << "client 1 was first in line, but holds 2 regions";
  give_back(2);
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
  give_back(1);
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 1));
}

TEST_F(LeaseQueueTest, OneClientNeverFillsThePoolWithWhatItDoesNotTake) {
  for (int i = 0; i < 4; ++i) ask(1, 2);
  EXPECT_THAT(order, ElementsAre(1, 1, 1)) << "alone it may have three quarters";
  ask(2, 2);
  EXPECT_THAT(order, ElementsAre(1, 1, 1, 2)) << "the next one finds room";
  ask(2, 1);
  ask(3, 2);
  EXPECT_EQ(queue.depth(), 3U);
  EXPECT_FALSE(queue.try_now(ClientId{1}, kRegion));
  for (int i = 0; i < 3; ++i) give_back(1);
  EXPECT_THAT(order, ElementsAre(1, 1, 1, 2, 3, 2, 1));
  EXPECT_EQ(queue.depth(), 0U);
}

TEST_F(LeaseQueueTest, OneWhoIsPutOffBlocksNobodyAndIsServedWhenItHoldsNothing) {
  ask(1, 4);
  ask(1, 8);
  ask(2, 4);
  EXPECT_THAT(order, ElementsAre(1, 2));
  give_back(2);
  std::optional<Lease> quick = queue.try_now(ClientId{3}, kRegion);
  ASSERT_TRUE(quick) << "nobody who holds nothing waits";
  give_back(1);
  EXPECT_THAT(order, ElementsAre(1, 2)) << "one region is still out";
  queue.gave_back(ClientId{3}, kRegion, {});
  pool.release(*std::move(quick));
  queue.pump();
  EXPECT_THAT(order, ElementsAre(1, 2, 1));
}

TEST_F(LeaseQueueTest, WhatCouldNeverBeLeasedIsAnErrorAtOnce) {
  ask(1, 9);
  ask(2, 0);
  EXPECT_THAT(order, ElementsAre(-1, -2));
  EXPECT_THAT(errors[0].message, HasSubstr("keyferry: no room in the pool for 36864 bytes"));
  EXPECT_THAT(errors[0].message, HasSubstr("raise pool.size or pool.region"));
  EXPECT_EQ(errors[0].code, EMSGSIZE);
}

TEST_F(LeaseQueueTest, AWaitThatLastsTooLongEndsInOneError) {
  const base::TimePoint start{};
  ask(1, 8, start);
  ask(2, 8, start + std::chrono::seconds(1));
  ask(3, 1, start + std::chrono::seconds(2));
  EXPECT_EQ(queue.oldest(), start + std::chrono::seconds(1));
  queue.expire(start + std::chrono::seconds(61) - std::chrono::nanoseconds(1));
  EXPECT_TRUE(errors.empty());
  queue.expire(start + std::chrono::seconds(61));
  EXPECT_THAT(order, ElementsAre(1, -2));
  EXPECT_THAT(errors[0].message, HasSubstr("keyferry: no room in the pool for 32768 bytes within 60 s: "));
  EXPECT_THAT(errors[0].message, HasSubstr("1 others waiting"));
  EXPECT_EQ(errors[0].code, ETIMEDOUT);
  queue.expire(start + std::chrono::seconds(1000));
  EXPECT_THAT(order, ElementsAre(1, -2, -3));
  EXPECT_FALSE(queue.oldest());
}

TEST_F(LeaseQueueTest, TheTimeInWhichAClientItselfHoldsMemoryDoesNotCount) {
  const base::TimePoint start{};
  ask(1, 4, start);
  ask(1, 8, start);
  EXPECT_FALSE(queue.oldest());
  queue.expire(start + std::chrono::hours(1));
  ask(2, 1, start + std::chrono::hours(1));
  give_back(1, start + std::chrono::hours(2));
  EXPECT_THAT(order, ElementsAre(1, 2));
  EXPECT_EQ(queue.oldest(), start + std::chrono::hours(2));
  queue.expire(start + std::chrono::hours(2) + std::chrono::seconds(60));
  EXPECT_THAT(order, ElementsAre(1, 2, -1));
}

TEST_F(LeaseQueueTest, AnExpiredHeadMakesRoomForThoseBehindIt) {
  const base::TimePoint start{};
  ask(1, 6, start);
  ask(2, 8, start);
  ask(3, 2, start + std::chrono::seconds(30));
  queue.expire(start + std::chrono::seconds(60));
  EXPECT_THAT(order, ElementsAre(1, -2, 3));
}

TEST_F(LeaseQueueTest, ACancelledRequestIsForgottenAndNoLongerBlocks) {
  ask(1, 6);
  const Ticket large = ask(2, 8);
  ask(3, 2);
  EXPECT_TRUE(queue.cancel(large));
  EXPECT_FALSE(queue.cancel(large));
  EXPECT_THAT(order, ElementsAre(1));
  queue.pump();
  EXPECT_THAT(order, ElementsAre(1, 3));
}

TEST_F(LeaseQueueTest, ACancelledRequestInTheMiddleKeepsTheTurnsOfTheOthers) {
  ask(9, 8);
  ask(1, 8);
  const Ticket middle = ask(1, 4);
  ask(1, 8);
  ask(2, 8);
  EXPECT_TRUE(queue.cancel(middle));
  for (int client : {9, 1, 2}) give_back(client);
  EXPECT_THAT(order, ElementsAre(9, 1, 2, 1));
}

TEST_F(LeaseQueueTest, RegionsLostForGoodEndTheWaitOfWhatNoLongerFits) {
  ask(1, 1);
  ask(2, 8);
  ask(3, 7);
  Lease lost = std::move(held[1].front());
  pool.set_in_flight(lost);
  pool.quarantine(lost);
  pool.close(std::move(lost));
  queue.pump();
  EXPECT_THAT(order, ElementsAre(1, -2, 3));
}

TEST_F(LeaseQueueTest, ACallbackMayAskAgainAndGiveBack) {
  int grants = 0;
  std::function<void(base::Result<Lease>)> again = [&](base::Result<Lease> result) {
    ASSERT_TRUE(result);
    pool.release(*std::move(result));
    queue.gave_back(ClientId{1}, 8 * kRegion, {});
    if (++grants < 1000) {
      queue.request(ClientId{1}, 8 * kRegion, {}, [&](base::Result<Lease> next) { again(std::move(next)); });
    }
    queue.pump();
  };
  queue.request(ClientId{1}, 8 * kRegion, {}, [&](base::Result<Lease> result) { again(std::move(result)); });
  EXPECT_EQ(grants, 1000);
  EXPECT_EQ(queue.depth(), 0U);
}

}  // namespace
}  // namespace keyferry::memory
