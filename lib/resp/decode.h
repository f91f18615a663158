#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "resp/value.h"

namespace keyferry::resp {

/// Bounds of decode(), which is for small replies (control commands, tests); large ones are scanned, not decoded.
struct DecodeLimits {
  uint64_t max_bulk = 16ULL * 1024 * 1024;  ///< bytes of one bulk
  uint64_t max_elements = 1024 * 1024;      ///< elements of the whole frame, at all depths
  size_t max_depth = 128;                   ///< aggregates inside one another
};

/// What became of decode().
struct DecodeResult {
  enum class Status : uint8_t { kOk, kIncomplete, kError };
  Status status = Status::kIncomplete;
  Value value;          ///< kOk
  size_t consumed = 0;  ///< kOk: bytes of the frame
  std::string error;    ///< kError: what was wrong, for the log

  bool ok() const { return status == Status::kOk; }
};

/// Decodes the frame at the start of `bytes`; more may follow it. Refuses what ReplyScanner refuses, and contents that
/// have no value: an integer beyond 64 bits, a malformed double or big number, a verbatim string without its format. A
/// line that has not ended yet is incomplete, whatever it holds. Any thread.
DecodeResult decode(std::string_view bytes, const DecodeLimits& limits = {});

}  // namespace keyferry::resp
