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
  /// The completion queue may have a wait object. Not on verbs: with one, 1.17's ofi_rxm died in fi_cq_sread after an
  /// endpoint was closed; why is not known.
  bool can_sleep = false;
};

/// Asks libfabric with the hints of blob-rdma spec 4.1 and chooses as in 4.2. Throws std::runtime_error that names
/// cause and fix.
Provider choose_provider(const std::shared_ptr<const Library>& library, const FabricOptions& options);

}  // namespace keyferry::fabric
