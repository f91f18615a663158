#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace keyferry::upstream {

/// How this process uses its RDMA devices: the same for all its connections. The daemon sets it before the first
/// connection is made; from then on every thread reads it and nobody writes.
struct RdmaTuning {
  /// Places in each connection's send queue, and receives posted: at least 128.
  std::uint32_t queue = 1024;
  /// How long the completion queue is looked at again and again after something moved, before the loop sleeps: latency
  /// for processor time. Other work of the loop goes on meanwhile. 0 = never.
  base::Duration spin{};
  /// From the connection request to the server's first announcement.
  base::Duration connect_timeout = std::chrono::seconds(10);
  /// A shared channel on which nothing moved for so long is asked PING (R64).
  base::Duration ping_after = std::chrono::seconds(5);
  /// Where the kernel lists its RDMA devices. Tests without any have a folder of their own.
  std::string devices = "/sys/class/infiniband";
};

RdmaTuning& rdma_tuning();

/// The completion vector of a worker's connections, so that workers share no interrupt: the configured first one and,
/// if the worker has one CPU for itself, that CPU's number (whose interrupt is pinned there: example 2 of
/// VALKEY-RDMA(7)), else its own.
inline unsigned completion_vector(unsigned first, std::size_t worker, const std::vector<unsigned>& cpus) {
  return first + (cpus.size() == 1 ? cpus.front() : static_cast<unsigned>(worker));
}

}  // namespace keyferry::upstream
