#include "gateway/listener.h"

#include <boost/asio.hpp>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace keyferry::gateway {

namespace asio = boost::asio;

namespace {

constexpr int kBacklog = 4096;
// Accepted in one go before other work of the loop has its turn (R41).
constexpr int kAcceptsPerTurn = 64;
constexpr base::Duration kRetry = std::chrono::milliseconds(100);
constexpr base::Duration kSayAgain = std::chrono::seconds(10);

std::runtime_error failure(const std::string& where, const std::string& step, int error) {
  return std::runtime_error(
      "cannot listen on " + where + ": " + step + ": " + std::strerror(error) +
      (error == EADDRINUSE ? " (another process listens there: stop it or change `listen`)" : ""));
}

base::Fd open_socket(const std::string& where, int family) {
  base::Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) throw failure(where, "socket", errno);
  return fd;
}

/// What a client has not taken yet waits in the kernel up to twice this. Left to itself the kernel goes up to 4 MiB:
/// the bytes of a large value have then left the CPU's cache again when the client reads them, and it arrives up to a
/// third later (tests/bench/single_client). Set for all that are accepted.
void bound_send_buffer(const base::Fd& listener) {
  const int bytes = 256 * 1024;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

/// What is set here is so for all that are accepted.
void keep_alive(const base::Fd& listener, base::Duration silence) {
  constexpr int kProbes = 3;
  const int seconds = static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(silence).count());
  if (seconds <= 0) return;
  const auto set = [&](int level, int name, int value) {
    ::setsockopt(listener.get(), level, name, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / kProbes));
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

base::Fd listen_tcp(const ListenOptions& options) {
  const std::string where = options.host + ":" + std::to_string(options.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found);
  if (status != 0) throw std::runtime_error("cannot listen on " + where + ": " + ::gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  base::Fd fd = open_socket(where, addresses->ai_family);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  keep_alive(fd, options.keepalive);
  bound_send_buffer(fd);
  if (::bind(fd.get(), addresses->ai_addr, addresses->ai_addrlen) != 0) throw failure(where, "bind", errno);
  if (::listen(fd.get(), kBacklog) != 0) throw failure(where, "listen", errno);
  return fd;
}

/// True if a process accepts connections on that path.
bool somebody_listens(const sockaddr_un& address) {
  const base::Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return probe && ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

base::Fd listen_unix(const ListenOptions& options) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (options.path.size() >= sizeof(address.sun_path)) {
    throw std::runtime_error("cannot listen on " + options.path + ": the path is longer than " +
                             std::to_string(sizeof(address.sun_path) - 1) + " bytes");
  }
  std::memcpy(address.sun_path, options.path.data(), options.path.size());
  struct stat existing {};
  if (::lstat(options.path.c_str(), &existing) == 0) {
    if (!S_ISSOCK(existing.st_mode))
      throw std::runtime_error("cannot listen on " + options.path + ": a file of another kind is there");
    if (somebody_listens(address)) throw failure(options.path, "bind", EADDRINUSE);
    ::unlink(options.path.c_str());
  }
  base::Fd fd = open_socket(options.path, AF_UNIX);
  // The permissions must hold from the first moment: bound under a mask that leaves nothing, opened afterwards.
  const mode_t mask = ::umask(0777);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  ::umask(mask);
  if (bound != 0) throw failure(options.path, "bind", error);
  if (::chmod(options.path.c_str(), options.mode) != 0) throw failure(options.path, "chmod", errno);
  if (::listen(fd.get(), kBacklog) != 0) throw failure(options.path, "listen", errno);
  return fd;
}

}  // namespace

struct Listener::Impl : std::enable_shared_from_this<Impl> {
  Impl(base::Loop& loop, const ListenOptions& listen_options,
       base::UniqueFunction<void(base::Fd, std::string_view)> on_accepted)
      : options(listen_options), accepted(std::move(on_accepted)), descriptor(loop.context()), retry(loop) {}

  void wait() {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this()](const boost::system::error_code& error) {
                            if (!error && self->descriptor.is_open()) self->accept_some();
                          });
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      base::Fd client(::accept4(descriptor.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (client) {
        accepted(std::move(client), options.path.empty() ? "tcp" : "unix");
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        break;
      } else if (errno != EINTR && errno != ECONNABORTED) {
        // Out of descriptors or memory: the connection stays in the backlog until there are some again.
        say_why_they_wait(errno);
        retry.start(kRetry, [self = shared_from_this()] { self->wait(); });
        return;
      }
    }
    wait();
  }

  /// Now and then, not at each try.
  void say_why_they_wait(int error) {
    const base::TimePoint now = base::Clock::steady().now();
    if (said && now - *said < kSayAgain) return;
    said = now;
    spdlog::error("clients wait to be accepted: {}. Fix: raise LimitNOFILE, or lower limits.clients so that it fits",
                  std::strerror(error));
  }

  ListenOptions options;
  base::UniqueFunction<void(base::Fd, std::string_view)> accepted;
  asio::posix::stream_descriptor descriptor;
  base::Timer retry;
  std::optional<base::TimePoint> said;
};

Listener::Listener(base::Loop& loop, const ListenOptions& options,
                   base::UniqueFunction<void(base::Fd, std::string_view)> accepted)
    : impl_(std::make_shared<Impl>(loop, options, std::move(accepted))) {
  base::Fd fd = options.path.empty() ? listen_tcp(options) : listen_unix(options);
  impl_->descriptor.assign(fd.release());
  loop.post([impl = impl_] {
    if (impl->descriptor.is_open()) impl->wait();
  });
}

Listener::~Listener() = default;

void Listener::close() {
  if (!impl_->descriptor.is_open()) return;
  impl_->retry.cancel();
  impl_->descriptor.close();
  if (!impl_->options.path.empty()) ::unlink(impl_->options.path.c_str());
}

std::uint16_t Listener::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(impl_->descriptor.native_handle(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

}  // namespace keyferry::gateway
