#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "upstream/channel.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// How a pool shares a number of connections with another (limits.upstream_connections).
struct SharedLimit {
  /// How many it may have now; empty: no such limit.
  std::function<std::size_t()> room{};
  /// Has the other give up one that is idle. False: it has none.
  std::function<bool()> make_way{};
};

/// The shared channels of one worker to one node, by identity and protocol (R54). Where the limit leaves no room, the
/// identity whose channels were used longest ago and owe nothing gives way, then the pool that shares the limit; while
/// nobody can, a channel waits to dial. Belongs to the worker's thread.
/// Destroying it drops its hold on the channels; those that sessions still hold live on.
class ChannelPool {
 public:
  static constexpr base::Duration kIdle = std::chrono::seconds(10);

  /// `connections`: channels per identity and protocol (upstream.connections), at least 1.
  ChannelPool(base::Loop& loop, ConnectOptions options, std::size_t connections, SharedLimit limit = {});
  ~ChannelPool();

  /// A channel of that identity that accepts commands, the least loaded of those that are not late (Channel::late), of
  /// all if all are; made (or replaced, with jittered back-off after failures: R39) when needed. While the back-off
  /// runs the channel given is one that still waits to dial. Once dials have failed for options.timeout it refuses
  /// commands until it is connected, instead of letting each wait as long again (R42, R128). Shared: a session keeps
  /// its channel while replies are owed to it, so that its commands stay in order, and asks anew when nothing is. A
  /// retired channel is let go here and lives by its sessions.
  /// So that no read waits for a write that the server holds back, a read takes a channel that owes none, and writes
  /// stay on those that owe some; where these are very late and one for reads would not be left, one more than
  /// `connections` is made, until none is late any more.
  std::shared_ptr<Channel> pick(const Identity& identity, resp::Protocol protocol, Access access = Access::kReads);
  std::shared_ptr<Channel> pick(resp::Protocol protocol) { return pick(Identity{}, protocol); }
  /// A write may be held back now: one is on a late channel of these.
  bool holds_writes(const Identity& identity, resp::Protocol protocol) const;
  /// Closes the channels of other identities than the configuration's that nobody has used for kIdle.
  /// Logs channels in again whose password is not current any more (R58), and lets those dial that there is room for.
  void trim(base::TimePoint now);
  /// Retires the channels that may lead to the wrong server by now (Whereabouts).
  void review();
  /// Closes the channels of the identity that was idle longest. False: all are in use.
  bool give_way();
  /// Connections, or what is to be one: not those that wait for room.
  std::size_t total() const;
  /// To be called once a second: review(). Retires the channel beyond `connections` if none is late. Ends channels
  /// whose connection is dead without having been closed (SilenceCheck). Where RDMA has failed and a probe is due,
  /// dials one (R66): when it is well again channels of another carrier are retired at the next pick().
  void tick(base::TimePoint now);

  struct Counts {
    std::size_t open = 0, connecting = 0, retired = 0;
    /// open and retired, by carrier.
    ByCarrier by_carrier{};
  };
  Counts counts() const;

  struct Listed {
    std::string user;
    int database = 0;
    resp::Protocol protocol = resp::Protocol::kResp2;
    std::shared_ptr<Channel> channel;
  };
  /// All that live, those that wait to dial too. An empty user is the configuration's. The protocol of one that takes
  /// nothing new is not known here any more.
  std::vector<Listed> list() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a LendingPool is for.
struct LendingOptions {
  /// Connections of all identities together: lent, idle or being dialled; at least 1.
  std::size_t most = 1;
  /// How long a borrower waits for one when all are out; zero: as long as dialling may take.
  base::Duration wait{};
  /// As messages name one of them.
  std::string what = "bulk connection";
  /// The limit's name for messages; empty: none is named.
  std::string limit;
  /// A limit besides `most`; one connection is always its.
  SharedLimit shared{};
};

/// Connections lent to one borrower at a time: for BLOB.TCP_* and whatever is too large for a shared channel, and to
/// clients whose state needs a connection of its own (R13-R15). Belongs to the worker's thread. An idle connection is
/// watched: one that the server closed is dropped, not lent. Between the server's close and the loop's next turn a dead
/// one can still be lent, and the borrower finds out at its first read. Destroyed while borrowers wait: their callbacks
/// are destroyed unrun. What is lent lives on with its borrower.
class LendingPool {
 public:
  static constexpr base::Duration kIdle = std::chrono::seconds(5);

  LendingPool(base::Loop& loop, ConnectOptions connect, LendingOptions options);
  LendingPool(base::Loop& loop, ConnectOptions connect, std::size_t most);
  ~LendingPool();

  using Callback = base::UniqueFunction<void(base::Result<std::unique_ptr<Connection>>)>;
  /// Lends an idle connection of that identity and protocol or makes one; waits in order of arrival when `most` are
  /// out, then one error. `done` never runs inside a call to this pool. After an error nothing is owed to the pool. A
  /// dial that fails fails one borrower, or all of them if no other connection is there or under way; the next dial
  /// then waits for the back-off (R39).
  void borrow(const Identity& identity, resp::Protocol protocol, Callback done);
  void borrow(resp::Protocol protocol, Callback done) { borrow(Identity{}, protocol, std::move(done)); }
  /// A connection made for this borrower, without a handshake: nobody has logged in on it. It does not go back: lost().
  void borrow_bare(Callback done);
  /// The connection goes back clean: every byte of its reply was read and nothing is owed (R13). Anything else: just
  /// destroy it, then call lost() with what carried it.
  void give_back(std::unique_ptr<Connection> connection);
  /// As above, but its state may differ from a new one's: it is reset first, and counts as lent until that has ended.
  void give_back_after_reset(std::unique_ptr<Connection> connection);
  void lost(Carrier carrier);
  /// A connection lent by `from` counts as lent by this pool from now on. False: this pool has none left.
  bool take_over_from(LendingPool& from, Carrier carrier);
  /// Closes connections that were idle for kIdle.
  void trim(base::TimePoint now);
  /// Closes the one that was idle longest. False: none is idle.
  bool give_way();
  /// Lent, idle, or being dialled.
  std::size_t total() const;

  /// Lent now.
  std::size_t in_use() const;
  std::size_t idle() const;
  ByCarrier in_use_by_carrier() const;
  ByCarrier idle_by_carrier() const;
  /// Borrowers without a connection.
  std::size_t waiting() const;
  /// The server's ids of the idle ones.
  std::vector<std::uint64_t> idle_ids() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace keyferry::upstream
