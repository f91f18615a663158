#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace keyferry::base {

/// A borrowed range of memory that may be written; who owns it is said where it is handed over.
using MutableBytes = std::span<std::byte>;
/// A borrowed range of memory that is only read.
using ConstBytes = std::span<const std::byte>;

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

inline ConstBytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Bytes of all pieces together.
inline std::size_t total(std::span<const ConstBytes> pieces) {
  std::size_t sum = 0;
  for (const ConstBytes piece : pieces) sum += piece.size();
  return sum;
}

}  // namespace keyferry::base
