#include <cstring>

#include "arguments.h"
#include "commands.h"
#include "counters.h"
#include "crc32c.h"
#include "data_type.h"
#include "error_texts.h"
#include "main_thread.h"
#include "module_state.h"
#include "replies.h"
#include "store.h"

namespace keyferry::large_object {
namespace {

// A client's bulk string, kept while a worker copies it. The reference count is not atomic: made and destroyed on the
// main thread.
class HeldString {
 public:
  explicit HeldString(ValkeyModuleString* string)
      : string_(ValkeyModule_HoldString(nullptr, string)), text_(text_of(string_)) {}
  ~HeldString() { ValkeyModule_FreeString(nullptr, string_); }
  HeldString(const HeldString&) = delete;
  HeldString& operator=(const HeldString&) = delete;

  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  ValkeyModuleString* string_;
  std::string_view text_;
};

std::uint32_t fill(Buffer& buffer, std::string_view text) {
  std::memcpy(buffer.bytes().data(), text.data(), text.size());
  return crc32c(buffer.bytes());
}

std::optional<Reply> check_set(ValkeyModuleCtx* ctx, Arguments words, std::shared_ptr<Buffer>& buffer) {
  const auto& settings = state().settings;
  const auto size = text_of(words[2]).size();
  if (size == 0) return error_reply(kZeroLength);
  if (size > static_cast<std::uint64_t>(settings.max_object_size)) return error_reply(kTooLarge);
  if (look_up(ctx, words[1]).kind == Lookup::Kind::kOtherType) return wrong_type_reply();
  buffer = Buffer::allocate(size, static_cast<std::uint64_t>(settings.dram_maxmemory));
  if (!buffer) {
    add(counters.pool_exhausted);
    return error_reply(kOutOfMemory);
  }
  return std::nullopt;
}

}  // namespace

int tcp_set(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc, const FaultPlan& plan) {
  std::shared_ptr<Buffer> buffer;
  if (auto refused = check_set(ctx, Arguments(argv, static_cast<std::size_t>(argc)), buffer)) {
    deliver(ctx, plan, std::move(*refused));
    return VALKEYMODULE_OK;
  }
  auto destination = std::make_shared<Destination>(ctx, argv[1]);
  if (replays_aof(ctx)) {
    const auto crc = fill(*buffer, text_of(argv[2]));
    destination->store(std::move(buffer), crc, ok_reply())(ctx);
    return VALKEYMODULE_OK;
  }
  auto command = BlockedCommand::block(ctx);
  if (!command) return VALKEYMODULE_OK;
  // Moved through the worker back to the main thread, where the string may be given back.
  auto value = std::make_unique<HeldString>(argv[2]);
  state().pool->run([plan, command = std::move(command), destination = std::move(destination),
                     buffer = std::move(buffer), held = std::shared_ptr<HeldString>(std::move(value))]() mutable {
    const auto crc = fill(*buffer, held->text());
    MainThread::post([plan, crc, command = std::move(command), destination = std::move(destination),
                      buffer = std::move(buffer),
                      held = std::move(held)] { deliver(command, plan, destination->store(buffer, crc, ok_reply())); });
  });
  return VALKEYMODULE_OK;
}

int tcp_get(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int, const FaultPlan& plan) {
  const auto found = look_up(ctx, argv[1]);
  add(found.kind == Lookup::Kind::kLargeObject ? counters.hits : counters.misses);
  if (found.kind != Lookup::Kind::kLargeObject) {
    deliver(ctx, plan, found.kind == Lookup::Kind::kMissing ? null_reply() : wrong_type_reply());
    return VALKEYMODULE_OK;
  }
  auto command = BlockedCommand::block(ctx);
  if (!command) return VALKEYMODULE_OK;
  command->prepare_thread_reply();
  state().pool->run([plan, command = std::move(command), object = found.object]() mutable {
    command->reply_from_thread([&object](ValkeyModuleCtx* reply) {
      const auto bytes = object->bytes();
      ValkeyModule_ReplyWithStringBuffer(reply, reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    // The bytes are in the reply already; deliver() decides when, and whether, the client gets it.
    MainThread::post([plan, command = std::move(command)] { deliver(command, plan, [](ValkeyModuleCtx*) {}); });
  });
  return VALKEYMODULE_OK;
}

}  // namespace keyferry::large_object
