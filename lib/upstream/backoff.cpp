#include "upstream/backoff.h"

#include <algorithm>

namespace keyferry::upstream {

void Backoff::failed(base::TimePoint when) {
  if (failures_ == 0) first_ = when;
  last_ = when;
  if (failures_ > 0 && when < until_) return;
  base::Duration range = 2 * kFirst;
  for (unsigned i = 0; i < failures_ && range < most_; ++i) range *= 2;
  range = std::min(range, most_);
  std::uniform_int_distribution<base::Duration::rep> draw(range.count() / 2, range.count());
  until_ = when + base::Duration(draw(random_));
  ++failures_;
}

base::Duration Backoff::wait(base::TimePoint now) const {
  return failing() ? std::max(until_ - now, base::Duration::zero()) : base::Duration::zero();
}

}  // namespace keyferry::upstream
