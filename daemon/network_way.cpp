#include "daemon/network_way.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace keyferry::daemon {

namespace {

std::string figures(const sockaddr* address) {
  const socklen_t length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> name{};
  const int code = ::getnameinfo(address, length, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST);
  return code == 0 ? name.data() : std::string();
}

std::string interface_of(const std::string& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  std::string name;
  for (const ifaddrs* one = list; one != nullptr && name.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6))
      continue;
    if (figures(one->ifa_addr) == address) name = one->ifa_name;
  }
  ::freeifaddrs(list);
  return name;
}

/// Our own address once a datagram socket is connected; empty, and errno set, if there is no route.
std::string source_towards(const addrinfo& server) {
  const base::Fd socket(::socket(server.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (!socket || ::connect(socket.get(), server.ai_addr, server.ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
    return {};
  return figures(reinterpret_cast<const sockaddr*>(&own));
}

}  // namespace

NetworkWay way_to(const HostPort& server) {
  NetworkWay way;
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(server.host.c_str(), std::to_string(server.port).c_str(), &hints, &found);
  if (code != 0) {
    way.problem = server.host + ": " + ::gai_strerror(code);
    return way;
  }
  for (const addrinfo* one = found; one != nullptr && way.address.empty(); one = one->ai_next) {
    way.address = source_towards(*one);
    if (way.address.empty()) way.problem = server.host + ": " + std::strerror(errno);
  }
  ::freeaddrinfo(found);
  if (!way.address.empty()) way.interface = interface_of(way.address);
  return way;
}

}  // namespace keyferry::daemon
