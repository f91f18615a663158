#include "transfer/value_layout.h"

#include <algorithm>

namespace keyferry::transfer {

std::vector<base::MutableBytes> spans_of(const memory::Pool& pool, const memory::Lease& lease, Layout layout) {
  std::vector<base::MutableBytes> spans;
  for (const memory::RegionIndex index : lease.regions) spans.push_back(pool.region(index));
  if (layout == Layout::kBehindLead && !spans.empty() && spans.size() < memory::kMaxRegionsPerLease) {
    const base::MutableBytes first = spans.front();
    const std::size_t lead = std::min(kLead, first.size());
    spans.front() = first.subspan(lead);
    spans.push_back(first.first(lead));
  }
  std::uint64_t left = lease.length;
  for (base::MutableBytes& span : spans) {
    span = span.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, span.size())));
    left -= span.size();
  }
  while (!spans.empty() && spans.back().empty()) spans.pop_back();
  return spans;
}

}  // namespace keyferry::transfer
