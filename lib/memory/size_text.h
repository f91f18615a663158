#pragma once

#include <cstdint>
#include <iterator>
#include <string>

namespace keyferry::memory {

/// A size as a person writes it in the configuration, with its unit: "64 MiB"; "1000 bytes" where no unit divides it.
inline std::string size_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + kUnits[unit];
}

}  // namespace keyferry::memory
