#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"

namespace keyferry::gateway {

struct CommandRow;

/// What CLIENT LIST tells of a client's doings. The client's worker writes, any worker reads; each number stands for
/// itself, so relaxed order is enough.
struct ClientActivity {
  std::atomic<base::TimePoint> last{base::Clock::steady().now()};
  /// The command begun last; null if the table does not know it, or before the first.
  std::atomic<const CommandRow*> command{nullptr};
  std::atomic<std::uint64_t> bytes_in{0};
  std::atomic<std::uint64_t> bytes_out{0};
  std::atomic<std::uint64_t> commands{0};
  /// Bytes of replies and pushes that wait here for the client to take them.
  std::atomic<std::uint64_t> output{0};
};

/// What the gateway knows of a local client, for CLIENT LIST.
struct ClientFacts {
  std::uint64_t id = 0;
  /// host:port where it came from; empty for one that came by a Unix socket.
  std::string peer;
  /// host:port where it came to, for a Unix socket its path and :0. Shared by the clients that came there.
  std::shared_ptr<const std::string> local_address{};
  bool unix_socket = false;
  /// It knows itself by the server's id of its connection, which it keeps for life.
  bool dedicated = false;
  std::string name;
  std::string library_name;
  std::string library_version;
  std::string user;
  int database = 0;
  int protocol = 2;
  /// Whom it sends invalidations to (CLIENT TRACKING with REDIRECT): the gateway's id, also of one that is gone.
  std::uint64_t redirect = 0;
  base::TimePoint since{};
  std::shared_ptr<const ClientActivity> activity{};

  /// Where it came from, as the server has it: of a Unix socket nothing but that is known.
  const std::string& address() const { return unix_socket ? *local_address : peer; }
};

/// A client, and the server's id of the connection of its own; 0 if it has none now.
struct ListedClient {
  ClientFacts facts;
  std::uint64_t server_id = 0;
  /// When that became its own.
  base::TimePoint pinned_at{};
};

/// What others may ask of a client, on its own thread.
class ReachableClient {
 public:
  /// Ends it.
  virtual void kill() = 0;
  /// Gives it a connection of its own, if it can. Calls `done` when it has one, can't have one or is gone.
  virtual void attach(std::function<void()> done) = 0;

 protected:
  ~ReachableClient() = default;
};

/// All local clients of the gateway and, while they have one, the server's id of the connection of their own: ids that
/// clients see are the gateway's, ids that the server knows are its connections'. Shared by all workers: each enters
/// and removes its own clients, any reads; one lock, held for a look-up or a copy of the list. Touched when a client
/// comes, goes, changes its name or gets a connection of its own, never for an ordinary command.
class ClientDirectory {
 public:
  /// Enters a client, which belongs to the thread of `home`.
  void enter(const ClientFacts& facts, base::Executor& home, std::weak_ptr<ReachableClient> client);
  /// What has changed about it.
  void update(const ClientFacts& facts);
  void remove(std::uint64_t id);
  /// 0: it has none any more.
  void pinned(std::uint64_t id, std::uint64_t server_id);

  /// Nothing: no such client. 0: it has no connection of its own.
  std::optional<std::uint64_t> server_id(std::uint64_t id) const;
  /// 0: the connection is nobody's.
  std::uint64_t client_of(std::uint64_t server_id) const;
  /// The client is on no list any more, and `done` is called on its thread when it has ended. False: no such client,
  /// and no call.
  bool kill(std::uint64_t id, std::function<void()> done);
  /// `done` is called there when the client has a connection of its own, or can't have one. False: as above.
  bool attach(std::uint64_t id, std::function<void()> done) const;
  /// All, by id.
  std::vector<ListedClient> all() const;

 private:
  /// Where a client is reached. It is looked up on its own thread alone, so that no other one lets go of it last.
  struct Door {
    base::Executor* home;
    std::weak_ptr<ReachableClient> client;
  };
  struct Entry {
    ListedClient client;
    Door door;
  };

  void forget_server_id(const ListedClient& client);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Entry> clients_;
  std::map<std::uint64_t, std::uint64_t> by_server_id_;
};

}  // namespace keyferry::gateway
