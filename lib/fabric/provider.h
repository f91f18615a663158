#pragma once

#include <memory>

#include "fabric/fabric.h"
#include "fabric/library.h"
#include "fabric/open.h"

namespace keyferry::fabric {

/// The entry of fi_getinfo that a Fabric is opened on, and what follows from it (address_length is still unknown).
struct Provider {
  Info info;
  Traits traits;
  /// The completion queue may have a wait object. Not on verbs: ofi_rxm leaves a closed endpoint in the queue's wait
  /// set, and the next sleep reads freed memory (seen with 1.17).
  bool can_sleep = false;
};

/// Asks libfabric with the hints of blob-rdma spec 4.1 and chooses as in 4.2. Throws std::runtime_error that names
/// cause and fix.
Provider choose_provider(const std::shared_ptr<const Library>& library, const FabricOptions& options);

}  // namespace keyferry::fabric
