#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace keyferry::large_object {

/// Threads that hash and copy, so that neither the main thread nor a fabric thread does. run() may be called from any
/// thread; tasks start in the order of the calls.
class WorkerPool {
 public:
  explicit WorkerPool(std::size_t threads);

  void run(std::function<void()> task);

  /// Ends the threads after the task each is at; what is still queued is dropped. For the end of the process only.
  void stop();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace keyferry::large_object
