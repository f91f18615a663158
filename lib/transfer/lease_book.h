#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/unique_function.h"
#include "memory/lease_queue.h"
#include "memory/pool.h"

namespace keyferry::transfer {

/// Who holds a lease: the worker that has the Loan, the lane whose command names its regions, and the fence that has to
/// end before its memory is anybody's. THE place that decides when memory is free again (R88). Engine's thread only.
///
/// Event, who holds it from then on, and why:
///
/// - granted: + worker. The Loan is out, or with the engine while its transfer waits.
/// - a command that names it is written: + lane. The server may read or write it from now on.
/// - a trusted reply: - lane. The server has nothing outstanding (blob-rdma spec 3.4).
/// - anything else ends the command: lane becomes fence. Only the closed endpoint says that nothing lands any more.
/// - the fence is confirmed: - fence. With `renew` the registrations are closed as well and have to be made anew.
/// - the fence failed: the regions are closed for good.
/// - the Loan is destroyed: - worker.
/// - the Loan goes back to the worker behind a stored value (lend_again): still the worker, as if leased anew.
/// - nobody holds it: the regions are free, or wait for their new registrations.
class LeaseBook {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    /// Regions came back, or left for good: somebody who waits may be served. Never called from inside a call that has
    /// yet to change the books.
    virtual void regions_moved() = 0;
    /// Leased regions came in flight, or are no longer: nobody can be served for it, but the metrics change.
    virtual void flight_changed() = 0;
    /// A lease is its client's no longer: it ended, or is quarantined by no fault of the client. `bytes`: of whole
    /// regions. Once a lease; regions_moved() follows.
    virtual void not_held(memory::ClientId client, std::uint64_t bytes) = 0;
    /// A request for memory waits.
    virtual bool somebody_waits() const = 0;
    /// These regions' registrations were closed by a fence, and they wait in the pool as registering.
    virtual void needs_registration(const std::vector<memory::RegionIndex>& regions) = 0;
  };

  LeaseBook(memory::Pool& pool, Listener& listener) : pool_(pool), listener_(listener) {}

  /// `waited`: how long its request waited, kept for the metrics of the transfer to come.
  void granted(memory::Lease lease, memory::ClientId client, base::Duration waited);
  /// Null if no such lease is out, or if it can't be used for a transfer now (in flight, quarantined, closed).
  const memory::Lease* usable(memory::LeaseId id) const;
  base::Duration waited(memory::LeaseId id) const;
  /// On whose behalf it was granted; 0 if there is no such lease.
  memory::ClientId client(memory::LeaseId id) const;

  void posted(memory::LeaseId id);
  void settled(memory::LeaseId id);
  /// `reason`: as in fences_total; a literal.
  void quarantined(memory::LeaseId id, const char* reason, base::TimePoint now);
  /// The regions of a lease under quarantine, for closing their registrations.
  std::vector<memory::RegionIndex> regions(memory::LeaseId id) const;
  void fence_confirmed(memory::LeaseId id, bool renew);
  void fence_failed(memory::LeaseId id);
  void loan_returned(memory::LeaseId id);
  /// Its Loan may serve for another value of the same client and length. False: it has to come back, as something else
  /// holds it too, somebody waits for memory, or less than half of the pool is free (no value takes more than half).
  bool lend_again(memory::LeaseId id);

  struct Quarantine {
    std::uint64_t bytes = 0;
    base::TimePoint since;
    const char* reason = "";
  };
  /// What is under quarantine now, for /status.json.
  std::vector<Quarantine> quarantine() const;
  /// Leases that somebody holds.
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    memory::Lease lease;
    memory::ClientId client{};
    base::Duration waited{};
    bool worker = true;
    bool lane = false;
    bool fence = false;
    /// The fence closed the registrations too.
    bool renew = false;
    /// A fence failed: the pool has closed the regions, only the Loan is still out.
    bool closed = false;
    /// The listener was told not_held().
    bool counted_out = false;
    base::TimePoint since;
    const char* reason = "";
  };
  using Entries = std::unordered_map<memory::LeaseId, Entry>;

  void count_out(Entry& entry);
  void free_if_unheld(Entries::iterator entry);

  memory::Pool& pool_;
  Listener& listener_;
  Entries entries_;
};

}  // namespace keyferry::transfer
