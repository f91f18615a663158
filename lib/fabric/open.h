#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace keyferry::fabric {

struct FabricOptions {
  /// "efa-direct", "software" (libfabric's tcp from 2.0 on, net of 1.17), or "auto": efa-direct where there is a
  /// device, else software. "verbs" (verbs;ofi_rxm) is for tests on soft RoCE: no server of others speaks it, but like
  /// efa-direct it registers memory with a device, chooses the keys and wants addresses, so that these ways run
  /// somewhere.
  std::string provider = "auto";
  /// Names of domains, the first that this host has is used: interfaces ("eth0", "lo") or RDMA devices. Empty: the
  /// first that libfabric lists.
  std::vector<std::string> interfaces;
  /// Source address of the endpoints, software only; empty: that of the interface.
  std::string bind;
  /// The one libfabric to load; empty: the usual places.
  std::string library;
  /// AF_INET or AF_INET6: that of the server's RESP address, since a HELLO of another family can spoil the server's
  /// service (blob-rdma spec C3). 0: any. Software only.
  int family = 0;
};

/// Loads libfabric, opens one domain and starts its fabric thread and its registrar. Blocks for milliseconds; any
/// thread. Throws std::runtime_error with one message that names the cause and the fix, also where Keyferry was built
/// without libfabric.
std::unique_ptr<Fabric> open_fabric(const FabricOptions& options);

}  // namespace keyferry::fabric
