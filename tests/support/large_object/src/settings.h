#pragma once

#include <string>
#include <vector>

#include "valkey_api.h"

namespace keyferry::large_object {

enum class Provider { kEmulated, kEfaDirect, kOff, kVerbs };

/// Which check of a transfer comes first; clients must not rely on either order (blob-rdma spec 2.2 and appendix B item
/// 2).
enum class CheckOrder { kArgumentsFirst, kLookupFirst };

/// The configuration `largeobj.<name>` (the README explains every name). Written by the server on the main thread, at
/// load and by CONFIG SET; read on the main thread only.
struct Settings {
  long long max_object_size = 0;
  long long dram_maxmemory = 0;
  long long dram_reserve = 0;
  long long chunk_size = 0;
  long long worker_threads = 0;
  int fabric_provider = 0;  // Provider
  long long fabric_services = 0;
  long long fabric_max_in_flight = 0;
  long long fabric_patience = 0;  // milliseconds
  std::string fabric_interfaces;
  std::string fabric_bind;
  std::string libfabric_path;
  int shuffle = 0;
  int check_order = 0;  // CheckOrder
  int accept_crc = 0;

  [[nodiscard]] Provider provider() const { return static_cast<Provider>(fabric_provider); }
  [[nodiscard]] CheckOrder order() const { return static_cast<CheckOrder>(check_order); }
};

/// Registers and loads all settings; the `name value` pairs of the loadmodule line replace defaults and yield to config
/// directives. Returns an empty string, or what is wrong. Only during OnLoad; `settings` must live as long as the
/// process.
std::string load_settings(ValkeyModuleCtx* ctx, const std::vector<std::string>& arguments, Settings& settings);

}  // namespace keyferry::large_object
