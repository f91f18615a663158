#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace keyferry::upstream {

/// The RDMA devices that libibverbs can drive here, by name. One that the kernel has and this leaves out has no
/// user-space driver (Debian: ibverbs-providers), or its node in /dev/infiniband is missing. Any thread; opens nothing.
base::Result<std::vector<std::string>> verbs_devices();

}  // namespace keyferry::upstream
