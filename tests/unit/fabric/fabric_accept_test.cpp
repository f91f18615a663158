#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/fd.h"
#include "tests/unit/fabric/fabric_fixture.h"

namespace keyferry::test {
namespace {

std::string local_name(int fd) {
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) return "";
  return {reinterpret_cast<const char*>(&name), length};
}

/// Sockets of this process whose own name it is: the endpoint's listener and what that has accepted.
std::size_t sockets_named(const std::string& name) {
  const std::unique_ptr<DIR, int (*)(DIR*)> files(::opendir("/proc/self/fd"), ::closedir);
  std::size_t count = 0;
  while (const dirent* const entry = ::readdir(files.get())) {
    if (local_name(std::atoi(entry->d_name)) == name) ++count;
  }
  return count;
}

base::Fd connect_to(const std::string& name) {
  base::Fd peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(peer.get(), reinterpret_cast<const sockaddr*>(name.data()), static_cast<socklen_t>(name.size())) != 0)
    throw std::runtime_error("can't connect to the endpoint: " + std::string(std::strerror(errno)));
  return peer;
}

/// What is sent may meet a closed connection, that is the point.
void send_some(const base::Fd& peer, std::string_view bytes) {
  static_cast<void>(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

/// As a process does that is killed with bytes unread.
void reset(base::Fd peer) {
  const linger at_once{1, 0};
  ::setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

/// What the provider sends first on a connection, as it sent it to a listener of ours.
std::string first_request(Initiator& server) {
  base::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) != 0 ||
      ::listen(listener.get(), 1) != 0)
    throw std::runtime_error("no listener on loopback");
  const fi_addr_t peer = server.add_peer(local_name(listener.get()));
  base::Fd accepted;
  std::array<char, 256> bytes{};
  for (;;) {
    server.knock(peer);
    if (accepted.get() < 0) accepted = base::Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
    const ssize_t got = accepted.get() < 0 ? -1 : ::recv(accepted.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) return {bytes.data(), static_cast<std::size_t>(got)};
  }
}

struct AcceptTest : FabricFixture {
  void wait_until_accepted(std::size_t connections) {
    while (sockets_named(endpoint.address) < connections + 1) std::this_thread::yield();
  }
  void expect_that_bytes_move() {
    Lent lent(*this, std::vector<std::byte>(4096));
    std::vector<std::byte> sent = pattern(4096, 1);
    ASSERT_EQ(server.write(server.add_peer(endpoint.address), {lent.window(sent)}), 0);
    EXPECT_EQ(lent.bytes, sent);
  }
};
INSTANTIATE_TEST_SUITE_P(Libraries, AcceptTest, testing::ValuesIn(mixtures()));

TEST_P(AcceptTest, AConnectionThatHasSaidNothingEndsWithItsEndpoint) {
  const Owed owed(fabric);
  const base::Fd silent = connect_to(endpoint.address);
  const base::Fd gone = connect_to(endpoint.address);
  wait_until_accepted(2);
  ::shutdown(gone.get(), SHUT_WR);
  ASSERT_TRUE(close_endpoint(*fabric, endpoint.id));
  EXPECT_EQ(sockets_named(endpoint.address), 0U) << "libfabric would read its request with what the endpoint has freed";
  pollfd end{silent.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 10'000), 1) << "its peer is not told";
  endpoint = *open_endpoint(*fabric);
  expect_that_bytes_move();
}

TEST_P(AcceptTest, EndpointsCloseSafelyWhilePeersConnectAndDie) {
  const std::string request = first_request(server);
  const Owed owed(fabric);
  for (int round = 0; round < 50; ++round) {
    std::array<base::Fd, 6> peers;
    for (base::Fd& one : peers) one = connect_to(endpoint.address);
    send_some(peers[1], request);
    send_some(peers[2], request.substr(0, request.size() / 2));
    reset(std::move(peers[3]));
    send_some(peers[4], request);
    reset(std::move(peers[4]));
    if (round % 2 != 0) wait_until_accepted(1);
    ASSERT_TRUE(close_endpoint(*fabric, endpoint.id));
    EXPECT_EQ(sockets_named(endpoint.address), 0U) << "in round " << round;
    send_some(peers[0], request);
    send_some(peers[2], request.substr(request.size() / 2));
    auto opened = open_endpoint(*fabric);
    ASSERT_TRUE(opened) << opened.error().message;
    endpoint = *opened;
  }
  expect_that_bytes_move();
}

}  // namespace
}  // namespace keyferry::test
