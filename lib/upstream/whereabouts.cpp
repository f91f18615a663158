#include "upstream/whereabouts.h"

#include <algorithm>

namespace keyferry::upstream {

bool Whereabouts::doubt(base::TimePoint now) {
  const std::lock_guard guard(mutex_);
  if (doubted_ && now - *doubted_ < wait_) return false;
  // Long after the last one it is another story.
  const bool goes_on = doubted_ && now - *doubted_ < 2 * kLongestWait;
  wait_ = goes_on ? std::min(2 * wait_, kLongestWait) : kFirstWait;
  doubted_ = now;
  told_.reset();
  ++state_.doubts;
  number_.fetch_add(1, std::memory_order_release);
  return true;
}

std::optional<Address> Whereabouts::known(base::TimePoint now) const {
  const std::lock_guard guard(mutex_);
  return told_ && now - *told_ < kFresh ? state_.primary : std::nullopt;
}

std::size_t Whereabouts::first() const {
  const std::lock_guard guard(mutex_);
  return by_;
}

bool Whereabouts::told(const Address& primary, std::size_t by, base::TimePoint asked, base::TimePoint now) {
  const std::lock_guard guard(mutex_);
  const bool another = state_.primary && *state_.primary != primary;
  if (another && moved_ && asked < *moved_) return false;
  state_.primary = primary;
  told_ = now;
  by_ = by;
  if (!another) return false;
  moved_ = now;
  ++state_.moves;
  number_.fetch_add(1, std::memory_order_release);
  return true;
}

void Whereabouts::wrong(const Address& primary) {
  const std::lock_guard guard(mutex_);
  if (!sentinels_ || state_.primary != primary) return;
  told_.reset();
  by_ = (by_ + 1) % sentinels_->sentinels.size();
}

Whereabouts::State Whereabouts::state() const {
  const std::lock_guard guard(mutex_);
  return state_;
}

}  // namespace keyferry::upstream
