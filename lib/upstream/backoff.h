#pragma once

#include <algorithm>
#include <random>

#include "base/clock.h"

namespace keyferry::upstream {

/// When to dial again after failures: 50 ms doubling up to 2 s, jittered so that many gateways do not come back in step
/// (R39). Each wait is drawn from the upper half of its range. One owner at a time.
class Backoff {
 public:
  static constexpr base::Duration kFirst = std::chrono::milliseconds(50);
  static constexpr base::Duration kLongest = std::chrono::seconds(2);

  /// `most` bounds kLongest further: a wait has to leave time for dialling.
  explicit Backoff(base::Duration most) : most_(std::min(most, kLongest)) {}

  /// A dial failed at `when`. Failures of dials that were under way together count once.
  void failed(base::TimePoint when);
  void succeeded() { failures_ = 0; }
  /// It was well at `when`; dials may have failed since.
  void succeeded_at(base::TimePoint when) {
    if (when >= last_) failures_ = 0;
  }
  bool failing() const { return failures_ > 0; }
  /// Dials have failed for `least` and one did lately: the node is taken for down. Without a recent attempt nothing is
  /// known, and nobody is turned away for it (R42, R128).
  bool down(base::TimePoint now, base::Duration least) const {
    return failing() && now - first_ >= least && now - last_ <= 2 * kLongest;
  }
  /// Zero: dial now.
  base::Duration wait(base::TimePoint now) const;

 private:
  base::Duration most_;
  unsigned failures_ = 0;
  base::TimePoint until_;
  base::TimePoint first_;
  base::TimePoint last_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace keyferry::upstream
