#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>

#include "base/crc32c.h"
#include "base/fd.h"
#include "tests/unit/fabric/fabric_fixture.h"

namespace keyferry::test {
namespace {

struct FenceTest : FabricFixture {
  /// Another endpoint in place of the one that was closed.
  void begin_anew() {
    endpoint = *open_endpoint(*fabric);
    peer = server.add_peer(endpoint.address);
  }
};
INSTANTIATE_TEST_SUITE_P(Libraries, FenceTest, testing::ValuesIn(mixtures()));

/// Looks at a byte that libfabric may be writing: that is the point of these tests, so the thread sanitizer is not
/// asked.
__attribute__((no_sanitize("thread"), noinline)) std::byte glance(const std::byte* byte) {
  return *static_cast<const volatile std::byte*>(byte);
}

/// Long enough to be met in the middle; sanitizers are slower.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kLarge = 32U << 20U;
#else
constexpr std::size_t kLarge = 128U << 20U;
#endif
constexpr std::size_t kSmall = 256U * 1024;
// On a busy machine a fence may come when all has been moved already; then it is tried again.
constexpr int kAttempts = 20;

/// Writes and reads through an endpoint of its own, over and over, and compares every byte.
class Neighbour {
 public:
  Neighbour(fabric::Fabric& fabric, const std::string& library) : fabric_(fabric), server_(library), memory_(kSmall) {
    endpoint_ = *open_endpoint(fabric);
    peer_ = server_.add_peer(endpoint_.address);
    registration_ = *register_memory(fabric, memory_);
    thread_ = std::thread([this] { run(); });
  }
  ~Neighbour() {
    ending_.store(true);
    thread_.join();
    EXPECT_TRUE(close_endpoint(fabric_, endpoint_.id));
    EXPECT_TRUE(deregister(fabric_, registration_.id));
  }
  void wait_for_rounds(std::uint64_t more) const {
    const std::uint64_t until = rounds_.load() + more;
    while (rounds_.load() < until) std::this_thread::yield();
  }
  std::uint64_t failures() const { return failures_.load(); }

 private:
  void run() {
    std::vector<std::byte> fetched(kSmall);
    while (!ending_.load()) {
      std::vector<std::byte> sent = pattern(kSmall, static_cast<std::uint32_t>(rounds_.load() + 1));
      const bool ok = server_.write(peer_, {{registration_.rkey, registration_.wire_base, sent}}) == 0 &&
                      server_.read(peer_, {{registration_.rkey, registration_.wire_base, fetched}}) == 0 &&
                      fetched == sent;
      if (!ok) failures_.fetch_add(1);
      rounds_.fetch_add(1);
    }
  }

  fabric::Fabric& fabric_;
  Initiator server_;
  std::vector<std::byte> memory_;
  fabric::Endpoint endpoint_;
  fabric::Registration registration_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

TEST_P(FenceTest, R88NoByteLandsAfterTheEndpointIsClosedAndTheNeighbourGoesOn) {
  const Owed owed(fabric);
  Lent lent(*this, std::vector<std::byte>(kLarge));
  const std::vector<std::byte>& memory = lent.bytes;
  Neighbour neighbour(*fabric, GetParam().initiator);
  neighbour.wait_for_rounds(2);
  std::vector<std::byte> sent(kLarge, std::byte{0xA5});

  bool cut = false;
  for (int attempt = 0; attempt < kAttempts && !cut; ++attempt) {
    if (attempt != 0) begin_anew();
    std::fill(lent.bytes.begin(), lent.bytes.end(), std::byte{0});
    int outcome = 0;
    std::thread writer([&] { outcome = server.write(peer, {lent.window(sent)}); });
    while (glance(memory.data()) == std::byte{0}) std::this_thread::yield();
    const auto closed = close_endpoint(*fabric, endpoint.id);
    EXPECT_TRUE(closed) << closed.error().message;
    const std::uint32_t before = base::crc32c(memory);
    cut = memory[kLarge - 1] == std::byte{0};
    writer.join();
    if (cut) {
      EXPECT_NE(outcome, 0) << "the server was told that all had landed";
    }
    neighbour.wait_for_rounds(50);
    EXPECT_EQ(base::crc32c(memory), before) << "bytes landed after the fence";
  }
  EXPECT_TRUE(cut) << "each write had ended before the fence; this test saw nothing";
  EXPECT_EQ(neighbour.failures(), 0U);
}

TEST_P(FenceTest, R88ASourceIsNotReadAfterTheEndpointIsClosed) {
  const Owed owed(fabric);
  Lent lent(*this, std::vector<std::byte>(kLarge));
  int outcome = 0;
  for (int attempt = 0; attempt < kAttempts && outcome == 0; ++attempt) {
    if (attempt != 0) begin_anew();
    std::fill(lent.bytes.begin(), lent.bytes.end(), std::byte{1});
    std::vector<std::byte> fetched(kLarge);
    std::thread reader([&] { outcome = server.read(peer, {lent.window(fetched)}); });
    while (glance(fetched.data()) == std::byte{0}) std::this_thread::yield();
    EXPECT_TRUE(close_endpoint(*fabric, endpoint.id));
    std::fill(lent.bytes.begin(), lent.bytes.end(), std::byte{2});
    reader.join();
    EXPECT_EQ(std::count(fetched.begin(), fetched.end(), std::byte{2}), 0) << "memory of the next holder was read";
  }
  EXPECT_NE(outcome, 0) << "each read had ended before the fence; this test saw nothing";
}

TEST_P(FenceTest, ANewEndpointAfterAFenceServesTheSameMemoryAgain) {
  const Owed owed(fabric);
  Lent lent(*this, std::vector<std::byte>(kSmall));
  std::set<std::string> names{endpoint.address};
  for (std::uint32_t round = 1; round <= 20; ++round) {
    ASSERT_TRUE(close_endpoint(*fabric, endpoint.id));
    endpoint = *open_endpoint(*fabric);
    EXPECT_TRUE(names.insert(endpoint.address).second) << "a name closed moments ago was given out again";
    std::vector<std::byte> sent = pattern(kSmall, round);
    ASSERT_EQ(server.write(server.add_peer(endpoint.address), {lent.window(sent)}), 0);
    EXPECT_EQ(lent.bytes, sent);
  }
}

TEST_P(FenceTest, R90DestroyingTheFabricInTheMiddleOfAWriteIsAFenceToo) {
  Lent lent(*this, std::vector<std::byte>(kLarge));
  const std::vector<std::byte>& memory = lent.bytes;
  std::vector<std::byte> sent(kLarge, std::byte{0xA5});
  fabric->raise_owed();
  int outcome = 0;
  std::thread writer([&] { outcome = server.write(peer, {lent.window(sent)}); });
  while (glance(memory.data()) == std::byte{0}) std::this_thread::yield();
  fabric.reset();
  const std::uint32_t before = base::crc32c(memory);
  writer.join();
  EXPECT_NE(outcome, 0);
  EXPECT_EQ(base::crc32c(memory), before);
}

bool is_free(int port) {
  const base::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// The first of two free ones below those that the kernel gives to whoever connects; other tests run beside this one.
int two_free_ports() {
  constexpr int kFrom = 20000, kCount = 10000;
  for (int i = 0; i < kCount; i += 2) {
    const int port = kFrom + (2 * static_cast<int>(::getpid()) + i) % kCount;
    if (is_free(port) && is_free(port + 1)) return port;
  }
  std::_Exit(4);
}

/// In a process of its own, for the provider reads the range of ports when it is loaded: only two ports are to be had.
[[noreturn]] void narrow_ports_scenario(const std::string& library) {
  const int port = two_free_ports();
  const std::string low = std::to_string(port), high = std::to_string(port + 1);
  ::setenv("FI_TCP_PORT_LOW_RANGE", low.c_str(), 1);
  ::setenv("FI_TCP_PORT_HIGH_RANGE", high.c_str(), 1);
  ::setenv("FI_NET_PORT_LOW_RANGE", low.c_str(), 1);
  ::setenv("FI_NET_PORT_HIGH_RANGE", high.c_str(), 1);
  const auto fabric = fabric::open_fabric(loopback(library));
  auto first = open_endpoint(*fabric);
  if (!first || !close_endpoint(*fabric, first->id)) std::_Exit(2);
  auto second = open_endpoint(*fabric);
  if (!second) std::_Exit(3);
  std::_Exit(second->address == first->address ? 1 : 0);
}

TEST(FenceDeathTest, R87ANameClosedMomentsAgoIsNotGivenOutAgain) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const std::string& library : libraries()) {
    for (int i = 0; i < 5; ++i) EXPECT_EXIT(narrow_ports_scenario(library), testing::ExitedWithCode(0), "") << library;
  }
}

}  // namespace
}  // namespace keyferry::test
