#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace keyferry::gateway {

/// What CLIENT LIST tells of a local client that has no connection of its own.
struct ClientFacts {
  std::uint64_t id = 0;
  std::string address;
  std::string name;
  std::string library_name;
  std::string library_version;
  std::string user;
  int database = 0;
  int protocol = 2;
  base::TimePoint since{};
};

/// All local clients of the gateway and, while they have one, the server's id of the connection of their own: ids that
/// clients see are the gateway's, ids that the server knows are its connections'. Shared by all workers: each enters
/// and removes its own clients, any reads; one lock, held for a look-up. Touched when a client comes, goes, changes its
/// name or gets a connection of its own, never for an ordinary command.
class ClientDirectory {
 public:
  /// Enters a client, or what has changed about it. `kill` ends the client; called from any thread.
  void enter(const ClientFacts& facts, std::function<void()> kill);
  void update(const ClientFacts& facts);
  void remove(std::uint64_t id);
  /// 0: it has none any more.
  void pinned(std::uint64_t id, std::uint64_t server_id);

  /// Nothing: no such client. 0: it has no connection of its own.
  std::optional<std::uint64_t> server_id(std::uint64_t id) const;
  /// 0: the connection is nobody's.
  std::uint64_t client_of(std::uint64_t server_id) const;
  /// False: no such client.
  bool kill(std::uint64_t id) const;
  /// Those without a connection of their own, by id.
  std::vector<ClientFacts> without_connection() const;

 private:
  struct Entry {
    ClientFacts facts;
    std::function<void()> kill;
    std::uint64_t server_id = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Entry> clients_;
  std::map<std::uint64_t, std::uint64_t> by_server_id_;
};

}  // namespace keyferry::gateway
