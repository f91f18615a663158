#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

namespace keyferry::transfer {

/// Whether BLOB.RDMA_* is worth trying, and why not. The engine's thread writes, any thread reads; each reason is one
/// atomic pointer to text that lives as long as this object or the program, so a reader sees an old or a new answer and
/// never half of one.
class Availability {
 public:
  /// `no_fabric`: the reason for good if not empty.
  explicit Availability(std::string no_fabric) : no_fabric_(std::move(no_fabric)) {
    if (!no_fabric_.empty()) local_.store(no_fabric_.c_str(), std::memory_order_release);
  }
  Availability(const Availability&) = delete;
  Availability& operator=(const Availability&) = delete;

  /// On this side: no fabric, no registration, stopping. A literal; final.
  void set_local(const char* reason) { local_.store(reason, std::memory_order_release); }
  /// On the server's side: what it refused; null when a lane is up again. A literal.
  void set_remote(const char* reason) { remote_.store(reason, std::memory_order_release); }

  bool available() const { return reason().empty(); }
  /// Empty if available.
  std::string_view reason() const {
    if (const char* local = local_.load(std::memory_order_acquire)) return local;
    if (const char* remote = remote_.load(std::memory_order_acquire)) return remote;
    return {};
  }
  /// The same for the identity of the configuration, or for another: what that one has no right to another may have.
  std::string_view reason_for(bool default_identity) const {
    const std::string_view reason = this->reason();
    return !default_identity && reason == "noperm" ? std::string_view() : reason;
  }

 private:
  const std::string no_fabric_;
  std::atomic<const char*> local_{nullptr};
  std::atomic<const char*> remote_{nullptr};
};

}  // namespace keyferry::transfer
