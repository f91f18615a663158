#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/unique_function.h"
#include "fabric/domain.h"

namespace keyferry::fabric {

/// The fabric thread of one NIC: runs what is posted to it and reads the completion queue while anything is owed, which
/// is what moves the bytes on software providers (blob-rdma spec 4.7). While something is owed it sleeps briefly on the
/// queue's wait object, so that traffic wakes it; where the provider can't do that, it looks every millisecond. When
/// nothing is owed it parks on a condition variable, not on the queue: fi_cq_signal loses about one wake in 300
/// (measured on 1.17 net and 2.5.1 tcp, it races with the start of the sleep), which only the short sleep bounds.
///
/// post(), raise(), lower() and the readings may come from any thread. A caller first changes what the thread must see
/// (queue of tasks, count of owed), then sets woken_ under the mutex; the thread clears woken_ under the mutex, then
/// looks. Tasks run on the fabric thread in the order of post().
class ProgressThread {
 public:
  /// `needs_polling`: nobody else moves the bytes. The domain outlives the thread.
  ProgressThread(Domain& domain, bool needs_polling);
  ~ProgressThread() { stop(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void post(base::Task task);
  void raise();
  void lower() { owed_.fetch_sub(1, std::memory_order_relaxed); }
  /// Runs what was posted, then ends the thread. Nothing is posted any more.
  void stop();

  std::uint64_t owed() const { return owed_.load(std::memory_order_relaxed); }
  std::uint64_t queue_errors() const { return queue_errors_.load(std::memory_order_relaxed); }
  bool queue_lost() const { return queue_lost_.load(std::memory_order_relaxed); }

 private:
  void run();
  bool run_tasks();
  void sleep_on_queue();
  void park();
  void drain();
  /// False if there was none to be taken off the queue.
  bool read_error_entry();
  void count_error(const std::string& text);
  /// For what it must look at at once, and for what it need not if it sleeps on the queue.
  void wake();
  void unpark();

  Domain& domain_;
  const bool needs_polling_;
  std::atomic<std::uint64_t> owed_{0};
  std::atomic<std::uint64_t> queue_errors_{0};
  std::atomic<bool> queue_lost_{false};
  /// Something is owed and the queue can be slept on. The fabric thread writes, wakers read.
  std::atomic<bool> on_queue_{false};

  std::mutex mutex_;
  std::condition_variable parked_;
  std::deque<base::Task> tasks_;
  bool stopping_ = false;
  bool woken_ = false;

  /// Fabric thread only.
  bool can_block_;
  base::TimePoint last_error_log_{};
  std::uint64_t errors_not_logged_ = 0;
  unsigned failures_in_row_ = 0;
  std::thread thread_;
};

}  // namespace keyferry::fabric
