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
  bool failing() const { return failures_ > 0; }
  /// Zero: dial now.
  base::Duration wait(base::TimePoint now) const;

 private:
  base::Duration most_;
  unsigned failures_ = 0;
  base::TimePoint until_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace keyferry::upstream
