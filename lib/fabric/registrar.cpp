#include "fabric/registrar.h"

#include <rdma/fi_errno.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <string>
#include <utility>

#include "base/clock.h"
#include "fabric/advice.h"
#include "fabric/thread_start.h"

namespace keyferry::fabric {

namespace {

/// Only the registrar's thread writes these numbers.
void add_to(std::atomic<std::uint64_t>& number, std::uint64_t n) {
  number.store(number.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace

Registrar::Registrar(Domain& domain)
    : domain_(domain),
      virtual_addresses_(domain.has_mr_mode(FI_MR_VIRT_ADDR)),
      own_keys_(!domain.has_mr_mode(FI_MR_PROV_KEY)) {
  thread_ = std::thread([this] { run(); });
}

Registrar::~Registrar() {
  stop();
  while (!entries_.empty()) static_cast<void>(close(entries_.begin()));
}

void Registrar::post(base::Task task) {
  {
    const std::lock_guard guard(mutex_);
    tasks_.push_back(std::move(task));
  }
  posted_.notify_one();
}

void Registrar::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void Registrar::run() {
  begin_thread("kf-registrar");
  for (;;) {
    std::unique_lock lock(mutex_);
    posted_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    base::Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
  }
}

base::Result<Registration> Registrar::add(base::MutableBytes memory) {
  if (memory.empty()) return base::Error{"keyferry: can't register 0 bytes with the fabric", -FI_EINVAL};
  const std::uint64_t number = ++last_number_;
  const base::TimePoint start = base::Clock::steady().now();
  fid_mr* region = nullptr;
  const int code =
      fi_mr_reg(domain_.domain(), memory.data(), memory.size(), FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE,
                0, own_keys_ ? number : 0, 0, &region, nullptr);
  const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(base::Clock::steady().now() - start);
  add_to(nanoseconds_, static_cast<std::uint64_t>(spent.count()));
  if (code != 0) {
    add_to(failures_, 1);
    return base::Error{"keyferry: can't register " + std::to_string(memory.size()) +
                           " bytes with the fabric: " + domain_.library().error_text("fi_mr_reg", code) +
                           registration_advice(code, registered_bytes_.load(std::memory_order_relaxed)),
                       code};
  }
  const RegistrationId id{number};
  const auto position = entries_.emplace(id, Entry{region, memory.size()}).first;
  add_to(registrations_, 1);
  add_to(registered_bytes_, memory.size());
  const std::uint64_t key = fi_mr_key(region);
  if (key == FI_KEY_NOTAVAIL) {
    add_to(failures_, 1);
    static_cast<void>(close(position));
    return base::Error{
        "keyferry: the provider gives registrations raw keys, which BLOB.RDMA_* can't carry; use another provider",
        -FI_ENOKEY};
  }
  return Registration{id, key, virtual_addresses_ ? reinterpret_cast<std::uint64_t>(memory.data()) : 0};
}

base::Result<void> Registrar::remove(RegistrationId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return base::Error{
        "keyferry: there is no registration " + std::to_string(static_cast<std::uint64_t>(id)) + " to close",
        -FI_ENOENT};
  }
  return close(found);
}

base::Result<void> Registrar::close(std::map<RegistrationId, Entry>::iterator position) {
  const Entry entry = position->second;
  entries_.erase(position);
  const int code = fi_close(&entry.region->fid);
  registrations_.store(registrations_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  registered_bytes_.store(registered_bytes_.load(std::memory_order_relaxed) - entry.bytes, std::memory_order_relaxed);
  if (code == 0) return {};
  add_to(close_failures_, 1);
  domain_.abandon();
  base::Error error{"keyferry: can't close a registration of " + std::to_string(entry.bytes) +
                        " bytes, the memory is lost for good: " + domain_.library().error_text("fi_close", code),
                    code};
  spdlog::error("{}", error.message);
  return error;
}

void Registrar::read(FabricCounters& counters) const {
  counters.registrations = registrations_.load(std::memory_order_relaxed);
  counters.registered_bytes = registered_bytes_.load(std::memory_order_relaxed);
  counters.registration_seconds = static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) / 1e9;
  counters.registration_failures = failures_.load(std::memory_order_relaxed);
  counters.close_failures += close_failures_.load(std::memory_order_relaxed);
}

}  // namespace keyferry::fabric
