#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "transfer/store_steps.h"

namespace keyferry::gateway {

/// The words behind `SET key value` or `GETEX key`, as far as they say when the key shall end.
struct ExpiryOptions {
  enum class Kind : std::uint8_t {
    /// No words at all.
    kNone,
    /// EX, PX, EXAT or PXAT alone, with a time that the server takes.
    kExpiry,
    /// PERSIST alone.
    kPersist,
    /// One of the four with what is no integer, or with a time that is none.
    kNoInteger,
    kNoTime,
    /// Anything else: for the server to judge.
    kOther,
  };
  Kind kind = Kind::kNone;
  transfer::Expiry expiry;
};

/// Pure function: any thread.
ExpiryOptions parse_expiry_options(std::span<const std::string_view> words);

}  // namespace keyferry::gateway
