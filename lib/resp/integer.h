#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace keyferry::resp {

/// Reads a decimal integer the way Valkey reads lengths and counts: an optional minus, no plus, no leading zeros, no
/// blanks, nothing behind it. Nothing when the text is anything else or does not fit 64 bits.
std::optional<int64_t> parse_integer(std::string_view text);

/// As parse_integer(), but with what RESP3 allows in an integer reply: a plus sign and leading zeros.
std::optional<int64_t> parse_reply_integer(std::string_view text);

}  // namespace keyferry::resp
