#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/clock.h"

namespace keyferry::upstream {

/// How to reach a node over RDMA. Bytes and durations.
struct RdmaSettings {
  std::uint16_t port = 0;
  /// What the server may write before it must wait, and as much again for what is sent. At least 4 KiB.
  std::size_t buffer = base::kMiB;
  /// Of the device's; taken modulo their number.
  unsigned completion_vector = 0;
  /// For the address and for the route, each.
  base::Duration resolve_timeout = std::chrono::seconds(2);
};

}  // namespace keyferry::upstream
