#include "commands.h"

#include <limits>

#include "arguments.h"
#include "counters.h"
#include "error_texts.h"
#include "module_state.h"
#include "replies.h"

namespace keyferry::large_object {
namespace {

using Handler = int (*)(ValkeyModuleCtx*, ValkeyModuleString**, int, const FaultPlan&);

// What all six do before they differ: count, refuse where blocking is denied, and ask what is to go wrong.
template <Command kCommand, bool kBlocks, int kLeastWords, int kMostWords, Handler kHandler, auto kCounter>
int run(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc) {
  add(counters.*kCounter);
  if (argc < kLeastWords || argc > kMostWords) return ValkeyModule_WrongArity(ctx);
  if (replays_aof(ctx)) return kHandler(ctx, argv, argc, {});
  const int flags = ValkeyModule_GetContextFlags(ctx);
  if (kBlocks && (flags & (VALKEYMODULE_CTX_FLAGS_DENY_BLOCKING | VALKEYMODULE_CTX_FLAGS_MULTI |
                           VALKEYMODULE_CTX_FLAGS_LUA)) != 0) {
    const bool transaction = (flags & VALKEYMODULE_CTX_FLAGS_MULTI) != 0;
    const bool script = (flags & VALKEYMODULE_CTX_FLAGS_LUA) != 0;
    return ValkeyModule_ReplyWithError(ctx, script ? kInScript : transaction ? kInTransaction : kCannotBlock);
  }

  const auto key = kCommand == Command::kHello ? std::string_view() : text_of(argv[1]);
  const auto plan = state().faults.take(kCommand, key);
  if (plan.never_run) {
    if (const auto command = BlockedCommand::block(ctx)) command->never_answer();
    return VALKEYMODULE_OK;
  }
  if (plan.error) {
    deliver(ctx, plan, error_reply(*plan.error));
    return VALKEYMODULE_OK;
  }
  return kHandler(ctx, argv, argc, plan);
}

bool add_command(ValkeyModuleCtx* ctx, const char* name, ValkeyModuleCmdFunc function, const char* flags, int key,
                 const char* categories) {
  if (ValkeyModule_CreateCommand(ctx, name, function, flags, key, key, key == 0 ? 0 : 1) != VALKEYMODULE_OK) {
    return false;
  }
  return ValkeyModule_SetCommandACLCategories(ValkeyModule_GetCommand(ctx, name), categories) == VALKEYMODULE_OK;
}

}  // namespace

bool replays_aof(ValkeyModuleCtx* ctx) {
  constexpr unsigned long long kAofClient = std::numeric_limits<unsigned long long>::max();
  return ValkeyModule_GetClientId(ctx) == kAofClient;
}

bool register_commands(ValkeyModuleCtx* ctx) {
  // The server's own error texts show a name as it is registered, and the real module's are in lower case.
  constexpr int kAny = std::numeric_limits<int>::max();
  if (ValkeyModule_AddACLCategory(ctx, "largeobj") != VALKEYMODULE_OK) return false;
  return add_command(ctx, "blob.rdma_hello", run<Command::kHello, false, 2, 2, rdma_hello, &Counters::commands_hello>,
                     "fast", 0, "connection fast largeobj") &&
         add_command(ctx, "blob.rdma_get",
                     run<Command::kRdmaGet, true, 3, kAny, rdma_get, &Counters::commands_rdma_get>, "readonly fast", 1,
                     "read fast largeobj") &&
         add_command(ctx, "blob.rdma_set",
                     run<Command::kRdmaSet, true, 4, kAny, rdma_set, &Counters::commands_rdma_set>,
                     "write deny-oom fast", 1, "write fast largeobj") &&
         add_command(ctx, "blob.tcp_get", run<Command::kTcpGet, true, 2, 2, tcp_get, &Counters::commands_tcp_get>,
                     "readonly fast", 1, "read fast largeobj") &&
         add_command(ctx, "blob.tcp_set", run<Command::kTcpSet, true, 3, 3, tcp_set, &Counters::commands_tcp_set>,
                     "write deny-oom fast", 1, "write fast largeobj") &&
         add_command(ctx, "blob.info", run<Command::kInfo, false, 2, 3, blob_info, &Counters::commands_info>,
                     "readonly fast", 1, "read fast largeobj") &&
         add_command(ctx, "largeobj.fault", fault_command, "admin", 0, "admin dangerous slow");
}

}  // namespace keyferry::large_object
