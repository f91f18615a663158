#pragma once

#include <cstddef>
#include <memory>

#include "base/loop.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "upstream/channel.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// The shared channels of one worker to one node, by protocol. Belongs to the worker's thread. Destroying it drops its
/// hold on the channels; those that sessions still hold live on.
class ChannelPool {
 public:
  /// `connections`: channels per protocol (upstream.connections), at least 1.
  ChannelPool(base::Loop& loop, ConnectOptions options, std::size_t connections);
  ~ChannelPool();

  /// A channel that accepts commands, the least loaded; made (or replaced, with jittered back-off after failures: R39)
  /// when needed. While the back-off runs the channel given is one that still waits to dial. Shared: a session keeps
  /// its channel while replies are owed to it, so that its commands stay in order, and asks anew when nothing is. A
  /// retired channel is let go here and lives by its sessions.
  std::shared_ptr<Channel> pick(resp::Protocol protocol);

  struct Counts {
    std::size_t open = 0, connecting = 0, retired = 0;
  };
  Counts counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Connections lent to one command at a time: BLOB.TCP_* and whatever is too large for a shared channel. Belongs to the
/// worker's thread. An idle connection is watched: one that the server closed is dropped, not lent. Between the
/// server's close and the loop's next turn a dead one can still be lent, and the borrower finds out at its first read.
/// Destroyed while borrowers wait: their callbacks are destroyed unrun. What is lent lives on with its borrower.
class BulkPool {
 public:
  /// `most`: connections of all protocols together, lent, idle or being dialled; at least 1.
  BulkPool(base::Loop& loop, ConnectOptions options, std::size_t most);
  ~BulkPool();

  using Callback = base::UniqueFunction<void(base::Result<std::unique_ptr<Connection>>)>;
  /// Lends an idle connection of that protocol or makes one; waits in order of arrival when `most` are out, at most
  /// options.timeout, then one error. `done` never runs inside a call to this pool. After an error nothing is owed to
  /// the pool. A dial that fails fails one borrower, or all of them if no other connection is there or under way; the
  /// next dial then waits for the back-off (R39).
  void borrow(resp::Protocol protocol, Callback done);
  /// The connection goes back clean: every byte of its reply was read and nothing is owed (R13). Anything else: just
  /// destroy it, then call lost().
  void give_back(std::unique_ptr<Connection> connection);
  void lost();

  /// Lent now.
  std::size_t in_use() const;
  std::size_t idle() const;
  /// Borrowers without a connection.
  std::size_t waiting() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace keyferry::upstream
