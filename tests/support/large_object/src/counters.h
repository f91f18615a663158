#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace keyferry::large_object {

/// What INFO largeobj reports. Every field is written and read by any thread, alone and relaxed: there is no order
/// between two fields.
struct Counters {
  using Counter = std::atomic<std::uint64_t>;

  // Commands as they arrive, refused ones too.
  Counter commands_hello{0};
  Counter commands_rdma_get{0};
  Counter commands_rdma_set{0};
  Counter commands_tcp_get{0};
  Counter commands_tcp_set{0};
  Counter commands_info{0};

  // Objects. allocated_bytes counts every buffer, also those of SETs under way and of values pinned by a transfer.
  Counter objects{0};
  Counter allocated_bytes{0};
  Counter hits{0};
  Counter misses{0};

  // RMA operations that ended well, as the server sees them: a read is a piece of a SET, a write one of a GET.
  Counter reads{0};
  Counter read_bytes{0};
  Counter read_microseconds{0};
  Counter writes{0};
  Counter write_bytes{0};
  Counter write_microseconds{0};

  // Once per failed command, not per piece.
  Counter read_errors{0};
  Counter write_errors{0};
  Counter checksum_mismatches{0};
  Counter pool_exhausted{0};
  Counter stale_sets{0};
  Counter failed_sets{0};

  // Gauges.
  Counter transfers_running{0};
  Counter pieces_queued{0};
  Counter pieces_in_flight{0};

  Counter faults_fired{0};
};

/// The module's one set of counters; a plain object with constant initialisation and without destructor.
inline Counters counters;

inline void add(Counters::Counter& counter, std::uint64_t n = 1) {
  counter.fetch_add(n, std::memory_order_relaxed);
}
inline void subtract(Counters::Counter& counter, std::uint64_t n = 1) {
  counter.fetch_sub(n, std::memory_order_relaxed);
}
inline std::uint64_t read(const Counters::Counter& counter) {
  return counter.load(std::memory_order_relaxed);
}

}  // namespace keyferry::large_object
