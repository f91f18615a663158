#include "fabric/progress.h"

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "fabric/thread_start.h"

namespace keyferry::fabric {

namespace {

/// While something is owed: events end the sleep at once, the limit is for those that a provider forgets to signal.
constexpr int kOwedSleepMs = 10;
/// While nothing is owed. Wakes are remembered by the queue, so this only bounds what a defect of a provider could cost.
constexpr int kIdleSleepMs = 1000;
/// Without a wait object, while something is owed.
constexpr auto kPollPause = std::chrono::milliseconds(1);
/// Where the NIC moves the bytes, the queue is only looked at for error entries.
constexpr auto kCheckPause = std::chrono::milliseconds(100);
constexpr auto kLogPause = std::chrono::seconds(10);
constexpr std::size_t kEntries = 16;

}  // namespace

ProgressThread::ProgressThread(Domain& domain, bool needs_polling)
    : domain_(domain), needs_polling_(needs_polling), blocking_(domain.waitable()) {
  if (needs_polling && !domain.waitable()) {
    spdlog::warn("fabric: the provider's completion queue can't be slept on; it is read every millisecond while a transfer runs");
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
  if (owed_.fetch_add(1) == 0) wake();
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

void ProgressThread::wake() {
  if (blocking_.load()) static_cast<void>(fi_cq_signal(domain_.queue()));
  {
    const std::lock_guard guard(mutex_);
    woken_ = true;
  }
  parked_.notify_one();
}

void ProgressThread::run() {
  begin_thread("kf-fabric");
  while (run_tasks()) {
    if (blocking_.load(std::memory_order_relaxed)) {
      wait_on_queue();
    } else {
      wait_parked();
    }
  }
}

bool ProgressThread::run_tasks() {
  std::deque<base::Task> tasks;
  bool last = false;
  {
    const std::lock_guard guard(mutex_);
    tasks.swap(tasks_);
    last = stopping_;
  }
  for (base::Task& task : tasks) task();
  return !last;
}

void ProgressThread::wait_on_queue() {
  fi_cq_entry entry{};
  const ssize_t got = fi_cq_sread(domain_.queue(), &entry, 1, nullptr, owed_.load() > 0 ? kOwedSleepMs : kIdleSleepMs);
  if (got >= 0 || got == -FI_EAGAIN || got == -FI_EINTR) return drain();
  if (got == -FI_EAVAIL && read_error_entry()) return drain();
  blocking_.store(false);
  spdlog::warn("fabric: {} on provider {}; the completion queue is read every millisecond while a transfer runs",
               domain_.library().error_text("fi_cq_sread", static_cast<int>(got)), domain_.info().fabric_attr->prov_name);
}

void ProgressThread::wait_parked() {
  {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return woken_; };
    if (owed_.load() > 0) {
      if (needs_polling_) {
        parked_.wait_for(lock, kPollPause, ready);
      } else {
        parked_.wait_for(lock, kCheckPause, ready);
      }
    } else {
      parked_.wait(lock, ready);
    }
    woken_ = false;
  }
  drain();
}

void ProgressThread::drain() {
  fi_cq_entry entries[kEntries];
  for (;;) {
    const ssize_t got = fi_cq_read(domain_.queue(), entries, kEntries);
    if (got > 0) continue;
    if (got == -FI_EAVAIL && read_error_entry()) continue;
    if (got != 0 && got != -FI_EAVAIL && got != -FI_EAGAIN && got != -FI_EINTR) count_error(domain_.library().error_text("fi_cq_read", static_cast<int>(got)));
    return;
  }
}

bool ProgressThread::read_error_entry() {
  fi_cq_err_entry entry{};
  const ssize_t got = fi_cq_readerr(domain_.queue(), &entry, 0);
  if (got == -FI_EAGAIN) return false;
  const int code = got < 0 ? static_cast<int>(got) : entry.err;
  count_error(domain_.library().error_text("completion queue", code) + ", provider's code " + std::to_string(entry.prov_errno));
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
