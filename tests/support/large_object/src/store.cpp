#include "store.h"

#include "counters.h"
#include "data_type.h"
#include "main_thread.h"
#include "replies.h"

namespace keyferry::large_object {

Destination::Destination(ValkeyModuleCtx* ctx, ValkeyModuleString* key)
    : key_(ValkeyModule_CreateStringFromString(nullptr, key)),
      database_(ValkeyModule_GetSelectedDb(ctx)),
      id_(next_object_id()) {}

Destination::~Destination() {
  ValkeyModule_FreeString(nullptr, key_);
}

Reply Destination::store(std::shared_ptr<Buffer> buffer, std::uint32_t crc, Reply regular) {
  auto* ctx = MainThread::context();
  ValkeyModule_SelectDb(ctx, database_);
  auto object = std::make_shared<const LargeObject>(LargeObject{id_, crc, std::move(buffer)});
  switch (commit(ctx, key_, std::move(object))) {
    case Commit::kStored:
      return regular;
    case Commit::kStale:
      add(counters.stale_sets);
      return regular;
    case Commit::kOtherType:
      add(counters.failed_sets);
      return wrong_type_reply();
    case Commit::kFailed:
      break;
  }
  add(counters.failed_sets);
  return error_reply("ERR failed to set key");
}

}  // namespace keyferry::large_object
