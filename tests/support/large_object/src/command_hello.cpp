#include "arguments.h"
#include "commands.h"
#include "error_texts.h"
#include "module_state.h"
#include "replies.h"
#include "text.h"

namespace keyferry::large_object {
namespace {

// The checks of blob-rdma spec 2.1 in its order; nullptr, or the error.
const char* check_address(const Fabric& fabric, const std::optional<std::vector<std::byte>>& address) {
  constexpr std::size_t kEfaLength = 32;
  constexpr std::size_t kIpv4Length = 16;
  constexpr std::size_t kIpv6Length = 28;
  if (!address) return kBadAddressHex;
  const auto size = address->size();
  if (fabric.provider() == Provider::kEfaDirect) return size == kEfaLength ? nullptr : kEfaAddressLength;
  if (size == 0) return kEmptyAddress;
  return size == kIpv4Length || size == kIpv6Length ? nullptr : kEmulatedAddressLength;
}

// The session, or the error in `refused`.
SessionRef open_session(ValkeyModuleCtx* ctx, std::string_view hex, const FaultPlan& plan, std::string& refused) {
  auto& module = state();
  if (!module.fabric) {
    refused = kNoFabric;
    return nullptr;
  }
  const auto address = from_hex(hex);
  if (const char* problem = check_address(*module.fabric, address); problem != nullptr) {
    refused = problem;
    return nullptr;
  }
  const auto id = ValkeyModule_GetClientId(ctx);
  if (module.sessions.contains(id)) {
    refused = kSessionExists;
    return nullptr;
  }
  if (plan.spoil_service && *plan.spoil_service < module.fabric->size()) {
    module.fabric->service(*plan.spoil_service).spoil_address_vector();
  }
  auto session = module.fabric->create_session(*address, refused);
  if (!session) {
    refused.insert(0, "ERR session create: ");
    return nullptr;
  }
  module.sessions[id] = session;
  return session;
}

}  // namespace

int rdma_hello(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int, const FaultPlan& plan) {
  std::string refused;
  if (!open_session(ctx, text_of(argv[1]), plan, refused)) {
    deliver(ctx, plan, error_reply(std::move(refused)));
    return VALKEYMODULE_OK;
  }
  std::vector<std::vector<std::byte>> addresses;
  for (std::size_t i = 0; i < state().fabric->size(); ++i) {
    const auto address = state().fabric->service(i).address();
    addresses.emplace_back(address.begin(), address.end());
  }
  deliver(ctx, plan, hello_reply(plan.shape, std::move(addresses)));
  return VALKEYMODULE_OK;
}

}  // namespace keyferry::large_object
