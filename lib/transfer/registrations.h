#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/loop.h"
#include "base/unique_function.h"
#include "fabric/fabric.h"
#include "memory/pool.h"
#include "transfer/backoff.h"
#include "transfer/blob_command.h"
#include "transfer/engine_metrics.h"

namespace keyferry::transfer {

/// Registers the pool's regions with every fabric, one after another in the background, and closes the registrations
/// again. A region is usable when each fabric has it, so that any lane may carry any lease. Engine's thread only; the
/// work itself is the registrars'.
class Registrations {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    /// The first region is registered: leases can be granted.
    virtual void first_registered() = 0;
    /// Not one region could be registered: the pool's memory is usable here, but not by the fabric.
    virtual void none_registered() = 0;
    /// A region became free or was given up.
    virtual void regions_moved() = 0;
  };

  /// `fabrics`: at least one; a nic below is a place in it.
  Registrations(base::Loop& loop, std::vector<fabric::Fabric*> fabrics, memory::Pool& pool, EngineMetrics& metrics,
                Listener& listener);

  void start();
  /// How a command names `span`, which lies in that region; nothing if the region is not registered there.
  std::optional<Window> window(memory::RegionIndex region, std::size_t nic, base::MutableBytes span) const;
  /// Closes these regions' registrations with one fabric (a fence on providers where that is part of it); `done` when
  /// all have been answered. One that failed is final: its region is given up when it is to be renewed.
  void drop(const std::vector<memory::RegionIndex>& regions, std::size_t nic, base::Task done);
  /// Registers regions anew that drop() was called for and that the pool keeps as registering.
  void renew(const std::vector<memory::RegionIndex>& regions);
  /// From now on nothing is registered any more.
  void halt();
  /// Halts, waits for what is under way, then closes all registrations; `done` when none is left that could be closed.
  void stop(base::Task done);

  /// Regions that every fabric has.
  std::size_t registered() const;

 private:
  struct Slot {
    /// By nic.
    std::vector<std::optional<fabric::Registration>> registrations;
    /// Closing it failed: its key may live on, the memory is never lent again (C20).
    bool lost = false;
    int tries = 0;
  };

  void register_next(memory::RegionIndex region);
  void first_pass_answered(memory::RegionIndex region, const base::Result<void>& result);
  void first_pass_done();
  void register_again(memory::RegionIndex region);
  void renewed(memory::RegionIndex region, const base::Result<void>& result);
  void retry(memory::RegionIndex region);
  using Done = base::UniqueFunction<void(base::Result<void>)>;
  void register_region(memory::RegionIndex region, Done done);
  void register_with(std::size_t nic, memory::RegionIndex region, Done done);
  void deregister_region(memory::RegionIndex region, std::size_t nic, base::Task done);
  bool complete(const Slot& slot) const;
  void went_idle();

  base::Loop& loop_;
  std::vector<fabric::Fabric*> fabrics_;
  memory::Pool& pool_;
  EngineMetrics& metrics_;
  Listener& listener_;
  std::vector<Slot> slots_;
  std::vector<memory::RegionIndex> failed_;
  std::size_t failures_in_row_ = 0;
  /// One was registered at some time.
  bool any_ = false;
  /// Calls to the fabric that have not been answered.
  std::size_t under_way_ = 0;
  bool stopping_ = false;
  base::Task stopped_;
  std::vector<memory::RegionIndex> retries_;
  Backoff backoff_;
  base::Timer retry_timer_;
  /// Answers that come after this object are dropped.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace keyferry::transfer
