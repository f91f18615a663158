#pragma once

#include "valkey_api.h"

namespace keyferry::large_object {

/// Makes INFO largeobj print the counters (blob-rdma spec 7.3), traffic under its old (efa_) and its new (rdma_) names.
/// Only during OnLoad.
bool register_info(ValkeyModuleCtx* ctx);

}  // namespace keyferry::large_object
