#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "fabric/domain.h"
#include "fabric/fabric.h"

namespace keyferry::fabric {

/// The registrar thread of one domain: every fi_mr_reg and fi_close(mr), beside the fabric thread, which a large one
/// would stall (blob-rdma spec C19, C25). One queue, so that a registration waits for the closings called before it and
/// their pages no longer count.
///
/// post() and the readings may come from any thread; registering and closing happen in tasks on the registrar's thread
/// only.
class Registrar {
 public:
  explicit Registrar(Domain& domain);
  /// Stops, then closes what is still registered.
  ~Registrar();
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

  void post(base::Task task);
  /// Runs what was posted, then ends the thread. Nothing is posted any more.
  void stop();

  /// Registrar's thread.
  base::Result<Registration> add(base::MutableBytes memory);
  base::Result<void> remove(RegistrationId id);

  /// Fills in what the registrar counts.
  void read(FabricCounters& counters) const;

 private:
  struct Entry {
    fid_mr* region = nullptr;
    std::uint64_t bytes = 0;
  };

  void run();
  base::Result<void> close(std::map<RegistrationId, Entry>::iterator position);

  Domain& domain_;
  const bool virtual_addresses_;
  const bool own_keys_;

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<base::Task> tasks_;
  bool stopping_ = false;

  /// Registrar's thread, and after its end the destructor.
  std::map<RegistrationId, Entry> entries_;
  /// Ids and, where the provider lets us choose, keys: they only grow, for an old one may still be named by a server
  /// (blob-rdma spec C19).
  std::uint64_t last_number_ = 0;

  std::atomic<std::uint64_t> registrations_{0};
  std::atomic<std::uint64_t> registered_bytes_{0};
  std::atomic<std::uint64_t> nanoseconds_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<std::uint64_t> close_failures_{0};
  std::thread thread_;
};

}  // namespace keyferry::fabric
