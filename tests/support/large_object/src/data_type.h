#pragma once

#include "large_object.h"
#include "valkey_api.h"

namespace keyferry::large_object {

/// What a key turned out to hold.
struct Lookup {
  enum class Kind { kMissing, kOtherType, kLargeObject };

  Kind kind = Kind::kMissing;
  LargeObjectRef object;  // only with kLargeObject
};

/// How a store ended. Stale: a SET that began later is there already, which the client of this one is told as OK.
enum class Commit { kStored, kStale, kOtherType, kFailed };

/// Creates the data type "largeob-k" (blob-rdma spec 1.1). Only during OnLoad.
bool register_data_type(ValkeyModuleCtx* ctx);

/// Main thread. The reference keeps the bytes whatever happens to the key afterwards.
Lookup look_up(ValkeyModuleCtx* ctx, ValkeyModuleString* key);

/// Puts the object under the key of the context's database; an existing large object and its TTL go. Main thread.
Commit commit(ValkeyModuleCtx* ctx, ValkeyModuleString* key, LargeObjectRef object);

}  // namespace keyferry::large_object
