#include "fabric/accepted_sockets.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace keyferry::fabric {

namespace {

/// A request begins with a header of 32 bytes, which the provider reads in one go. A connection that it has taken up
/// has given at least that; the kernel counts the end of a stream as a byte received.
constexpr std::uint64_t kRequestHeader = 32;

bool has_name(int fd, std::string_view name) {
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 && length == name.size() &&
         std::memcmp(&own, name.data(), name.size()) == 0;
}

bool is_listener(int fd) {
  int listening = 0;
  socklen_t length = sizeof(listening);
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || listening != 0;
}

/// False if the kernel doesn't tell.
bool is_unread(int fd) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  int unread = 0;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || ::ioctl(fd, SIOCINQ, &unread) != 0) return false;
  if (length < offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received)) return false;
  return info.tcpi_bytes_received < static_cast<std::uint64_t>(unread) + kRequestHeader;
}

}  // namespace

AcceptedSockets::AcceptedSockets() : files_(::opendir("/proc/self/fd")) {
  if (!files_)
    throw std::runtime_error(
        std::string("keyferry: the software fabric needs /proc/self/fd, to close its endpoints safely, and can't read "
                    "it: ") +
        std::strerror(errno) + "; mount /proc, or set fabric.provider to off");
}

std::size_t AcceptedSockets::close_unread(std::string_view name) {
  std::size_t closed = 0;
  ::rewinddir(files_.get());
  while (const dirent* const entry = ::readdir(files_.get())) {
    char* end = nullptr;
    const long fd = std::strtol(entry->d_name, &end, 10);
    if (end == entry->d_name || !has_name(static_cast<int>(fd), name) || is_listener(static_cast<int>(fd)) ||
        !is_unread(static_cast<int>(fd)))
      continue;
    ::close(static_cast<int>(fd));
    ++closed;
  }
  return closed;
}

}  // namespace keyferry::fabric
