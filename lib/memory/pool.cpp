#include "memory/pool.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "memory/region_auditor.h"

namespace keyferry::memory {

namespace {
constexpr LeaseId kNobody{0};
std::size_t slot(RegionState state) {
  return static_cast<std::size_t>(state);
}
}  // namespace

Pool::Pool(base::MutableBytes memory, std::uint64_t region_bytes)
    : memory_(memory),
      region_bytes_(region_bytes),
      states_(memory.size() / region_bytes, RegionState::kRegistering),
      holders_(states_.size(), kNobody) {
  free_.reserve(states_.size());
  counts_[slot(RegionState::kRegistering)] = states_.size();
}

std::uint64_t Pool::usable_bytes() const {
  return (states_.size() - counts_[slot(RegionState::kClosed)]) * region_bytes_;
}

base::MutableBytes Pool::region(RegionIndex index) const {
  return memory_.subspan(index * region_bytes_, region_bytes_);
}

void Pool::region_registered(RegionIndex index) {
  if (allowed(index, RegionState::kRegistering)) move(index, RegionState::kFree);
}

void Pool::region_failed(RegionIndex index) {
  if (allowed(index, RegionState::kRegistering)) move(index, RegionState::kClosed);
}

void Pool::all_registered() {
  for (RegionIndex index = 0; index < states_.size(); ++index) {
    if (states_[index] == RegionState::kRegistering) move(index, RegionState::kFree);
  }
}

std::optional<Lease> Pool::try_lease(std::uint64_t length) {
  const std::size_t wanted = regions_for(length);
  if (wanted == 0 || wanted > kMaxRegionsPerLease || wanted > free_.size()) return std::nullopt;
  Lease lease{LeaseId{next_lease_++}, {}, length};
  lease.regions.reserve(wanted);
  while (lease.regions.size() < wanted) {
    const RegionIndex index = free_.back();
    free_.pop_back();
    move(index, RegionState::kLeased);
    holders_[index] = lease.id;
    lease.regions.push_back(index);
  }
  if (auditor_ != nullptr) auditor_->leased(lease);
  return lease;
}

bool Pool::could_ever_lease(std::uint64_t length) const {
  const std::size_t wanted = regions_for(length);
  return wanted != 0 && wanted <= kMaxRegionsPerLease && wanted <= states_.size() - counts_[slot(RegionState::kClosed)];
}

void Pool::set_in_flight(const Lease& lease) {
  if (!held_in(lease, {RegionState::kLeased})) return illegal("set_in_flight");
  for (RegionIndex index : lease.regions) move(index, RegionState::kInFlight);
  if (auditor_ != nullptr) auditor_->in_flight(lease);
}

void Pool::settle(const Lease& lease) {
  if (!held_in(lease, {RegionState::kInFlight})) return illegal("settle");
  for (RegionIndex index : lease.regions) move(index, RegionState::kLeased);
  if (auditor_ != nullptr) auditor_->settled(lease);
}

void Pool::quarantine(const Lease& lease) {
  if (!held_in(lease, {RegionState::kInFlight})) return illegal("quarantine");
  for (RegionIndex index : lease.regions) move(index, RegionState::kQuarantined);
  if (auditor_ != nullptr) auditor_->quarantined(lease);
}

bool Pool::lend_again(const Lease& lease) {
  if (!held_in(lease, {RegionState::kLeased})) return false;
  if (auditor_ == nullptr) return true;
  auditor_->given_back(lease);
  for (RegionIndex index : lease.regions) auditor_->became_free(index);
  auditor_->leased(lease);
  return true;
}

void Pool::release(Lease lease) {
  if (!held_in(lease, {RegionState::kLeased, RegionState::kQuarantined})) return illegal("release");
  if (auditor_ != nullptr) auditor_->given_back(lease);
  for (RegionIndex index : lease.regions) move(index, RegionState::kFree);
}

void Pool::renew(Lease lease) {
  if (!held_in(lease, {RegionState::kQuarantined})) return illegal("renew");
  if (auditor_ != nullptr) auditor_->given_back(lease);
  for (RegionIndex index : lease.regions) move(index, RegionState::kRegistering);
}

void Pool::close(Lease lease) {
  if (!held_in(lease, {RegionState::kQuarantined})) return illegal("close");
  for (RegionIndex index : lease.regions) move(index, RegionState::kClosed);
}

PoolStats Pool::stats() const {
  PoolStats stats;
  for (std::size_t state = 0; state < kRegionStates; ++state) {
    stats.regions[state] = counts_[state];
    stats.bytes[state] = counts_[state] * region_bytes_;
  }
  return stats;
}

std::size_t Pool::regions_for(std::uint64_t length) const {
  return length / region_bytes_ + (length % region_bytes_ != 0 ? 1 : 0);
}

bool Pool::held_in(const Lease& lease, std::initializer_list<RegionState> states) {
  if (lease.regions.empty()) return false;
  for (RegionIndex index : lease.regions) {
    if (index >= states_.size() || holders_[index] != lease.id) return false;
    bool found = false;
    for (RegionState state : states) found = found || states_[index] == state;
    if (!found) return false;
  }
  return true;
}

bool Pool::allowed(RegionIndex index, RegionState from) {
  if (index < states_.size() && states_[index] == from) return true;
  illegal("a registration's outcome");
  return false;
}

void Pool::illegal(const char* what) {
  ++illegal_transitions_;
#ifdef KEYFERRY_DEBUG
  std::fprintf(stderr, "keyferry: the pool's books do not allow this: %s\n", what);
  std::abort();
#else
  static_cast<void>(what);
#endif
}

void Pool::move(RegionIndex index, RegionState to) {
  --counts_[slot(states_[index])];
  ++counts_[slot(to)];
  states_[index] = to;
  if (to == RegionState::kFree) free_.push_back(index);
  if (to == RegionState::kFree && auditor_ != nullptr) auditor_->became_free(index);
  if (to != RegionState::kLeased && to != RegionState::kInFlight && to != RegionState::kQuarantined)
    holders_[index] = kNobody;
}

}  // namespace keyferry::memory
