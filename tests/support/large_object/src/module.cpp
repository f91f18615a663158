// What the server calls when it loads the module, and the module's life: start of threads and fabric, sessions' ends,
// shutdown.

#define LARGE_OBJECT_DEFINES_VALKEY_API
#include <string>
#include <vector>

#include "arguments.h"
#include "blocked_command.h"
#include "commands.h"
#include "data_type.h"
#include "info_section.h"
#include "main_thread.h"
#include "memory_reserve.h"
#include "module_state.h"
#include "text.h"
#include "valkey_api.h"

namespace keyferry::large_object {

ModuleState& state() {
  static auto* only = new ModuleState;
  return *only;
}

namespace {

void start_fabric(ValkeyModuleCtx* ctx) {
  auto& module = state();
  module.fabric = Fabric::open(module.settings, module.fabric_problem);
  if (!module.fabric) {
    ValkeyModule_Log(ctx, "warning", "largeobj: no fabric, only BLOB.TCP_* will work: %s",
                     module.fabric_problem.c_str());
    return;
  }
  ValkeyModule_Log(ctx, "notice", "largeobj: fabric provider %s", module.fabric->description().c_str());
  for (std::size_t i = 0; i < module.fabric->size(); ++i) {
    ValkeyModule_Log(ctx, "notice", "largeobj: fabric service %zu address %s", i,
                     to_hex(module.fabric->service(i).address()).c_str());
  }
}

// A session ends with its connection and with nothing else; transfers under way keep it (blob-rdma spec 3.1).
void client_changed(ValkeyModuleCtx*, ValkeyModuleEvent, std::uint64_t what, void* data) {
  if (what != VALKEYMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED) return;
  const auto id = static_cast<const ValkeyModuleClientInfo*>(data)->id;
  state().sessions.erase(id);
  BlockedCommand::client_gone(id);
}

// The process ends by exit(), which unloads libfabric's providers under threads that still use them.
void shutting_down(ValkeyModuleCtx*, ValkeyModuleEvent, std::uint64_t, void*) {
  if (state().fabric) state().fabric->stop();
  state().pool->stop();
}

}  // namespace
}  // namespace keyferry::large_object

extern "C" __attribute__((visibility("default"))) int ValkeyModule_OnLoad(ValkeyModuleCtx* ctx,
                                                                          ValkeyModuleString** argv, int argc) {
  using namespace keyferry::large_object;
  if (ValkeyModule_Init(ctx, "largeobj", 1, VALKEYMODULE_APIVER_1) != VALKEYMODULE_OK) return VALKEYMODULE_ERR;
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) words.emplace_back(text_of(argv[i]));
  if (const auto problem = load_settings(ctx, words, state().settings); !problem.empty()) {
    ValkeyModule_Log(ctx, "warning", "largeobj: not loaded: %s", problem.c_str());
    return VALKEYMODULE_ERR;
  }
  if (!register_data_type(ctx) || !register_commands(ctx) || !register_info(ctx)) {
    ValkeyModule_Log(ctx, "warning",
                     "largeobj: not loaded: another module has the type largeob-k or one of the commands");
    return VALKEYMODULE_ERR;
  }
  ValkeyModule_SubscribeToServerEvent(ctx, ValkeyModuleEvent_ClientChange, client_changed);
  ValkeyModule_SubscribeToServerEvent(ctx, ValkeyModuleEvent_Shutdown, shutting_down);
  MainThread::prepare(ctx);
  memory_reserve().set_limit(static_cast<std::size_t>(state().settings.dram_reserve));
  state().pool = std::make_unique<WorkerPool>(static_cast<std::size_t>(state().settings.worker_threads));
  start_fabric(ctx);
  return VALKEYMODULE_OK;
}
