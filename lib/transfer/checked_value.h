#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "transfer/engine.h"

namespace keyferry::transfer {

/// A value whose length and CRC-32C agree with what the server announced. Only a Checker that has hashed all of it
/// makes one, so that nothing unchecked can be sent to a client (R89). Move-only; owns the loan; may be moved to
/// another thread. Clients that wait for the same value share one (SharedValue): nobody changes it, any thread reads
/// it, and its loan goes back with the last of them.
class CheckedValue {
 public:
  CheckedValue(CheckedValue&&) noexcept = default;
  CheckedValue& operator=(CheckedValue&&) noexcept = default;

  std::uint64_t length() const { return length_; }
  std::uint32_t crc() const { return crc_; }
  /// The value's bytes in order, exactly length() of them; valid as long as this object.
  const std::vector<base::ConstBytes>& spans() const { return spans_; }

 private:
  friend class Checker;
  CheckedValue(Loan loan, std::vector<base::ConstBytes> spans, std::uint64_t length, std::uint32_t crc)
      : loan_(std::move(loan)), spans_(std::move(spans)), length_(length), crc_(crc) {}

  Loan loan_;
  std::vector<base::ConstBytes> spans_;
  std::uint64_t length_;
  std::uint32_t crc_;
};

using SharedValue = std::shared_ptr<const CheckedValue>;

/// Hashes a LandedValue in slices, so that a worker can do other things between them. Owns the loan until take(). One
/// thread at a time.
class Checker {
 public:
  /// `slice`: bytes a step hashes at most; 0 counts as 1.
  Checker(LandedValue value, std::size_t slice);

  /// Hashes the next slice. True when all is hashed; then take() tells how it ended.
  bool step();
  bool finished() const { return at_ == spans_.size(); }
  /// The value, or an Error that says what differs (its memory then goes back with this Checker). An error too if not
  /// finished. Once.
  base::Result<CheckedValue> take();

 private:
  LandedValue value_;
  std::size_t slice_;
  std::vector<base::ConstBytes> spans_;
  /// Span that is hashed next, and bytes of it that are done.
  std::size_t at_ = 0;
  std::size_t offset_ = 0;
  std::uint64_t hashed_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace keyferry::transfer
