#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "transfer/backoff.h"
#include "transfer/states.h"
#include "upstream/connection.h"

namespace keyferry::transfer {

class Lane;

/// The lanes of one identity (user, database), and how attempts to make one went: what the server refuses one identity
/// says nothing of another (R54). Held by the LanePool, its lanes, and the transfers that wait for one of them.
/// Engine's thread only.
struct LaneGroup {
  LaneGroup(base::Loop& loop, upstream::Identity its_identity)
      : identity(std::move(its_identity)),
        cool_timer(loop),
        dial_backoff(std::chrono::milliseconds(50), std::chrono::seconds(5)),
        refusal_backoff(std::chrono::seconds(1), std::chrono::seconds(30)) {}
  LaneGroup(const LaneGroup&) = delete;
  LaneGroup& operator=(const LaneGroup&) = delete;

  std::size_t count(LaneState state) const { return counts[static_cast<std::size_t>(state)]; }
  std::size_t established() const {
    return count(LaneState::kIdle) + count(LaneState::kChecking) + count(LaneState::kBusy);
  }
  std::size_t coming() const { return count(LaneState::kConnecting) + count(LaneState::kHello); }
  bool is_default() const { return identity.is_default(); }

  const upstream::Identity identity;
  std::size_t counts[kLaneStates] = {};
  /// Idle lanes, the one used last at the end.
  std::vector<Lane*> idle;

  /// Attempts that failed since the last that did not.
  std::size_t failures = 0;
  std::string last_failure;
  /// Why sessions are refused, a literal; null if they are not. While it stands transfers are repeated at once.
  const char* refused = nullptr;
  bool cooling = false;
  base::Timer cool_timer;
  Backoff dial_backoff;
  Backoff refusal_backoff;
};

}  // namespace keyferry::transfer
