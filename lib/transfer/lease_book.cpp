#include "transfer/lease_book.h"

#include <utility>

namespace keyferry::transfer {

void LeaseBook::granted(memory::Lease lease, memory::ClientId client, base::Duration waited) {
  const memory::LeaseId id = lease.id;
  Entry entry;
  entry.lease = std::move(lease);
  entry.client = client;
  entry.waited = waited;
  entries_.emplace(id, std::move(entry));
}

const memory::Lease* LeaseBook::usable(memory::LeaseId id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return nullptr;
  const Entry& entry = found->second;
  // A lease that went through a fence which closed its registrations must not be announced again, even while its Loan
  // is out.
  const bool in_use = entry.lane || entry.fence || entry.renew || entry.closed || entry.since != base::TimePoint{};
  return in_use ? nullptr : &entry.lease;
}

base::Duration LeaseBook::waited(memory::LeaseId id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? base::Duration{} : found->second.waited;
}

memory::ClientId LeaseBook::client(memory::LeaseId id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? memory::ClientId{} : found->second.client;
}

void LeaseBook::posted(memory::LeaseId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  found->second.lane = true;
  pool_.set_in_flight(found->second.lease);
  listener_.flight_changed();
}

void LeaseBook::settled(memory::LeaseId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.lane) return;
  found->second.lane = false;
  pool_.settle(found->second.lease);
  listener_.flight_changed();
  free_if_unheld(found);
}

void LeaseBook::quarantined(memory::LeaseId id, const char* reason, base::TimePoint now) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.lane) return;
  Entry& entry = found->second;
  entry.lane = false;
  entry.fence = true;
  entry.reason = reason;
  entry.since = now;
  pool_.quarantine(entry.lease);
  count_out(entry);
  // Its client may have more now.
  listener_.regions_moved();
}

std::vector<memory::RegionIndex> LeaseBook::regions(memory::LeaseId id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? std::vector<memory::RegionIndex>{} : found->second.lease.regions;
}

void LeaseBook::fence_confirmed(memory::LeaseId id, bool renew) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.fence) return;
  found->second.fence = false;
  found->second.renew = renew;
  free_if_unheld(found);
}

void LeaseBook::fence_failed(memory::LeaseId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.fence) return;
  Entry& entry = found->second;
  entry.fence = false;
  entry.closed = true;
  pool_.close(entry.lease);
  free_if_unheld(found);
  listener_.regions_moved();
}

void LeaseBook::loan_returned(memory::LeaseId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  found->second.worker = false;
  free_if_unheld(found);
}

bool LeaseBook::lend_again(memory::LeaseId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || usable(id) == nullptr || listener_.somebody_waits()) return false;
  if (pool_.stats().regions_in(memory::RegionState::kFree) < (pool_.region_count() + 1) / 2) return false;
  if (!pool_.lend_again(found->second.lease)) return false;
  found->second.waited = {};
  return true;
}

std::vector<LeaseBook::Quarantine> LeaseBook::quarantine() const {
  std::vector<Quarantine> list;
  for (const auto& [id, entry] : entries_) {
    if (entry.closed || entry.since == base::TimePoint{}) continue;
    list.push_back({entry.lease.regions.size() * pool_.region_bytes(), entry.since, entry.reason});
  }
  return list;
}

void LeaseBook::count_out(Entry& entry) {
  if (std::exchange(entry.counted_out, true)) return;
  listener_.not_held(entry.client, entry.lease.regions.size() * pool_.region_bytes());
}

void LeaseBook::free_if_unheld(Entries::iterator entry) {
  const Entry& holds = entry->second;
  if (holds.worker || holds.lane || holds.fence) return;
  Entry done = std::move(entry->second);
  entries_.erase(entry);
  count_out(done);
  if (done.closed) return;
  if (done.renew) {
    const std::vector<memory::RegionIndex> regions = done.lease.regions;
    pool_.renew(std::move(done.lease));
    listener_.needs_registration(regions);
  } else {
    pool_.release(std::move(done.lease));
  }
  listener_.regions_moved();
}

}  // namespace keyferry::transfer
