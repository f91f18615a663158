// What keyferryd does with a value, by hand: one client, one step after another, and nothing else to see to. The whole
// value is received, then hashed, then fetched by the server over the fabric; a GET goes the other way round. So it is
// what the three parts of a value's way take where each finds the caches as the others have left them.
#include <cstddef>
#include <cstdint>

#include "base/crc32c.h"
#include "fabric_client.h"
#include "sockets.h"

namespace keyferry::bench {
namespace {

constexpr const char* kUsage =
    "bench_by_hand PORT BYTES get|set: for the server at that port. Says its own port, serves one `bench_load ops` of "
    "NUMBER 0, then prints the seconds that fabric and hash took in each operation";

/// Where a value begins that goes to a socket, as keyferryd has it and for its reason (lib/transfer/value_layout.h).
constexpr std::size_t kLead = 64;

/// A connection to the server, and memory that is registered for it.
class Lane {
 public:
  Lane(int port, std::size_t size) : fd_(connect_to(port)), memory_(size, 'h') {
    char problem[500];
    fabric_ = fabric_client_open("", "127.0.0.1", problem, sizeof problem);
    if (fabric_ == nullptr) die(problem);
    hello();
    if (fabric_client_register(fabric_, memory_.data(), size, &rkey_, &base_) != 0) die("the memory is not registered");
    fabric_client_poll(fabric_, 1);
  }
  ~Lane() {
    ::close(fd_);
    fabric_client_close(fabric_);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  char* memory() { return memory_.data(); }

  void set(const std::string& key, std::size_t bytes, std::uint32_t crc) {
    const std::string length = std::to_string(bytes);
    say({"BLOB.RDMA_SET", key, length, "CRC", std::to_string(crc), std::to_string(rkey_), std::to_string(base_),
         length});
    expect(fd_, "+OK\r\n");
  }

  /// The checksum that the server has of the value.
  std::uint32_t get(const std::string& key, std::size_t offset, std::size_t bytes) {
    const std::string length = std::to_string(bytes);
    say({"BLOB.RDMA_GET", key, std::to_string(rkey_), std::to_string(base_ + offset), length});
    expect(fd_, "*2\r\n:" + length + "\r\n");
    return static_cast<std::uint32_t>(std::stoul(line().substr(1)));
  }

 private:
  void hello() {
    unsigned char address[64];
    const std::size_t length = fabric_client_address(fabric_, address, sizeof address);
    std::string text;
    for (std::size_t i = 0; i < length; ++i)
      text += {"0123456789abcdef"[address[i] / 16], "0123456789abcdef"[address[i] % 16]};
    say({"BLOB.RDMA_HELLO", text});
    for (int left = std::stoi(line().substr(1)); left > 0; --left) {
      line();
      const std::string service = line();
      for (std::size_t i = 0; i < length; ++i)
        address[i] = static_cast<unsigned char>(std::stoi(service.substr(2 * i, 2), nullptr, 16));
      if (fabric_client_insert(fabric_, address) != 1) die("an address of the server is not taken");
    }
  }

  void say(const std::vector<std::string>& words) {
    const std::string text = command(words);
    send_all(fd_, text.data(), text.size());
  }

  std::string line() {
    std::string text;
    for (char byte = 0; byte != '\n'; text += byte) receive_all(fd_, &byte, 1);
    if (text.front() == '-') die("the server said " + text);
    return text;
  }

  int fd_;
  Pages memory_;
  FabricClient* fabric_ = nullptr;
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
  std::printf("%d\n", port);
  std::fflush(stdout);
  const int client = ::accept(listener, nullptr, nullptr);
  const int on = 1;
  ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  way.serve(client, op == "set");
  way.print();
}
