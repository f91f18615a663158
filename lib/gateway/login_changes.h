#pragma once

#include <atomic>
#include <cstdint>

namespace keyferry::gateway {

/// How many commands of clients may have changed who has to log in and who can (ACL SETUSER, CONFIG SET): one for all
/// workers. Any thread calls it. A session counts before its client can see the command's reply, so whoever connects
/// after that reply meets a worker that reads the new number.
class LoginChanges {
 public:
  void count() { number_.fetch_add(1, std::memory_order_release); }
  /// Never 0, so that nobody takes what it has never asked for known.
  std::uint64_t number() const { return number_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint64_t> number_{1};
};

}  // namespace keyferry::gateway
