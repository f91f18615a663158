#include "transfer/checked_value.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/crc32c.h"

namespace keyferry::transfer {

Checker::Checker(LandedValue value, std::size_t slice)
    : value_(std::move(value)), slice_(std::max<std::size_t>(slice, 1)) {
  std::uint64_t left = value_.length;
  for (const base::MutableBytes span : value_.loan.spans()) {
    const std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(left, span.size()));
    if (count == 0) continue;
    spans_.push_back(span.first(count));
    left -= count;
  }
}

bool Checker::step() {
  std::size_t left = slice_;
  while (left != 0 && !finished()) {
    const base::ConstBytes rest = spans_[at_].subspan(offset_);
    const base::ConstBytes part = rest.first(std::min(left, rest.size()));
    crc_ = base::crc32c(part, crc_);
    hashed_ += part.size();
    left -= part.size();
    offset_ += part.size();
    if (part.size() == rest.size()) {
      ++at_;
      offset_ = 0;
    }
  }
  return finished();
}

base::Result<CheckedValue> Checker::take() {
  if (!finished()) return base::Error{"the value is not hashed to its end"};
  if (!value_.loan) return base::Error{"the value was taken already"};
  if (hashed_ != value_.length) {
    return base::Error{"the server announced " + std::to_string(value_.length) + " bytes, but only " +
                       std::to_string(hashed_) + " have room here"};
  }
  if (crc_ != value_.crc) {
    char text[80];
    std::snprintf(text, sizeof(text), "checksum mismatch: the server announced 0x%08x, the bytes have 0x%08x",
                  value_.crc, crc_);
    return base::Error{text};
  }
  return CheckedValue(std::move(value_.loan), std::move(spans_), value_.length, crc_);
}

}  // namespace keyferry::transfer
