#pragma once

#include <chrono>

namespace keyferry::base {

using Duration = std::chrono::steady_clock::duration;
using TimePoint = std::chrono::steady_clock::time_point;

/// Where time comes from, so that a test can move it by hand. Any thread may call now().
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  /// The machine's monotonic clock.
  static const Clock& steady();
};

inline double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace keyferry::base
