#pragma once

#include <chrono>
#include <functional>

#include "valkey_api.h"

namespace keyferry::large_object {

/// Work for the server's main thread, which alone may touch the keyspace, sessions, faults and settings.
class MainThread {
 public:
  using Task = std::function<void()>;

  /// Only during OnLoad.
  static void prepare(ValkeyModuleCtx* ctx);

  /// A context of the module for use outside a command; its database is whatever the last user selected. Main thread.
  static ValkeyModuleCtx* context();

  /// Runs the task soon. Any thread; tasks of one thread run in order.
  static void post(Task task);

  /// Runs the task after `delay`, at once (still later than the caller) if that is 0. Main thread.
  static void after(std::chrono::milliseconds delay, Task task);
};

}  // namespace keyferry::large_object
