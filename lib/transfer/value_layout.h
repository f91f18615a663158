#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "memory/pool.h"

namespace keyferry::transfer {

/// Where a value begins in its lease.
enum class Layout : std::uint8_t {
  /// At the start of the first region, region after region: what a socket is read into.
  kFromStart,
  /// Behind the lead, whose bytes come last: what goes to a socket.
  kBehindLead,
};

/// Bytes left free before a value that goes to a socket. The kernel puts the reply into a fresh page, the header's ten
/// bytes first; a value that came from the start of a page would be copied to just above its own place in the page, and
/// there a processor takes each load for one of the stores before it: such a send takes four times as long (measured,
/// tests/bench/README.md).
inline constexpr std::size_t kLead = 64;

/// The lease's memory in the order in which a value fills it, cut to the lease's length. Span i lies in the lease's
/// region i modulo their count: with a lead the last one is the lead itself, if the length needs it. A lease of
/// kMaxRegionsPerLease regions has no lead, as a command has no room for one window more.
std::vector<base::MutableBytes> spans_of(const memory::Pool& pool, const memory::Lease& lease, Layout layout);

}  // namespace keyferry::transfer
