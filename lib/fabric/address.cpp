#include "fabric/address.h"

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace keyferry::fabric {

namespace {

/// GID and queue pair number.
constexpr std::size_t kEfaIdentity = 18;

bool is_socket_format(std::uint32_t format) {
  return format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

sa_family_t family(std::string_view address) {
  sa_family_t value = 0;
  std::memcpy(&value, address.data(), sizeof(value));
  return value;
}

std::string family_name(sa_family_t value) {
  if (value == AF_INET) return "IPv4";
  if (value == AF_INET6) return "IPv6";
  return "family " + std::to_string(value);
}

bool all_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
}

}  // namespace

std::string address_mismatch(std::string_view peer, std::string_view own, std::uint32_t format) {
  if (peer.size() != own.size()) {
    return "keyferry: the server's fabric address has " + std::to_string(peer.size()) + " bytes, this fabric's have " +
           std::to_string(own.size()) +
           "; both sides must use the same provider and family (fabric.provider, fabric.interfaces)";
  }
  if (is_socket_format(format) && family(peer) != family(own)) {
    return "keyferry: the server's fabric address is of " + family_name(family(peer)) + ", this fabric's are of " +
           family_name(family(own)) + "; choose an interface of the server's family (fabric.interfaces, fabric.bind)";
  }
  return "";
}

bool unreachable(std::string_view address, std::uint32_t format) {
  if (format == FI_SOCKADDR_IN && address.size() == sizeof(sockaddr_in))
    return all_zero(address.substr(2, 2)) || all_zero(address.substr(4, 4));
  if (format == FI_SOCKADDR_IN6 && address.size() == sizeof(sockaddr_in6))
    return all_zero(address.substr(2, 2)) || all_zero(address.substr(8, 16));
  return false;
}

bool same_endpoint(std::string_view first, std::string_view second, std::uint32_t format) {
  if (is_socket_format(format)) return first == second;
  return first.substr(0, kEfaIdentity) == second.substr(0, kEfaIdentity);
}

}  // namespace keyferry::fabric
