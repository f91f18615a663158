#pragma once

#include <algorithm>
#include <random>

#include "base/clock.h"

namespace keyferry::transfer {

/// Growing waits between attempts, each shortened by up to half at random so that many gateways don't dial a server at
/// once (R39).
class Backoff {
 public:
  Backoff(base::Duration first, base::Duration most)
      : first_(first), most_(most), next_(first), random_(std::random_device()()) {}

  base::Duration next() {
    const base::Duration full = next_;
    next_ = std::min(next_ * 2, most_);
    return std::chrono::duration_cast<base::Duration>(full * std::uniform_real_distribution<>(0.5, 1.0)(random_));
  }
  void reset() { next_ = first_; }

 private:
  base::Duration first_;
  base::Duration most_;
  base::Duration next_;
  std::minstd_rand random_;
};

}  // namespace keyferry::transfer
