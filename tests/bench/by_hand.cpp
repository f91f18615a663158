// What keyferryd does with a value, by hand: one client, one step after another, and nothing else to see to. The whole
// value is received, then hashed, then fetched by the server over the fabric; a GET goes the other way round. So it is
// what the three parts of a value's way take where each finds the caches as the others have left them.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/fd.h"
#include "fabric_client.h"
#include "sockets.h"
#include "transfer/value_layout.h"

namespace keyferry::bench {
namespace {

constexpr const char* kUsage =
    "bench_by_hand PORT BYTES get|set: for the server at that port. Says its own port, serves one `bench_load ops` of "
    "NUMBER 0, then prints the seconds that fabric and hash took in each operation";

// Where a value begins that goes to a socket, and what the kernel keeps of it (lib/gateway/listener.cpp): as keyferryd
// has both, since a GET is slower without them.
using transfer::kLead;
constexpr int kSendBuffer = 256 * 1024;

struct CloseFabric {
  void operator()(FabricClient* client) const { fabric_client_close(client); }
};

/// A connection to the server, and memory that is registered for it.
class Lane {
 public:
  Lane(int port, std::size_t size) : fd_(connect_to(port)), memory_(size, 'h') {
    char problem[500];
    fabric_.reset(fabric_client_open("", "127.0.0.1", problem, sizeof problem));
    if (!fabric_) die(problem);
    hello();
    if (fabric_client_register(fabric_.get(), memory_.data(), size, &rkey_, &base_) != 0)
      die("the memory is not registered");
    fabric_client_poll(fabric_.get(), 1);
  }

  char* memory() { return memory_.data(); }

  void set(const std::string& key, std::size_t bytes, std::uint32_t crc) {
    const std::string length = std::to_string(bytes);
    say({"BLOB.RDMA_SET", key, length, "CRC", std::to_string(crc), std::to_string(rkey_), std::to_string(base_),
         length});
    if (const std::string answer = line(); answer != "+OK") die("the server said " + answer);
  }

  /// The checksum that the server has of the value.
  std::uint32_t get(const std::string& key, std::size_t offset, std::size_t bytes) {
    const std::string length = std::to_string(bytes);
    say({"BLOB.RDMA_GET", key, std::to_string(rkey_), std::to_string(base_ + offset), length});
    if (line() != "*2" || line() != ":" + length) die("the server has another value");
    return static_cast<std::uint32_t>(number(line()));
  }

 private:
  void hello() {
    unsigned char address[64];
    const std::size_t length = fabric_client_address(fabric_.get(), address, sizeof address);
    std::string text;
    for (std::size_t i = 0; i < length; ++i)
      text += {"0123456789abcdef"[address[i] / 16], "0123456789abcdef"[address[i] % 16]};
    say({"BLOB.RDMA_HELLO", text});
    for (unsigned long left = number(line()); left > 0; --left) {
      line();
      const std::string service = line();
      if (service.size() != 2 * length) die("the server's address is " + service);
      for (std::size_t i = 0; i < length; ++i)
        address[i] = static_cast<unsigned char>(std::strtoul(service.substr(2 * i, 2).c_str(), nullptr, 16));
      if (fabric_client_insert(fabric_.get(), address) != 1) die("an address of the server is not taken");
    }
  }

  static unsigned long number(const std::string& text) { return std::strtoul(text.c_str() + 1, nullptr, 10); }

  void say(const std::vector<std::string>& words) {
    const std::string text = command(words);
    send_all(fd_.get(), text.data(), text.size());
  }

  std::string line() {
    std::size_t end = 0;
    while ((end = unread_.find("\r\n")) == std::string::npos) {
      char bytes[256];
      const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
      if (got <= 0) die("the server closed the connection");
      unread_.append(bytes, static_cast<std::size_t>(got));
    }
    std::string text = unread_.substr(0, end);
    unread_.erase(0, end + 2);
    if (text.starts_with('-')) die("the server said " + text);
    return text;
  }

  base::Fd fd_;
  std::string unread_;
  Pages memory_;
  // Reads the memory until it is closed.
  std::unique_ptr<FabricClient, CloseFabric> fabric_;
  std::uint64_t rkey_ = 0;
  std::uint64_t base_ = 0;
};

class ByHand {
 public:
  ByHand(int server, std::size_t bytes) : lane_(server, bytes + kLead), bytes_(bytes), texts_(bytes, 0) {}

  /// `bench_load ops` stores its value before it begins. Until it leaves.
  void serve(int client, bool set) {
    take(client);
    for (char next = 0; ::recv(client, &next, 1, MSG_PEEK) == 1;) set ? take(client) : give(client);
  }

  void print() const {
    std::printf("{\"fabric\": ");
    print_list(fabric_);
    std::printf(", \"hash\": ");
    print_list(hash_);
    std::printf("}\n");
  }

 private:
  void take(int client) {
    expect(client, texts_.set);
    receive_all(client, lane_.memory(), bytes_);
    expect(client, "\r\n");
    const std::uint32_t crc = hash(0);
    timed(fabric_, [&] { lane_.set(texts_.key, bytes_, crc); });
    send_all(client, "+OK\r\n", 5);
  }

  void give(int client) {
    expect(client, texts_.get);
    std::uint32_t crc = 0;
    timed(fabric_, [&] { crc = lane_.get(texts_.key, kLead, bytes_); });
    if (hash(kLead) != crc) die("a value is not what the server has");
    send_all(client, {texts_.header, {lane_.memory() + kLead, bytes_}, "\r\n"});
  }

  std::uint32_t hash(std::size_t offset) {
    std::uint32_t crc = 0;
    timed(hash_, [&] { crc = base::crc32c(base::as_bytes({lane_.memory() + offset, bytes_})); });
    return crc;
  }

  template <typename Step>
  static void timed(std::vector<double>& each, Step step) {
    const Clock::time_point begin = Clock::now();
    step();
    each.push_back(seconds(Clock::now() - begin));
  }

  Lane lane_;
  std::size_t bytes_;
  ValueTexts texts_;
  std::vector<double> fabric_;
  std::vector<double> hash_;
};

}  // namespace
}  // namespace keyferry::bench

int main(int argc, char** argv) {
  using namespace keyferry::bench;
  const std::string op = argc == 4 ? argv[3] : "";
  if (op != "get" && op != "set") die(std::string("these arguments are not known. Fix: ") + kUsage);
  ByHand way(std::atoi(argv[1]), static_cast<std::size_t>(std::atoll(argv[2])));
  const auto [listener, port] = listen_anywhere();
  ::setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  std::printf("%d\n", port);
  std::fflush(stdout);
  const int client = ::accept(listener, nullptr, nullptr);
  if (client < 0) die(std::string("accept: ") + std::strerror(errno));
  const int on = 1;
  ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  way.serve(client, op == "set");
  way.print();
}
