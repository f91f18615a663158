#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "tests/unit/fabric/fabric_fixture.h"

namespace keyferry::test {
namespace {

using testing::HasSubstr;

struct FabricTest : FabricFixture {};
INSTANTIATE_TEST_SUITE_P(Libraries, FabricTest, testing::ValuesIn(mixtures()));

std::size_t entries(const char* folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST_P(FabricTest, TellsWhatItRunsOn) {
  const fabric::Traits& traits = fabric->traits();
  EXPECT_THAT(traits.library, HasSubstr(GetParam().target));
  EXPECT_EQ(traits.provider, traits.library.find("(1.17)") != std::string::npos ? "net" : "tcp");
  EXPECT_EQ(traits.domain, "lo");
  EXPECT_EQ(traits.address_length, 16U);
  EXPECT_EQ(endpoint.address.size(), 16U);
  EXPECT_TRUE(traits.needs_polling);
  EXPECT_FALSE(traits.deregistration_fences);
}

TEST_P(FabricTest, OneTo256WindowsInAnyOrderLandAndLeaveByteForByte) {
  constexpr std::size_t kRegion = 64 * 1024;
  std::deque<std::vector<std::byte>> memories;
  const Owed owed(fabric);
  std::mt19937 random(7);
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{17}, std::size_t{255}, std::size_t{256}}) {
    std::vector<std::byte>& memory = memories.emplace_back(count * kRegion);
    std::vector<std::byte> sent = pattern(memory.size(), static_cast<std::uint32_t>(count));
    std::vector<std::byte> fetched(memory.size());
    std::vector<fabric::Registration> registrations;
    std::vector<Initiator::Window> writes;
    std::vector<Initiator::Window> reads;
    for (std::size_t i = 0; i < count; ++i) {
      auto registration = register_memory(*fabric, {memory.data() + i * kRegion, kRegion});
      ASSERT_TRUE(registration) << registration.error().message;
      registrations.push_back(*registration);
      writes.push_back({registration->rkey, registration->wire_base, {sent.data() + i * kRegion, kRegion}});
      reads.push_back({registration->rkey, registration->wire_base, {fetched.data() + i * kRegion, kRegion}});
    }
    std::shuffle(writes.begin(), writes.end(), random);
    std::shuffle(reads.begin(), reads.end(), random);
    ASSERT_EQ(server.write(peer, writes), 0);
    EXPECT_EQ(memory, sent) << count;
    ASSERT_EQ(server.read(peer, reads), 0);
    EXPECT_EQ(fetched, sent) << count;
    for (const fabric::Registration& registration : registrations) EXPECT_TRUE(deregister(*fabric, registration.id));
  }
  EXPECT_EQ(fabric->counters().registered_bytes, 0U);
  fabric.reset();
}

TEST_P(FabricTest, AWindowInsideARegionLeavesItsNeighboursAlone) {
  Lent lent(*this, pattern(3000, 1));
  std::vector<std::byte> expected = lent.bytes;
  std::vector<std::byte> sent = pattern(1000, 2);
  std::memcpy(expected.data() + 777, sent.data(), sent.size());
  const Owed owed(fabric);
  ASSERT_EQ(server.write(peer, {lent.window(sent, 777)}), 0);
  EXPECT_EQ(lent.bytes, expected);
}

TEST_P(FabricTest, SixtyFourMiBInOnePieceCrossesBothWays) {
  Lent lent(*this, std::vector<std::byte>(64U << 20U));
  std::vector<std::byte> sent = pattern(lent.bytes.size(), 3);
  const Owed owed(fabric);
  ASSERT_EQ(server.write(peer, {lent.window(sent)}), 0);
  EXPECT_TRUE(lent.bytes == sent);
  std::vector<std::byte> fetched(lent.bytes.size());
  ASSERT_EQ(server.read(peer, {lent.window(fetched)}), 0);
  EXPECT_TRUE(fetched == sent);
}

TEST_P(FabricTest, APeerOfWrongLengthOrFamilyIsRefusedWithoutSpoilingTheEndpoint) {
  std::string other_family = server.address();
  other_family[0] = 10;
  const std::vector<std::string> bad[] = {{std::string(28, '\0')},     {""}, {std::string(16, '\xff')}, {other_family},
                                          {server.address(), "short"}, {}};
  for (const auto& addresses : bad) {
    const auto refused = insert_peers(*fabric, endpoint.id, addresses);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("keyferry: the server"));
    EXPECT_EQ(fabric->counters().av_entries, 0U);
  }
  const auto good = insert_peers(*fabric, endpoint.id, {server.address()});
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(fabric->counters().av_entries, 1U);
  Lent lent(*this, std::vector<std::byte>(4096));
  std::vector<std::byte> sent = pattern(4096, 4);
  const Owed owed(fabric);
  ASSERT_EQ(server.write(peer, {lent.window(sent)}), 0);
  EXPECT_EQ(lent.bytes, sent);
}

TEST_P(FabricTest, AServerThatNamesEndlessAddressesIsRefused) {
  const auto refused = insert_peers(*fabric, endpoint.id, std::vector<std::string>(2000, server.address()));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("2000 fabric addresses"));
}

TEST_P(FabricTest, ABadKeyFailsAndTheNextTransferWorks) {
  Lent lent(*this, std::vector<std::byte>(4096));
  std::vector<std::byte> sent = pattern(4096, 5);
  Initiator::Window bad_key = lent.window(sent);
  bad_key.rkey += 1000;
  const Owed owed(fabric);
  EXPECT_NE(server.write(peer, {bad_key}), 0);
  EXPECT_NE(server.write(peer, {lent.window(sent, 1)}), 0) << "one byte beyond the registration";
  EXPECT_EQ(lent.bytes, std::vector<std::byte>(4096));
  ASSERT_EQ(server.write(peer, {lent.window(sent)}), 0);
  EXPECT_EQ(lent.bytes, sent);
}

TEST_P(FabricTest, KeysAndIdsAreNeverUsedTwice) {
  std::vector<std::byte> memory(4096);
  std::set<std::uint64_t> keys;
  std::set<fabric::RegistrationId> ids;
  for (int i = 0; i < 100; ++i) {
    auto registration = register_memory(*fabric, memory);
    ASSERT_TRUE(registration);
    EXPECT_TRUE(keys.insert(registration->rkey).second);
    EXPECT_TRUE(ids.insert(registration->id).second);
    ASSERT_TRUE(deregister(*fabric, registration->id));
    EXPECT_FALSE(deregister(*fabric, registration->id)) << "closed twice";
  }
  EXPECT_EQ(fabric->counters().registrations, 0U);
}

TEST_P(FabricTest, WhatIsNotThereIsAnErrorNotACrash) {
  EXPECT_FALSE(insert_peers(*fabric, fabric::EndpointId{99}, {server.address()}));
  EXPECT_FALSE(close_endpoint(*fabric, fabric::EndpointId{99}));
  EXPECT_FALSE(deregister(*fabric, fabric::RegistrationId{99}));
  const auto nothing = register_memory(*fabric, {});
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message, HasSubstr("0 bytes"));
  ASSERT_TRUE(close_endpoint(*fabric, endpoint.id));
  EXPECT_FALSE(close_endpoint(*fabric, endpoint.id));
}

TEST_P(FabricTest, CountersFollowWhatIsOpen) {
  EXPECT_EQ(fabric->counters().endpoints, 1U);
  auto second = open_endpoint(*fabric);
  ASSERT_TRUE(second);
  EXPECT_NE(second->address, endpoint.address);
  ASSERT_TRUE(insert_peers(*fabric, second->id, {server.address(), endpoint.address}));
  std::vector<std::byte> memory(8192);
  auto registration = register_memory(*fabric, memory);
  fabric->raise_owed();
  fabric::FabricCounters counters = fabric->counters();
  EXPECT_EQ(counters.endpoints, 2U);
  EXPECT_EQ(counters.av_entries, 2U);
  EXPECT_EQ(counters.registrations, 1U);
  EXPECT_EQ(counters.registered_bytes, 8192U);
  EXPECT_GT(counters.registration_seconds, 0);
  EXPECT_EQ(counters.owed, 1U);
  fabric->lower_owed();
  ASSERT_TRUE(close_endpoint(*fabric, second->id));
  ASSERT_TRUE(deregister(*fabric, registration->id));
  counters = fabric->counters();
  EXPECT_EQ(counters.endpoints, 1U);
  EXPECT_EQ(counters.av_entries, 0U);
  EXPECT_EQ(counters.registrations, 0U);
  EXPECT_EQ(counters.registered_bytes, 0U);
  EXPECT_EQ(counters.owed, 0U);
  EXPECT_EQ(counters.close_failures, 0U);
}

TEST_P(FabricTest, AnswersComeInOrderAndAfterDestructionNoneIsOutstanding) {
  WaitingExecutor back;
  std::vector<int> order;
  std::vector<std::byte> memory(4096);
  for (int i = 0; i < 50; ++i) {
    fabric->open_endpoint(back,
                          [&order, i](base::Result<fabric::Endpoint> result) { order.push_back(result ? i : -1); });
  }
  fabric.reset();
  back.run_until([&] { return order.size() == 50; });
  std::vector<int> expected(50);
  for (int i = 0; i < 50; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(order, expected);
}

/// How often the fabric thread has gone to sleep (proc(5), status); 0 if there is none.
std::uint64_t fabric_thread_sleeps() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream name(task.path() / "comm");
    std::string text;
    if (!(name >> text) || text != "kf-fabric") continue;
    std::ifstream status(task.path() / "status");
    while (status >> text) {
      std::uint64_t count = 0;
      if (text == "voluntary_ctxt_switches:" && status >> count) return count;
    }
  }
  return 0;
}

TEST_P(FabricTest, TheThreadPollsWhileSomethingIsOwedAndParksWhenNothingIs) {
  {
    const Owed owed(fabric);
    const std::uint64_t before = fabric_thread_sleeps();
    while (fabric_thread_sleeps() < before + 30) std::this_thread::yield();
  }
  const std::uint64_t before = fabric_thread_sleeps();
  // Nothing signals that a thread stays asleep, so this one wait is by the clock; a slow machine only makes the count
  // smaller.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(fabric_thread_sleeps() - before, 10U);
}

TEST_P(FabricTest, ThreadsAndDescriptorsAreBackAfterDestruction) {
  const auto use = [] {
    const auto once = fabric::open_fabric(loopback(GetParam().target));
    std::vector<std::byte> memory(4096);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(open_endpoint(*once));
    EXPECT_TRUE(register_memory(*once, memory));
  };
  use();
  const std::size_t threads = entries("/proc/self/task");
  const std::size_t descriptors = entries("/proc/self/fd");
  for (int i = 0; i < 5; ++i) use();
  EXPECT_EQ(entries("/proc/self/task"), threads);
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
}

TEST_P(FabricTest, ManyEndpointsComeAndGoWithoutLeavingDescriptors) {
  ASSERT_TRUE(close_endpoint(*fabric, open_endpoint(*fabric)->id));
  const std::size_t descriptors = entries("/proc/self/fd");
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(close_endpoint(*fabric, open_endpoint(*fabric)->id));
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
}

}  // namespace
}  // namespace keyferry::test
