#pragma once

#include <cstddef>
#include <memory>

#include "base/loop.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "upstream/channel.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// The shared channels of one worker to one node, by protocol. Belongs to the worker's thread.
class ChannelPool {
 public:
  /// `connections`: channels per protocol (upstream.connections).
  ChannelPool(base::Loop& loop, ConnectOptions options, std::size_t connections);
  ~ChannelPool();

  /// A channel that accepts commands, the least loaded; made (or replaced, with jittered back-off after failures: R39) when needed. While
  /// the back-off runs the channel given is one that still waits to dial. Shared: a session keeps its channel while replies are owed to it,
  /// so that its commands stay in order, and asks anew when nothing is.
  std::shared_ptr<Channel> pick(resp::Protocol protocol);

  struct Counts {
    std::size_t open = 0, connecting = 0, retired = 0;
  };
  Counts counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Connections lent to one command at a time: BLOB.TCP_* and whatever is too large for a shared channel. Belongs to the worker's thread.
class BulkPool {
 public:
  BulkPool(base::Loop& loop, ConnectOptions options, std::size_t most);
  ~BulkPool();

  using Callback = base::UniqueFunction<void(base::Result<std::unique_ptr<Connection>>)>;
  /// Lends an idle connection of that protocol or makes one; waits in order of arrival when `most` are out, at most options.timeout, then one error.
  void borrow(resp::Protocol protocol, Callback done);
  /// The connection goes back clean: every byte of its reply was read and nothing is owed (R13). Anything else: just destroy it, then call lost().
  void give_back(std::unique_ptr<Connection> connection);
  void lost();

  std::size_t in_use() const;
  std::size_t idle() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keyferry::upstream
