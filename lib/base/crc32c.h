#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace keyferry::base {

/// CRC-32C (Castagnoli) as it stands on the wire: reflected, initial value and final xor all ones (blob-rdma spec 5.1).
/// `crc` is the checksum of all bytes before `bytes`, 0 for none, so that a value is hashed in slices as it comes.
std::uint32_t crc32c(ConstBytes bytes, std::uint32_t crc = 0);

/// The checksum of A followed by B, from the checksum of each and the length of B in bytes (blob-rdma spec 5.3).
std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_length);

}  // namespace keyferry::base
