#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace keyferry::memory {

class RegionAuditor;

/// Where a region stands. registering -> free | closed; free -> leased; leased -> in_flight | free; in_flight -> leased
/// | quarantined; quarantined -> free | registering | closed. From in_flight there is no way to free but through
/// settle() or quarantine() (R88).
enum class RegionState : std::uint8_t { kRegistering, kFree, kLeased, kInFlight, kQuarantined, kClosed };
inline constexpr std::size_t kRegionStates = 6;

using RegionIndex = std::uint32_t;

/// Names one lease of one Pool; never used again after its release.
enum class LeaseId : std::uint64_t {};

/// The whole of what one transfer needs: whole regions, granted at once or not at all.
struct Lease {
  LeaseId id{};
  std::vector<RegionIndex> regions;
  /// Bytes asked for; the regions hold at least as many.
  std::uint64_t length = 0;
};

/// A value's blocking factor: one BLOB.RDMA_* command names at most this many regions (blob-rdma spec 1.4).
inline constexpr std::size_t kMaxRegionsPerLease = 256;

struct PoolStats {
  std::uint64_t bytes[kRegionStates] = {};
  std::uint64_t regions[kRegionStates] = {};

  std::uint64_t bytes_in(RegionState state) const { return bytes[static_cast<std::size_t>(state)]; }
  std::uint64_t regions_in(RegionState state) const { return regions[static_cast<std::size_t>(state)]; }
};

/// The books of the pool: which region is in which state and who holds it. Only the engine's thread touches it, so it
/// has no locks and no atomics. It never touches the memory itself, but for a RegionAuditor that a test asked for.
class Pool {
 public:
  /// All regions start as registering: they become free one by one (region_registered) as the registrar gets through
  /// them, or all at once (all_registered) where there is no fabric.
  Pool(base::MutableBytes memory, std::uint64_t region_bytes);
  /// From now on `auditor` hears of every change, and checks the memory. Before the first registration; for tests.
  void audit_by(RegionAuditor& auditor) { auditor_ = &auditor; }

  std::uint64_t region_bytes() const { return region_bytes_; }
  std::size_t region_count() const { return states_.size(); }
  /// Bytes of regions that are not closed: what a lease could ever have.
  std::uint64_t usable_bytes() const;
  base::MutableBytes region(RegionIndex index) const;
  RegionState state(RegionIndex index) const { return states_[index]; }

  /// The region's registration has succeeded, at the start or after renew().
  void region_registered(RegionIndex index);
  /// The region's registration has failed: it is never lent.
  void region_failed(RegionIndex index);
  /// Where there is no fabric: every region that is still registering becomes free.
  void all_registered();

  /// Leases whole regions for `length` bytes (1 .. kMaxRegionsPerLease regions), or nothing: nullopt if too few are
  /// free now. O(1) a region.
  std::optional<Lease> try_lease(std::uint64_t length);
  /// True if a lease of that length could be granted when everything that is out has come back.
  bool could_ever_lease(std::uint64_t length) const;

  /// A command that names the lease's regions is about to be written.
  void set_in_flight(const Lease& lease);
  /// The command has ended with a reply: the server is done with the memory.
  void settle(const Lease& lease);
  /// The command ended without one: nobody may use the memory until the fence has been confirmed.
  void quarantine(const Lease& lease);
  /// The lease goes on as if it had been released and the same regions leased anew: for its holder's next value. False
  /// if it is in flight or quarantined.
  bool lend_again(const Lease& lease);
  /// The fence was confirmed, or nothing is in flight (never was, or settled). The regions are free again.
  void release(Lease lease);
  /// The fence was confirmed and their registrations are closed: quarantined regions wait for new ones
  /// (region_registered, region_failed).
  void renew(Lease lease);
  /// A fence that failed: quarantined regions are never lent again.
  void close(Lease lease);

  PoolStats stats() const;
  /// How often a caller asked for a change that the states don't allow. Such a call changes nothing, so that memory is
  /// rather lost than lent twice; with KEYFERRY_DEBUG it aborts.
  std::uint64_t illegal_transitions() const { return illegal_transitions_; }

 private:
  std::size_t regions_for(std::uint64_t length) const;
  bool held_in(const Lease& lease, std::initializer_list<RegionState> states);
  bool allowed(RegionIndex index, RegionState from);
  void illegal(const char* what);
  void move(RegionIndex index, RegionState to);

  base::MutableBytes memory_;
  std::uint64_t region_bytes_;
  std::vector<RegionState> states_;
  /// Which lease holds a region, so that a lease that was given back can't move regions that another has by now.
  std::vector<LeaseId> holders_;
  std::vector<RegionIndex> free_;
  std::uint64_t counts_[kRegionStates] = {};
  std::uint64_t next_lease_ = 1;
  std::uint64_t illegal_transitions_ = 0;
  RegionAuditor* auditor_ = nullptr;
};

}  // namespace keyferry::memory
