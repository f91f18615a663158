#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/executor.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "transfer/checked_value.h"

namespace keyferry::transfer {

/// Hashes a value that has landed on a worker or its copier, one slice a task, so that its other work comes in between:
/// a value of any size keeps it from that for one slice at a time. Made and cancelled by the engine's thread; the value
/// is the other thread's from begin() to the result.
class SlicedCheck final : public std::enable_shared_from_this<SlicedCheck> {
 public:
  /// A slice takes some 50 to 100 µs: longer than a task costs, shorter than anybody notices.
  static constexpr std::size_t kSlice = 512 * 1024;

  /// Runs there when the value is found to be right, before `done` is posted.
  using Right = base::UniqueFunction<void(const SharedValue&)>;
  using Done = base::UniqueFunction<void(base::Result<SharedValue>, base::Duration)>;

  /// `done` is posted to `engine` with the value, or with what differs, and how long that took since begin().
  static std::shared_ptr<SlicedCheck> begin(LandedValue value, std::size_t slice, base::Executor& worker,
                                            base::Executor& engine, Right right, Done done);
  /// Nobody wants the value any more: it goes back at the next slice, and `done` runs only if its result is on its way
  /// already.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  SlicedCheck(LandedValue value, std::size_t slice, base::Executor& worker, base::Executor& engine, Right right,
              Done done);

 private:
  void next();
  void step();

  /// Empty once its result is known: what was wrong gives its memory back at once.
  std::optional<Checker> checker_;
  base::Executor& worker_;
  base::Executor& engine_;
  Right right_;
  Done done_;
  const base::TimePoint began_;
  /// The engine's thread writes, the worker's reads: a hint that may come a slice late.
  std::atomic<bool> cancelled_{false};
};

}  // namespace keyferry::transfer
