#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "resp/protocol.h"
#include "upstream/connection.h"
#include "upstream/credentials.h"

namespace keyferry::gateway {

/// Who sits at the other end of a Unix socket, as the kernel says (SO_PEERCRED, SO_PEERGROUPS).
struct PeerCredentials {
  std::uint32_t uid = 0;
  /// All of its groups, the first one its own.
  std::vector<std::uint32_t> gids;

  /// Nothing where the kernel does not say.
  static std::optional<PeerCredentials> of(int socket);
};

/// A user of the server, and its password as it is now.
struct MappedUser {
  std::string user;
  std::shared_ptr<const upstream::Credentials> credentials;

  upstream::Identity identity() const { return {user, {}, 0, credentials}; }
};

/// What a listener asks of its clients and lets them do. A constant, shared by its clients; any thread.
struct ListenerRules {
  /// Nothing but AUTH and HELLO with AUTH is taken from a client until the server has agreed to one.
  bool require_auth = false;
  /// For Unix sockets: where either is given, the peer has to be in one of them.
  std::vector<std::uint32_t> allow_uids;
  std::vector<std::uint32_t> allow_gids;
  /// Whom clients act as until they say; nothing: the configuration's user.
  std::optional<MappedUser> user;
  /// The same for single peers.
  std::vector<std::pair<std::uint32_t, MappedUser>> users_by_uid;
  /// Commands that are refused here, "CONFIG" or "CONFIG SET", in capitals.
  std::vector<std::string> deny_commands;
  /// What clients speak until they say HELLO, and after RESET: the server's client-default-resp, which only servers
  /// built for tests have.
  resp::Protocol protocol = resp::Protocol::kResp2;

  bool admits(const PeerCredentials& peer) const;
  /// Whom a client acts as until it says, null for the configuration's user; lives as long as the rules. `peer`:
  /// nothing for clients that came by TCP.
  const MappedUser* user_of(const std::optional<PeerCredentials>& peer) const;
  bool denies(std::span<const std::string_view> args) const;
  /// What a client sends has to be looked at to the end.
  bool guards() const { return require_auth || user || !users_by_uid.empty() || !deny_commands.empty(); }
};

}  // namespace keyferry::gateway
