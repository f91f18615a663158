#pragma once

#include "base/unique_function.h"

namespace keyferry::base {

/// A thread that takes work. All of Keyferry's threads are reached by this one door: a value is moved in, nothing is
/// shared.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Any thread may call. The task runs later on the executor's own thread, in the order of the calls of one caller; it
  /// never runs inside post(). Once the executor has stopped, tasks are destroyed unrun.
  virtual void post(Task task) = 0;
};

}  // namespace keyferry::base
