#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/loop.h"
#include "transfer/engine.h"

namespace keyferry::gateway {

/// The memory of the value that was stored last, kept for a moment: a client that stores values of one length one after
/// the other, as the blocks of a KV cache are, has the next one's without a way to the engine and back. It is lent to
/// no other client. Belongs to the worker's thread.
class KeptLoan {
 public:
  /// For at least so long, and less than twice that, unless it is taken, replaced or dropped.
  static constexpr base::Duration kFor = std::chrono::milliseconds(20);

  explicit KeptLoan(base::Loop& loop) : timer_(loop) {}

  /// In place of what is kept now, which goes back.
  void keep(std::uint64_t client, transfer::Loan loan);
  /// Empty if nothing of that client and length is kept. Of another length it goes back: it would count as held by a
  /// client that is about to ask for more. So it does if somebody waits for memory (`wanted`), whose turn is before.
  transfer::Loan take(std::uint64_t client, std::uint64_t length, bool wanted);
  /// That client is gone.
  void drop(std::uint64_t client);
  bool empty() const { return !loan_; }

 private:
  void look_later();

  std::uint64_t client_ = 0;
  transfer::Loan loan_;
  /// It was kept since the timer was set.
  bool fresh_ = false;
  bool timer_set_ = false;
  base::Timer timer_;
};

}  // namespace keyferry::gateway
