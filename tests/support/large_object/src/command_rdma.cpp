#include "arguments.h"
#include "commands.h"
#include "counters.h"
#include "data_type.h"
#include "error_texts.h"
#include "module_state.h"
#include "replies.h"
#include "store.h"
#include "text.h"
#include "transfer.h"

namespace keyferry::large_object {
namespace {

SessionRef session_of(ValkeyModuleCtx* ctx) {
  const auto found = state().sessions.find(ValkeyModule_GetClientId(ctx));
  return found == state().sessions.end() ? nullptr : found->second;
}

Transfer::Request request_for(ValkeyModuleCtx* ctx, Operation::Kind kind, SessionRef session,
                              std::vector<Triple> triples, const FaultPlan& plan) {
  Transfer::Request request;
  request.kind = kind;
  request.session = std::move(session);
  request.triples = std::move(triples);
  request.chunk = static_cast<std::size_t>(state().settings.chunk_size);
  request.shuffle = state().settings.shuffle != 0;
  request.delay = plan.delay_before_rma;
  request.mid_transfer = plan.mid_transfer;
  request.client_id = ValkeyModule_GetClientId(ctx);
  return request;
}

// The one reply of a transfer: an early error uses it up, so that the end of the pieces says nothing any more.
class OneReply {
 public:
  OneReply(BlockedCommandRef command, const FaultPlan& plan) : command_(std::move(command)), plan_(plan) {}

  void send(Reply reply) {
    if (!command_) return;
    deliver(command_, plan_, std::move(reply));
    command_.reset();
  }

  [[nodiscard]] bool sent() const { return !command_; }

 private:
  BlockedCommandRef command_;
  FaultPlan plan_;
};

std::uint32_t reported_crc(const FaultPlan& plan, std::uint32_t crc) {
  return plan.checksum.value_or(plan.spoil_checksum ? ~crc : crc);
}

// Null key or other type: the reply. Otherwise nothing, and the object is in `object`.
std::optional<Reply> look_up_object(ValkeyModuleCtx* ctx, ValkeyModuleString* key, LargeObjectRef& object) {
  auto found = look_up(ctx, key);
  add(found.kind == Lookup::Kind::kLargeObject ? counters.hits : counters.misses);
  if (found.kind == Lookup::Kind::kMissing) return null_reply();
  if (found.kind == Lookup::Kind::kOtherType) return wrong_type_reply();
  object = std::move(found.object);
  return std::nullopt;
}

// Everything that is checked before a GET starts; the reply that ends it, or nothing.
std::optional<Reply> check_get(ValkeyModuleCtx* ctx, Arguments words, std::vector<Triple>& triples, SessionRef& session,
                               LargeObjectRef& object) {
  const bool lookup_first = state().settings.order() == CheckOrder::kLookupFirst;
  if (lookup_first) {
    if (auto reply = look_up_object(ctx, words[1], object)) return reply;
  }
  if (const char* problem = parse_triples(words.subspan(2), triples); problem != nullptr) return error_reply(problem);
  session = session_of(ctx);
  if (!session) return error_reply(kNoSession);
  if (!lookup_first) {
    if (auto reply = look_up_object(ctx, words[1], object)) return reply;
  }
  if (capacity(triples) < object->bytes().size()) return error_reply(kWindowTooSmall);
  return std::nullopt;
}

struct SetArguments {
  std::uint64_t length = 0;
  std::optional<std::uint32_t> crc;
  std::vector<Triple> triples;
};

const char* parse_set(Arguments words, SetArguments& set) {
  const auto length = parse_unsigned(text_of(words[2]));
  if (!length) return kBadLength;
  set.length = *length;
  std::size_t first_triple = 3;
  if (state().settings.accept_crc != 0 && words.size() > 4 && equals_ignoring_case(text_of(words[3]), "CRC")) {
    const auto crc = parse_unsigned(text_of(words[4]), UINT32_MAX);
    if (!crc) return kBadChecksum;
    set.crc = static_cast<std::uint32_t>(*crc);
    first_triple = 5;
  }
  return parse_triples(words.subspan(first_triple), set.triples);
}

// Everything that is checked before a SET starts; the reply that ends it, or nothing.
std::optional<Reply> check_set(ValkeyModuleCtx* ctx, Arguments words, SetArguments& set, SessionRef& session,
                               std::shared_ptr<Buffer>& buffer) {
  const auto& settings = state().settings;
  if (const char* problem = parse_set(words, set); problem != nullptr) return error_reply(problem);
  session = session_of(ctx);
  if (!session) return error_reply(kNoSession);
  if (set.length == 0) return error_reply(kZeroLength);
  if (set.length > static_cast<std::uint64_t>(settings.max_object_size)) return error_reply(kTooLarge);
  if (capacity(set.triples) < set.length) return error_reply(kWindowTooSmall);
  if (look_up(ctx, words[1]).kind == Lookup::Kind::kOtherType) return wrong_type_reply();
  buffer = Buffer::allocate(static_cast<std::size_t>(set.length), static_cast<std::uint64_t>(settings.dram_maxmemory));
  if (!buffer) {
    add(counters.pool_exhausted);
    return error_reply(kOutOfMemory);
  }
  return std::nullopt;
}

}  // namespace

int rdma_get(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc, const FaultPlan& plan) {
  std::vector<Triple> triples;
  SessionRef session;
  LargeObjectRef object;
  if (auto refused = check_get(ctx, Arguments(argv, static_cast<std::size_t>(argc)), triples, session, object)) {
    deliver(ctx, plan, std::move(*refused));
    return VALKEYMODULE_OK;
  }
  auto command = BlockedCommand::block(ctx);
  if (!command) return VALKEYMODULE_OK;

  const auto window = capacity(triples);
  auto request = request_for(ctx, Operation::Kind::kWrite, std::move(session), std::move(triples), plan);
  request.object = object;
  auto reply = std::make_shared<OneReply>(std::move(command), plan);
  Transfer::start(
      *state().fabric, *state().pool, std::move(request), [plan, reply, object, window](const TransferResult& result) {
        if (result.kind == TransferResult::Kind::kFinished) {
          reply->send(get_reply(plan.shape, object->bytes().size(), reported_crc(plan, object->crc), window));
        } else if (!reply->sent()) {
          add(counters.write_errors);
          reply->send(error_reply(kWriteFailed));
        }
      });
  return VALKEYMODULE_OK;
}

int rdma_set(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc, const FaultPlan& plan) {
  SetArguments set;
  SessionRef session;
  std::shared_ptr<Buffer> buffer;
  if (auto refused = check_set(ctx, Arguments(argv, static_cast<std::size_t>(argc)), set, session, buffer)) {
    deliver(ctx, plan, std::move(*refused));
    return VALKEYMODULE_OK;
  }
  auto command = BlockedCommand::block(ctx);
  if (!command) return VALKEYMODULE_OK;

  auto request = request_for(ctx, Operation::Kind::kRead, std::move(session), std::move(set.triples), plan);
  request.buffer = buffer;
  auto destination = std::make_shared<Destination>(ctx, argv[1]);
  auto reply = std::make_shared<OneReply>(std::move(command), plan);
  Transfer::start(
      *state().fabric, *state().pool, std::move(request),
      [plan, reply, destination, buffer, crc = set.crc](const TransferResult& result) {
        if (reply->sent()) return;
        if (result.kind != TransferResult::Kind::kFinished) {
          add(counters.read_errors);
          add(counters.failed_sets);
          reply->send(error_reply(kReadFailed));
        } else if (crc && *crc != result.crc) {
          add(counters.checksum_mismatches);
          add(counters.failed_sets);
          reply->send(error_reply(kChecksumDiffers));
        } else {
          reply->send(destination->store(buffer, result.crc, set_reply(plan.shape, buffer->bytes().size())));
        }
      });
  return VALKEYMODULE_OK;
}

}  // namespace keyferry::large_object
