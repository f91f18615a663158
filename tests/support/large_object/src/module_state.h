#pragma once

#include <memory>
#include <string>

#include "fabric.h"
#include "faults.h"
#include "settings.h"
#include "worker_pool.h"

namespace keyferry::large_object {

/// Everything the module keeps between commands, besides counters and objects. Main thread.
struct ModuleState {
  Settings settings;
  /// Null: BLOB.TCP_* only, for the reason in fabric_problem.
  std::unique_ptr<Fabric> fabric;
  std::string fabric_problem;
  Sessions sessions;
  Faults faults;
  std::unique_ptr<WorkerPool> pool;
};

/// The one state of the process. Never destroyed: threads and replies may use it until the process is gone.
ModuleState& state();

}  // namespace keyferry::large_object
