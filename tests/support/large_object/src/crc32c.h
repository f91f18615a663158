#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace keyferry::large_object {

/// CRC-32C (Castagnoli) as blob-rdma spec 5.1 defines it: initial value and final xor are both all ones. Any thread.
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// CRCs of neighbouring pieces put together (blob-rdma spec 5.3). Keeps the operator of the last length, since most
/// pieces of an object have the same one. One thread.
class Crc32cCombiner {
 public:
  /// Appends a piece whose own CRC is `crc` and that is `length` bytes long.
  void append(std::uint32_t crc, std::uint64_t length);

  [[nodiscard]] std::uint32_t value() const { return crc_; }

 private:
  std::uint32_t crc_ = 0;
  std::uint64_t operator_length_ = 0;
  std::uint32_t operator_ = 0;
};

}  // namespace keyferry::large_object
