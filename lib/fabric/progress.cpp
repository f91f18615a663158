#include "fabric/progress.h"

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "fabric/thread_start.h"

namespace keyferry::fabric {

namespace {

/// On the queue: traffic ends the sleep at once, the limit is for what a provider forgets to signal.
constexpr int kQueueSleepMs = 10;
/// Without a wait object, while something is owed.
constexpr std::chrono::milliseconds kPollPause(1);
/// Where the NIC moves the bytes, the queue is only looked at for error entries.
constexpr std::chrono::milliseconds kCheckPause(100);
constexpr auto kLogPause = std::chrono::seconds(10);
// A queue that gives nothing but failures won't recover: nothing closes and opens it.
constexpr unsigned kFailuresToLose = 64;
constexpr std::size_t kEntries = 16;

}  // namespace

ProgressThread::ProgressThread(Domain& domain, bool needs_polling)
    : domain_(domain), needs_polling_(needs_polling), can_block_(domain.waitable()) {
  if (needs_polling && !domain.waitable()) {
    spdlog::warn(
        "fabric: the provider's completion queue can't be slept on; it is read every millisecond while a transfer "
        "runs");
  }
  thread_ = std::thread([this] { run(); });
}

void ProgressThread::post(base::Task task) {
  {
    const std::lock_guard guard(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake();
}

void ProgressThread::raise() {
  // Asleep on the queue it is woken by the traffic that is to come: a signal would cost two switches before that.
  if (owed_.fetch_add(1) == 0) unpark();
}

void ProgressThread::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void ProgressThread::unpark() {
  {
    const std::lock_guard guard(mutex_);
    woken_ = true;
  }
  parked_.notify_one();
}

void ProgressThread::wake() {
  unpark();
  if (on_queue_.load()) static_cast<void>(fi_cq_signal(domain_.queue()));
}

void ProgressThread::run() {
  begin_thread("kf-fabric");
  while (run_tasks()) {
    on_queue_.store(can_block_ && owed_.load() > 0);
    if (on_queue_.load()) {
      sleep_on_queue();
    } else {
      park();
    }
  }
}

bool ProgressThread::run_tasks() {
  std::deque<base::Task> tasks;
  bool last = false;
  {
    const std::lock_guard guard(mutex_);
    woken_ = false;
    tasks.swap(tasks_);
    last = stopping_;
  }
  for (base::Task& task : tasks) task();
  return !last;
}

void ProgressThread::sleep_on_queue() {
  fi_cq_entry entry{};
  const ssize_t got = fi_cq_sread(domain_.queue(), &entry, 1, nullptr, kQueueSleepMs);
  if (got >= 0 || got == -FI_EAGAIN || got == -FI_EINTR) return drain();
  if (got == -FI_EAVAIL && read_error_entry()) return drain();
  can_block_ = false;
  spdlog::warn("fabric: {} on provider {}; the completion queue is read every millisecond while a transfer runs",
               domain_.library().error_text("fi_cq_sread", static_cast<int>(got)),
               domain_.info().fabric_attr->prov_name);
}

void ProgressThread::park() {
  {
    std::unique_lock lock(mutex_);
    const auto woken = [this] { return woken_; };
    if (owed_.load() > 0) {
      parked_.wait_for(lock, needs_polling_ ? kPollPause : kCheckPause, woken);
    } else {
      parked_.wait(lock, woken);
    }
  }
  drain();
}

void ProgressThread::drain() {
  fi_cq_entry entries[kEntries];
  for (;;) {
    const ssize_t got = fi_cq_read(domain_.queue(), entries, kEntries);
    if (got > 0) continue;
    if (got == -FI_EAVAIL && read_error_entry()) continue;
    const bool failed = got != 0 && got != -FI_EAVAIL && got != -FI_EAGAIN && got != -FI_EINTR;
    failures_in_row_ = failed ? failures_in_row_ + 1 : 0;
    if (!failed) return;
    count_error(domain_.library().error_text("fi_cq_read", static_cast<int>(got)));
    if (got == -FI_EOVERRUN || failures_in_row_ >= kFailuresToLose) queue_lost_.store(true, std::memory_order_relaxed);
    return;
  }
}

bool ProgressThread::read_error_entry() {
  fi_cq_err_entry entry{};
  const ssize_t got = fi_cq_readerr(domain_.queue(), &entry, 0);
  if (got == -FI_EAGAIN) return false;
  const int code = got < 0 ? static_cast<int>(got) : entry.err;
  count_error(domain_.library().error_text("completion queue", code) + ", provider's code " +
              std::to_string(entry.prov_errno));
  return got > 0;
}

void ProgressThread::count_error(const std::string& text) {
  queue_errors_.store(queue_errors_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const base::TimePoint now = base::Clock::steady().now();
  if (last_error_log_ != base::TimePoint{} && now - last_error_log_ < kLogPause) {
    ++errors_not_logged_;
    return;
  }
  spdlog::warn("fabric: {} ({} more not shown)", text, std::exchange(errors_not_logged_, 0));
  last_error_log_ = now;
}

}  // namespace keyferry::fabric
