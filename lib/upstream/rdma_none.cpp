#include "upstream/rdma_probe.h"
#include "upstream/rdma_transport.h"

// Stands in where the program is built without KEYFERRY_RDMA.

namespace keyferry::upstream {

base::Result<std::unique_ptr<Transport>> make_rdma_transport(base::Loop&, const RdmaSettings&) {
  return base::Error{"this program was built without RDMA (cmake -D KEYFERRY_RDMA=ON)"};
}

base::Result<std::vector<std::string>> verbs_devices() {
  return base::Error{"this program was built without RDMA (cmake -D KEYFERRY_RDMA=ON)"};
}

}  // namespace keyferry::upstream
