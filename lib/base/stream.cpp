#include "base/stream.h"

#include <boost/asio.hpp>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>

#include "base/asio_stream.h"

namespace keyferry::base {

namespace asio = boost::asio;

bool is_end_of_stream(const std::error_code& error) {
  return error == std::error_code(boost::system::error_code(asio::error::eof));
}

namespace {

std::string host_and_port(const sockaddr_storage& address, socklen_t length) {
  asio::ip::tcp::endpoint endpoint;
  endpoint.resize(length);
  std::memcpy(endpoint.data(), &address, length);
  const std::string host = endpoint.address().to_string();
  return (address.ss_family == AF_INET6 ? "[" + host + "]" : host) + ":" + std::to_string(endpoint.port());
}

}  // namespace

std::string local_address(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  if (address.ss_family == AF_INET || address.ss_family == AF_INET6) return host_and_port(address, length);
  if (address.ss_family != AF_UNIX || length <= offsetof(sockaddr_un, sun_path)) return {};
  const auto& path = reinterpret_cast<const sockaddr_un&>(address).sun_path;
  return {path, ::strnlen(path, length - offsetof(sockaddr_un, sun_path))};
}

WatchedSocket watch_socket(Loop& loop, Fd socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  WatchedSocket watched;
  watched.peer = "unix";
  int family = AF_UNIX;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0) family = address.ss_family;
  if (family == AF_INET || family == AF_INET6) {
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    watched.peer = host_and_port(address, length);
  }
  watched.socket = std::make_shared<StreamSocket>(loop.context());
  boost::system::error_code error;
  watched.socket->assign(asio::generic::stream_protocol(family, family == AF_UNIX ? 0 : IPPROTO_TCP), socket.get(),
                         error);
  if (error) throw std::runtime_error("cannot watch a socket: " + error.message());
  static_cast<void>(socket.release());
  return watched;
}

std::unique_ptr<Stream> adopt_socket(Loop& loop, Fd socket) {
  WatchedSocket watched = watch_socket(loop, std::move(socket));
  return std::make_unique<AsioStream<StreamSocket>>(std::move(watched.socket), std::move(watched.peer));
}

}  // namespace keyferry::base
