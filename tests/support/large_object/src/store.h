#pragma once

#include <cstdint>
#include <memory>

#include "blocked_command.h"
#include "large_object.h"
#include "valkey_api.h"

namespace keyferry::large_object {

/// Where a SET will store its value, taken when the command arrives: database, key and the object id that decides
/// between concurrent SETs (blob-rdma spec 2.3). Main thread.
class Destination {
 public:
  Destination(ValkeyModuleCtx* ctx, ValkeyModuleString* key);
  ~Destination();
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;

  /// Makes the value visible, unless it is stale, and gives the reply. `regular` is what a success answers.
  Reply store(std::shared_ptr<Buffer> buffer, std::uint32_t crc, Reply regular);

 private:
  ValkeyModuleString* key_;
  int database_;
  std::uint64_t id_;
};

}  // namespace keyferry::large_object
