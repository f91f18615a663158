#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "upstream/channel.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// What the server says of a connection that owes a reply and is silent.
enum class SilenceVerdict {
  /// It would not say: BUSY, no permission, something else.
  kNotTold,
  /// It has no such connection: nothing will ever come.
  kGone,
  /// It is waiting on purpose (CLIENT PAUSE, a module that blocks its client).
  kHeld,
  /// It is there, nothing holds it, and still no byte comes.
  kStuck,
};
/// `reply`: the whole one to CLIENT LIST ID.
SilenceVerdict judge_silence(std::string_view reply);

/// Finds shared channels whose connection is dead without having been closed (a failover that moved the address, a
/// firewall that forgot it), which TCP alone notices after a quarter of an hour. A channel that has owed a reply
/// without a byte for kSilent is asked after on a connection of its own; only an answer there ends it (R35, R134): an
/// unreachable or busy server ends nothing, and neither does one that holds the command on purpose. One at a time.
/// Belongs to the worker's thread.
class SilenceCheck {
 public:
  static constexpr base::Duration kSilent = std::chrono::seconds(5);

  /// `silent`: as kSilent, for tests.
  SilenceCheck(base::Loop& loop, ConnectOptions options, base::Duration silent = kSilent);
  ~SilenceCheck();

  /// To be called every second or so with all channels of the node.
  void look(const std::vector<std::shared_ptr<Channel>>& channels, base::TimePoint now);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace keyferry::upstream
