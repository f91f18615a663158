#include "crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <limits>

namespace keyferry::large_object {
namespace {

// Polynomials over GF(2) modulo the Castagnoli polynomial, in reflected form: the top bit is the coefficient of x^0.
constexpr std::uint32_t kPolynomial = 0x82F63B78U;
constexpr std::uint32_t kOne = 0x80000000U;
constexpr std::uint32_t kX = 0x40000000U;

constexpr std::uint32_t times_x(std::uint32_t a) {
  return (a >> 1U) ^ ((a & 1U) != 0 ? kPolynomial : 0U);
}

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1U) {
    if ((a & bit) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

// kPowers[i] is x^(2^i).
constexpr auto kPowers = [] {
  std::array<std::uint32_t, 67> powers{};
  powers[0] = kX;
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = multiply(powers[i - 1], powers[i - 1]);
  return powers;
}();

// x^(8 * bytes): what appending that many bytes multiplies a CRC with.
std::uint32_t shift_operator(std::uint64_t bytes) {
  std::uint32_t result = kOne;
  for (std::size_t i = 3; bytes != 0; ++i, bytes >>= 1U) {
    if ((bytes & 1U) != 0) result = multiply(result, kPowers[i]);
  }
  return result;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  // ISA-L takes and returns the raw register: initial value and final xor are the caller's. Its length is an int.
  constexpr std::size_t kSlice = std::size_t{1} << 30U;
  std::uint32_t reg = std::numeric_limits<std::uint32_t>::max();
  while (!bytes.empty()) {
    const auto slice = bytes.first(std::min(bytes.size(), kSlice));
    // It only reads, but is declared without const.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(slice.data()));
    reg = crc32_iscsi(data, static_cast<int>(slice.size()), reg);
    bytes = bytes.subspan(slice.size());
  }
  return ~reg;
}

void Crc32cCombiner::append(std::uint32_t crc, std::uint64_t length) {
  if (length != operator_length_ || operator_ == 0) {
    operator_length_ = length;
    operator_ = shift_operator(length);
  }
  crc_ = multiply(operator_, crc_) ^ crc;
}

}  // namespace keyferry::large_object
