#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/loop.h"
#include "memory/pool.h"
#include "transfer/engine.h"

namespace keyferry::transfer {

/// Where Loans come back to. Any thread calls returned(); the notice runs on the engine's loop. Two threads meet at
/// `loop_`: workers that return loans, and the engine, which closes the desk before its loop may go away; the mutex is
/// between those two. After close() a loan that comes back is forgotten.
class LoanDesk final : public Loan::Owner, public std::enable_shared_from_this<LoanDesk> {
 public:
  LoanDesk(base::Loop& loop, std::function<void(memory::LeaseId)> notice) : loop_(&loop), notice_(std::move(notice)) {}

  void returned(std::uint64_t lease) override {
    const std::lock_guard guard(mutex_);
    if (loop_ == nullptr) return;
    loop_->post([desk = weak_from_this(), lease] {
      const auto self = desk.lock();
      if (self && self->notice_) self->notice_(memory::LeaseId{lease});
    });
  }

  /// Engine's thread, or any when the engine's loop no longer runs.
  void close() {
    const std::lock_guard guard(mutex_);
    loop_ = nullptr;
    notice_ = nullptr;
  }

 private:
  std::mutex mutex_;
  base::Loop* loop_;
  std::function<void(memory::LeaseId)> notice_;
};

}  // namespace keyferry::transfer
