#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace keyferry::upstream {

/// The password that connections log in with now, where it may change while they live: a file or a token that is
/// renewed (R58). One thread writes (renew); every thread that dials reads (now), under a lock held for a copy.
/// number() is an atomic that only grows, for those who ask often whether theirs is still the one.
class Credentials {
 public:
  struct Login {
    std::string password;
    std::uint64_t number = 0;
  };

  explicit Credentials(std::string password) : password_(std::move(password)) {}
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  Login now() const {
    const std::lock_guard guard(mutex_);
    return {password_, number_.load(std::memory_order_relaxed)};
  }
  std::uint64_t number() const { return number_.load(std::memory_order_acquire); }
  void renew(std::string password) {
    const std::lock_guard guard(mutex_);
    password_ = std::move(password);
    number_.fetch_add(1, std::memory_order_release);
  }

 private:
  mutable std::mutex mutex_;
  std::string password_;
  std::atomic<std::uint64_t> number_{1};
};

}  // namespace keyferry::upstream
