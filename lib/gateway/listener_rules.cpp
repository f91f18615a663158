#include "gateway/listener_rules.h"

#include <sys/socket.h>

#include <algorithm>

#include "gateway/command_table.h"

namespace keyferry::gateway {

std::optional<PeerCredentials> PeerCredentials::of(int socket) {
  ucred own{};
  socklen_t length = sizeof(own);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &own, &length) != 0) return std::nullopt;
  PeerCredentials peer;
  peer.uid = own.uid;
  peer.gids.push_back(own.gid);
  // The kernel says how much room it needs.
  length = 0;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, nullptr, &length) == 0 || length == 0) return peer;
  std::vector<gid_t> groups(length / sizeof(gid_t));
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length) != 0) return peer;
  groups.resize(length / sizeof(gid_t));
  peer.gids.insert(peer.gids.end(), groups.begin(), groups.end());
  return peer;
}

bool ListenerRules::admits(const PeerCredentials& peer) const {
  if (allow_uids.empty() && allow_gids.empty()) return true;
  if (std::find(allow_uids.begin(), allow_uids.end(), peer.uid) != allow_uids.end()) return true;
  return std::any_of(peer.gids.begin(), peer.gids.end(), [&](std::uint32_t gid) {
    return std::find(allow_gids.begin(), allow_gids.end(), gid) != allow_gids.end();
  });
}

const MappedUser* ListenerRules::user_of(const std::optional<PeerCredentials>& peer) const {
  if (peer) {
    for (const auto& [uid, mapped] : users_by_uid) {
      if (uid == peer->uid) return &mapped;
    }
  }
  return user ? &*user : nullptr;
}

bool ListenerRules::denies(std::span<const std::string_view> args) const {
  if (args.empty()) return false;
  return std::any_of(deny_commands.begin(), deny_commands.end(), [&](const std::string& denied) {
    const std::size_t blank = denied.find(' ');
    if (!equals_upper(args[0], denied.substr(0, blank))) return false;
    return blank == std::string::npos || (args.size() > 1 && equals_upper(args[1], denied.substr(blank + 1)));
  });
}

}  // namespace keyferry::gateway
