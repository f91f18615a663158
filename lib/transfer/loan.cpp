#include <utility>

#include "transfer/engine.h"

namespace keyferry::transfer {

Loan::Loan(std::shared_ptr<Owner> owner, std::uint64_t lease, std::vector<base::MutableBytes> spans,
           std::uint64_t length)
    : owner_(std::move(owner)), lease_(lease), spans_(std::move(spans)), length_(length) {}

Loan& Loan::operator=(Loan&& other) noexcept {
  if (this != &other) {
    if (owner_) owner_->returned(lease_);
    owner_ = std::move(other.owner_);
    lease_ = other.lease_;
    spans_ = std::move(other.spans_);
    length_ = other.length_;
  }
  return *this;
}

Loan::~Loan() {
  if (owner_) owner_->returned(lease_);
}

}  // namespace keyferry::transfer
