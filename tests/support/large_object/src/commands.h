#pragma once

#include "valkey_api.h"

namespace keyferry::large_object {

/// Registers the ACL category, the six commands of blob-rdma spec section 2 and LARGEOBJ.FAULT. Only during OnLoad.
bool register_commands(ValkeyModuleCtx* ctx);

// What the commands do once counted, allowed to run and given their plan: each in a file of its own.
struct FaultPlan;

int rdma_hello(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc, const FaultPlan& plan);
int rdma_get(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc, const FaultPlan& plan);
int rdma_set(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc, const FaultPlan& plan);
int tcp_get(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc, const FaultPlan& plan);
int tcp_set(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc, const FaultPlan& plan);
int blob_info(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc, const FaultPlan& plan);
int fault_command(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc);

/// True in AOF loading, where a command can neither block nor be refused.
bool replays_aof(ValkeyModuleCtx* ctx);

}  // namespace keyferry::large_object
