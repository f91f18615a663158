#include "base/crc32c.h"

#include <array>

#if __has_include(<isa-l/crc.h>)
#include <isa-l/crc.h>
#else
#include <crc.h>
#endif

namespace keyferry::base {

namespace {

/// A linear map over 32 bits: column i is the image of bit i.
using Matrix = std::array<std::uint32_t, 32>;

std::uint32_t times(const Matrix& matrix, std::uint32_t vector) {
  std::uint32_t image = 0;
  for (std::size_t bit = 0; vector != 0; ++bit, vector >>= 1U) {
    if ((vector & 1U) != 0) image ^= matrix[bit];
  }
  return image;
}

Matrix square(const Matrix& matrix) {
  Matrix result{};
  for (std::size_t bit = 0; bit < 32; ++bit) result[bit] = times(matrix, matrix[bit]);
  return result;
}

/// What one zero bit does to the shift register of the reflected polynomial.
Matrix one_zero_bit() {
  Matrix result{};
  result[0] = 0x82F63B78U;
  for (std::size_t bit = 1; bit < 32; ++bit) result[bit] = 1U << (bit - 1);
  return result;
}

}  // namespace

std::uint32_t crc32c(ConstBytes bytes, std::uint32_t crc) {
  // ISA-L takes and gives the bare register and an int length; the two inversions of the standard are ours.
  std::uint32_t state = ~crc;
  while (!bytes.empty()) {
    const std::size_t slice = bytes.size() < (std::size_t{1} << 30U) ? bytes.size() : (std::size_t{1} << 30U);
    auto* start = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    state = crc32_iscsi(start, static_cast<int>(slice), state);
    bytes = bytes.subspan(slice);
  }
  return ~state;
}

std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_length) {
  // Shift `first` by 8 * second_length zero bits: square-and-multiply over the bits of the length.
  Matrix power = one_zero_bit();
  for (int i = 0; i < 3; ++i) power = square(power);
  for (; second_length != 0; second_length >>= 1U) {
    if ((second_length & 1U) != 0) first = times(power, first);
    power = square(power);
  }
  return first ^ second;
}

}  // namespace keyferry::base
