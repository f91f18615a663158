#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "base/clock.h"

namespace keyferry::gateway {

/// Tells when a client for which something waits makes no progress (limits.stall). Belongs to the worker's thread.
class StallWatch {
 public:
  /// Less than this within the limit is no progress.
  static constexpr std::uint64_t kLeast = 64 * base::kKiB;

  /// So many bytes were read from the client or written to it.
  void moved(std::uint64_t bytes) { moved_ += bytes; }
  /// To be asked about once a second. `unsent`: how many of the bytes written it has not taken, which was no progress.
  /// True: something has waited for it since `limit` ago, and it has moved less than kLeast.
  bool stalled(base::TimePoint now, bool waited_for, std::uint64_t unsent, base::Duration limit) {
    const std::uint64_t moved = moved_ - std::min(moved_, unsent);
    if (waited_for && moved < mark_ + kLeast && since_ != base::TimePoint{}) return now - since_ >= limit;
    mark_ = moved;
    since_ = now;
    return false;
  }

 private:
  std::uint64_t moved_ = 0;
  /// What that was when the wait began, or at the last progress, and when that was; zero: it was never asked.
  std::uint64_t mark_ = 0;
  base::TimePoint since_{};
};

}  // namespace keyferry::gateway
