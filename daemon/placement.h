#pragma once

#include <string>
#include <vector>

#include "daemon/options.h"

namespace keyferry::daemon {

/// Where worker threads may run. A plain value.
struct Placement {
  /// CPUs of each worker, by its index; empty: wherever the process may.
  std::vector<std::vector<unsigned>> workers;
  /// For the log: what was decided and why.
  std::string text;
};

/// CPUs of the NUMA node that a NIC hangs on, by the name of its interface or RDMA device; empty if the machine has one
/// node only, or if nobody knows where the NIC is (a virtual one, say). `xml`: a topology in hwloc's format instead of
/// this machine's.
std::vector<unsigned> cpus_near(const std::string& nic, const std::string& xml = "");

/// What placement.workers comes to. `nics`: names in the order of preference, of which the first that hwloc knows
/// counts for auto; `allowed`: CPUs of the process's affinity, in order. Throws std::runtime_error where a CPU is named
/// that the process may not use.
Placement place_workers(const Options& options, const std::vector<std::string>& nics,
                        const std::vector<unsigned>& allowed, const std::string& xml = "");

}  // namespace keyferry::daemon
