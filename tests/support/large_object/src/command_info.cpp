#include "arguments.h"
#include "commands.h"
#include "data_type.h"
#include "error_texts.h"
#include "replies.h"
#include "text.h"

namespace keyferry::large_object {
namespace {

constexpr const char* kTier = "dram";

Reply field_reply(std::string_view field, long long length, std::uint32_t crc) {
  if (equals_ignoring_case(field, "LEN")) {
    return [length](ValkeyModuleCtx* ctx) { ValkeyModule_ReplyWithLongLong(ctx, length); };
  }
  if (equals_ignoring_case(field, "CRC")) {
    return [crc](ValkeyModuleCtx* ctx) { ValkeyModule_ReplyWithLongLong(ctx, crc); };
  }
  if (equals_ignoring_case(field, "TIER")) {
    return [](ValkeyModuleCtx* ctx) { ValkeyModule_ReplyWithSimpleString(ctx, kTier); };
  }
  return error_reply(kBadField);
}

Reply all_fields_reply(long long length, std::uint32_t crc) {
  return [length, crc](ValkeyModuleCtx* ctx) {
    ValkeyModule_ReplyWithArray(ctx, 6);
    ValkeyModule_ReplyWithCString(ctx, "len");
    ValkeyModule_ReplyWithLongLong(ctx, length);
    ValkeyModule_ReplyWithCString(ctx, "crc");
    ValkeyModule_ReplyWithLongLong(ctx, crc);
    ValkeyModule_ReplyWithCString(ctx, "tier");
    ValkeyModule_ReplyWithSimpleString(ctx, kTier);
  };
}

}  // namespace

int blob_info(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc, const FaultPlan& plan) {
  const auto found = look_up(ctx, argv[1]);
  if (found.kind == Lookup::Kind::kMissing) {
    deliver(ctx, plan, null_reply());
  } else if (found.kind == Lookup::Kind::kOtherType) {
    deliver(ctx, plan, wrong_type_reply());
  } else {
    const auto length = static_cast<long long>(plan.announced_length.value_or(found.object->bytes().size()));
    const auto crc = found.object->crc;
    deliver(ctx, plan, argc == 2 ? all_fields_reply(length, crc) : field_reply(text_of(argv[2]), length, crc));
  }
  return VALKEYMODULE_OK;
}

}  // namespace keyferry::large_object
