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

/// The fabric thread of one NIC: runs what is posted to it and reads the completion queue while anything is owed, which is what moves the bytes on
/// software providers (blob-rdma spec 4.7). It sleeps on the queue's wait object: briefly while something is owed, long when nothing is; a wake
/// never gets lost, for fi_cq_signal is remembered by the queue. Where the provider can't block it parks on a condition variable instead.
///
/// post(), raise(), lower() and the readings may come from any thread. raise() first raises the count, then wakes; the thread reads the count before
/// each sleep. Tasks run on the fabric thread in the order of post().
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

 private:
  void run();
  bool run_tasks();
  void wait_on_queue();
  void wait_parked();
  void drain();
  /// False if there was none to be taken off the queue.
  bool read_error_entry();
  void count_error(const std::string& text);
  void wake();

  Domain& domain_;
  const bool needs_polling_;
  std::atomic<std::uint64_t> owed_{0};
  std::atomic<std::uint64_t> queue_errors_{0};
  /// The fabric thread clears it when the provider turns out unable to block; wakers read it.
  std::atomic<bool> blocking_;

  std::mutex mutex_;
  std::condition_variable parked_;
  std::deque<base::Task> tasks_;
  bool stopping_ = false;
  bool woken_ = false;

  /// Fabric thread only.
  base::TimePoint last_error_log_{};
  std::uint64_t errors_not_logged_ = 0;
  std::thread thread_;
};

}  // namespace keyferry::fabric
