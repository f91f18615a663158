#include <stdexcept>

#include "fabric/open.h"

namespace keyferry::fabric {

std::unique_ptr<Fabric> open_fabric(const FabricOptions&) {
  throw std::runtime_error(
      "keyferry: built without libfabric; build with -DKEYFERRY_FABRIC=ON, or set fabric.provider to off");
}

}  // namespace keyferry::fabric
