#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/client_directory.h"
#include "resp/protocol.h"

namespace keyferry::gateway {

/// What becomes of CLIENT LIST, INFO, KILL, UNBLOCK on a shared listener.
struct ClientsPlan {
  enum class Way : std::uint8_t {
    /// Goes to the server as `args`.
    kForward,
    /// As kForward, and the reply is a list: translate_client_list() with `more`.
    kList,
    /// KILL of a client without a connection of its own: ClientDirectory::kill(), the reply is 1.
    kKillHere,
    /// It would show or end connections that clients share.
    kRefuse
  };
  Way way = Way::kRefuse;
  std::vector<std::string> args;
  /// Lines of clients that the server does not know.
  std::string more;
  std::uint64_t id = 0;
};

/// `self`: the client that asks, which has a connection of its own by now, or will have.
ClientsPlan plan_clients(std::span<const std::string_view> args, const ClientDirectory& directory, std::uint64_t self);

/// CLIENT TRACKING with REDIRECT, for the server: the id in it is the gateway's, that of a client that has a connection
/// of its own (a subscriber). Empty: it is sent as it is.
std::vector<std::string> redirect_args(std::span<const std::string_view> args, const ClientDirectory& directory);

/// The server's reply with the gateway's ids, without the connections that clients share.
std::string translate_client_list(std::string_view reply, std::string_view more, const ClientDirectory& directory,
                                  resp::Protocol protocol);

}  // namespace keyferry::gateway
