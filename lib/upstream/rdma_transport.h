#pragma once

#include <memory>

#include "base/result.h"
#include "upstream/rdma_settings.h"
#include "upstream/transport.h"

namespace keyferry::upstream {

/// Valkey over RDMA (valkey-over-rdma spec): dials the endpoint's address at settings.port. Inside of this folder. The
/// error says that this program was built without it (KEYFERRY_RDMA).
base::Result<std::unique_ptr<Transport>> make_rdma_transport(base::Loop& loop, const RdmaSettings& settings);

}  // namespace keyferry::upstream
