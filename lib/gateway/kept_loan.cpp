#include "gateway/kept_loan.h"

#include <utility>

namespace keyferry::gateway {

void KeptLoan::keep(std::uint64_t client, transfer::Loan loan) {
  client_ = client;
  loan_ = std::move(loan);
  fresh_ = timer_set_;
  look_later();
}

transfer::Loan KeptLoan::take(std::uint64_t client, std::uint64_t length, bool wanted) {
  if (!loan_ || client_ != client) return {};
  transfer::Loan loan = std::exchange(loan_, {});
  return loan.length() == length && !wanted ? std::move(loan) : transfer::Loan{};
}

void KeptLoan::drop(std::uint64_t client) {
  if (client_ == client) loan_ = {};
}

/// Set once in kFor, not with each value.
void KeptLoan::look_later() {
  if (timer_set_) return;
  timer_set_ = true;
  timer_.start(kFor, [this] {
    timer_set_ = false;
    if (!loan_) return;
    if (std::exchange(fresh_, false)) return look_later();
    loan_ = {};
  });
}

}  // namespace keyferry::gateway
