#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace keyferry::gateway {

/// A command that took long, and what it waited for. Its arguments are not kept: they are somebody's data.
struct SlowCommand {
  /// Of the wall, when its reply was taken.
  std::chrono::system_clock::time_point when{};
  /// The gateway's id.
  std::uint64_t client = 0;
  /// As the command table has it; "other" for what that does not know.
  std::string_view command;
  std::string_view command_class;
  /// Until it was handed to a connection to the server: behind its client's earlier commands, for a connection, for
  /// memory; of a large SET, for its value to come, too.
  base::Duration queue{};
  /// Until its reply was complete here.
  base::Duration upstream{};
  /// Until its client had taken the reply, behind the earlier ones.
  base::Duration delivery{};

  base::Duration total() const { return queue + upstream + delivery; }
};

/// The latest commands that took `from` or longer (admin.slow, admin.slow_kept). All workers write, the admin thread
/// reads, under a lock held for one entry or a copy of all.
class SlowLog {
 public:
  /// `kept` 0: off.
  SlowLog(base::Duration from, std::size_t kept) : from_(from), kept_(kept) {}

  bool on() const { return kept_ != 0; }
  base::Duration from() const { return from_; }
  void add(const SlowCommand& command);
  /// The latest one first.
  std::vector<SlowCommand> latest() const;

 private:
  const base::Duration from_;
  const std::size_t kept_;
  mutable std::mutex mutex_;
  std::deque<SlowCommand> commands_;
};

}  // namespace keyferry::gateway
