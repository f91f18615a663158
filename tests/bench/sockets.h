#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Blocking sockets and RESP in the few lines that the programs of the benchmarks need. What is not as expected ends
/// the program with a message.
namespace keyferry::bench {

using Clock = std::chrono::steady_clock;

inline double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

[[noreturn]] inline void die(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  std::_Exit(1);
}

inline int connect_to(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    die("connecting to port " + std::to_string(port) + ": " + std::strerror(errno));
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

/// A socket that listens on loopback, and the port it got.
inline std::pair<int, int> listen_anywhere() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(fd, 1) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    die("no listening socket");
  return {fd, ntohs(address.sin_port)};
}

inline void send_all(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) die(std::string("send: ") + std::strerror(errno));
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
}

/// In one call where the socket takes it, as a client that knows the whole command does.
inline void send_all(int fd, std::array<std::string_view, 3> parts) {
  for (std::size_t first = 0; first < parts.size();) {
    std::array<iovec, 3> spans;
    for (std::size_t i = first; i < parts.size(); ++i)
      spans[i - first] = {const_cast<char*>(parts[i].data()), parts[i].size()};
    msghdr message{};
    message.msg_iov = spans.data();
    message.msg_iovlen = parts.size() - first;
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent <= 0) die(std::string("sendmsg: ") + std::strerror(errno));
    std::size_t taken = static_cast<std::size_t>(sent);
    for (; first < parts.size() && taken >= parts[first].size(); ++first) taken -= parts[first].size();
    if (taken != 0) parts[first].remove_prefix(taken);
  }
}

inline void receive_all(int fd, char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(fd, bytes, size, 0);
    if (got <= 0) die(got == 0 ? "the peer closed the connection" : std::string("recv: ") + std::strerror(errno));
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
}

/// Ends with the first byte that is another one: a shorter text is not waited for.
inline void expect(int fd, std::string_view wanted) {
  char bytes[256];
  for (std::size_t seen = 0; seen < wanted.size();) {
    const ssize_t got = ::recv(fd, bytes, std::min(sizeof bytes, wanted.size() - seen), 0);
    if (got <= 0) die(got == 0 ? "the peer closed the connection" : std::string("recv: ") + std::strerror(errno));
    const std::string_view text(bytes, static_cast<std::size_t>(got));
    if (text != wanted.substr(seen, text.size()))
      die("'" + std::string(text) + "' came instead of '" + std::string(wanted.substr(seen)) + "'");
    seen += text.size();
  }
}

inline std::string command(const std::vector<std::string>& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return text;
}

/// Memory as those have it who move large values: whole pages. Where the bytes lie decides what the kernel's copy costs
/// (README.md).
class Pages {
 public:
  Pages(std::size_t size, char filling) : bytes_(size + kPage, filling), size_(size) {}
  char* data() { return bytes_.data() + (kPage - reinterpret_cast<std::uintptr_t>(bytes_.data()) % kPage) % kPage; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kPage = 4096;
  std::string bytes_;
  std::size_t size_;
};

/// Seconds of each operation, as JSON.
inline void print_list(const std::vector<double>& each) {
  for (std::size_t i = 0; i < each.size(); ++i) std::printf("%s%.9f", i == 0 ? "[" : ", ", each[i]);
  std::printf("]");
}

/// What a client says that moves a value again and again.
struct ValueTexts {
  ValueTexts(std::size_t bytes, int number)
      : key("bench:" + std::to_string(bytes) + ":" + std::to_string(number)),
        header("$" + std::to_string(bytes) + "\r\n"),
        get(command({"BLOB.TCP_GET", key})),
        set("*3\r\n" + command({"BLOB.TCP_SET", key}).substr(4) + header) {}
  std::string key;
  /// Before the value, in GET's reply and at the end of `set`.
  std::string header;
  std::string get;
  /// The value and CR LF follow.
  std::string set;
};

}  // namespace keyferry::bench
