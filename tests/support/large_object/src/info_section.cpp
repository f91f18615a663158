#include "info_section.h"

#include <string>

#include "counters.h"
#include "memory_reserve.h"
#include "module_state.h"
#include "text.h"

namespace keyferry::large_object {
namespace {

void field(ValkeyModuleInfoCtx* ctx, const std::string& name, std::uint64_t value) {
  ValkeyModule_InfoAddFieldULongLong(ctx, name.c_str(), value);
}

void field(ValkeyModuleInfoCtx* ctx, const std::string& name, const Counters::Counter& counter) {
  field(ctx, name, read(counter));
}

void objects_section(ValkeyModuleInfoCtx* ctx) {
  if (ValkeyModule_InfoAddSection(ctx, "dram") != VALKEYMODULE_OK) return;
  field(ctx, "allocated_bytes", counters.allocated_bytes);
  field(ctx, "reserved_bytes", memory_reserve().kept_bytes());
  field(ctx, "cached_objects", counters.objects);
  field(ctx, "dram_objects", counters.objects);
  field(ctx, "dram_hits_total", counters.hits);
  field(ctx, "dram_misses_total", counters.misses);
}

// A section of one generation of names.
void traffic_section(ValkeyModuleInfoCtx* ctx, const std::string& prefix) {
  if (ValkeyModule_InfoAddSection(ctx, prefix.c_str()) != VALKEYMODULE_OK) return;
  field(ctx, prefix + "_sessions", state().sessions.size());
  field(ctx, prefix + "_reads_total", counters.reads);
  field(ctx, prefix + "_read_bytes_total", counters.read_bytes);
  field(ctx, prefix + "_read_usec_total", counters.read_microseconds);
  field(ctx, prefix + "_writes_total", counters.writes);
  field(ctx, prefix + "_write_bytes_total", counters.write_bytes);
  field(ctx, prefix + "_write_usec_total", counters.write_microseconds);
}

void errors_section(ValkeyModuleInfoCtx* ctx) {
  if (ValkeyModule_InfoAddSection(ctx, "error_metrics") != VALKEYMODULE_OK) return;
  field(ctx, "efa_read_errors", counters.read_errors);
  field(ctx, "efa_write_errors", counters.write_errors);
  field(ctx, "rdma_read_errors", counters.read_errors);
  field(ctx, "rdma_write_errors", counters.write_errors);
  field(ctx, "checksum_mismatches", counters.checksum_mismatches);
  field(ctx, "dram_pool_exhausted", counters.pool_exhausted);
  field(ctx, "set_finalize_stale", counters.stale_sets);
  field(ctx, "set_value_failures", counters.failed_sets);
}

void commands_section(ValkeyModuleInfoCtx* ctx) {
  if (ValkeyModule_InfoAddSection(ctx, "commands") != VALKEYMODULE_OK) return;
  field(ctx, "cmd_rdma_hello", counters.commands_hello);
  field(ctx, "cmd_rdma_get", counters.commands_rdma_get);
  field(ctx, "cmd_rdma_set", counters.commands_rdma_set);
  field(ctx, "cmd_tcp_get", counters.commands_tcp_get);
  field(ctx, "cmd_tcp_set", counters.commands_tcp_set);
  field(ctx, "cmd_info", counters.commands_info);
}

void running_section(ValkeyModuleInfoCtx* ctx) {
  if (ValkeyModule_InfoAddSection(ctx, "running") != VALKEYMODULE_OK) return;
  field(ctx, "transfers_running", counters.transfers_running);
  field(ctx, "pieces_queued", counters.pieces_queued);
  field(ctx, "in_flight", counters.pieces_in_flight);
  field(ctx, "faults_armed", state().faults.armed().size());
  field(ctx, "faults_fired", counters.faults_fired);
}

void fabric_section(ValkeyModuleInfoCtx* ctx) {
  if (ValkeyModule_InfoAddSection(ctx, "fabric") != VALKEYMODULE_OK) return;
  const auto& module = state();
  field(ctx, "fabric_services", module.fabric ? module.fabric->size() : 0);
  ValkeyModule_InfoAddFieldCString(ctx, "fabric_provider",
                                   module.fabric ? module.fabric->description().c_str() : "none");
  if (!module.fabric) {
    ValkeyModule_InfoAddFieldCString(ctx, "fabric_problem", module.fabric_problem.c_str());
    return;
  }
  for (std::size_t i = 0; i < module.fabric->size(); ++i) {
    const auto address = to_hex(state().fabric->service(i).address());
    ValkeyModule_InfoAddFieldCString(ctx, ("fabric_address_" + std::to_string(i)).c_str(), address.c_str());
  }
}

void write_info(ValkeyModuleInfoCtx* ctx, int) {
  objects_section(ctx);
  traffic_section(ctx, "efa");
  traffic_section(ctx, "rdma");
  errors_section(ctx);
  commands_section(ctx);
  running_section(ctx);
  fabric_section(ctx);
}

}  // namespace

bool register_info(ValkeyModuleCtx* ctx) {
  return ValkeyModule_RegisterInfoFunc(ctx, write_info) == VALKEYMODULE_OK;
}

}  // namespace keyferry::large_object
