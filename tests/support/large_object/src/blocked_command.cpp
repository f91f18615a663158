#include "blocked_command.h"

#include <unordered_map>

#include "error_texts.h"

namespace keyferry::large_object {
namespace {

std::unordered_map<std::uint64_t, ValkeyModuleBlockedClient*>& silent_clients() {
  static auto* clients = new std::unordered_map<std::uint64_t, ValkeyModuleBlockedClient*>;
  return *clients;
}

int write_reply(ValkeyModuleCtx* ctx, ValkeyModuleString**, int) {
  if (const auto* reply = static_cast<Reply*>(ValkeyModule_GetBlockedClientPrivateData(ctx)); reply != nullptr) {
    (*reply)(ctx);
  }
  return VALKEYMODULE_OK;
}

void free_reply(ValkeyModuleCtx*, void* reply) {
  delete static_cast<Reply*>(reply);
}

}  // namespace

std::shared_ptr<BlockedCommand> BlockedCommand::block(ValkeyModuleCtx* ctx) {
  const auto id = ValkeyModule_GetClientId(ctx);
  // The server asserts that a client which denies blocking is in a script or a transaction, where it replies by itself.
  auto* blocked = ValkeyModule_BlockClient(ctx, write_reply, nullptr, free_reply, 0);
  if (blocked == nullptr) {
    ValkeyModule_ReplyWithError(ctx, kCannotBlock);
    return nullptr;
  }
  return std::shared_ptr<BlockedCommand>(new BlockedCommand(blocked, id));
}

void BlockedCommand::answer(Reply reply) {
  ValkeyModule_UnblockClient(blocked_, new Reply(std::move(reply)));
}

void BlockedCommand::prepare_thread_reply() {
  thread_context_ = ValkeyModule_GetThreadSafeContext(blocked_);
}

void BlockedCommand::reply_from_thread(const Reply& reply) {
  reply(thread_context_);
  ValkeyModule_FreeThreadSafeContext(thread_context_);
}

void BlockedCommand::never_answer() {
  silent_clients()[client_id_] = blocked_;
}

void BlockedCommand::client_gone(std::uint64_t client_id) {
  const auto found = silent_clients().find(client_id);
  if (found == silent_clients().end()) return;
  ValkeyModule_UnblockClient(found->second, nullptr);
  silent_clients().erase(found);
}

}  // namespace keyferry::large_object
