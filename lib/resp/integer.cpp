#include "resp/integer.h"

#include <limits>

namespace keyferry::resp {
namespace {

std::optional<int64_t> digits_to_integer(std::string_view digits, bool negative) {
  if (digits.empty()) return std::nullopt;
  const uint64_t bound = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  uint64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (value > (bound - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  // Negated as unsigned, because the smallest number has no positive counterpart.
  return static_cast<int64_t>(negative ? ~value + 1 : value);
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::string_view digits = negative ? text.substr(1) : text;
  if (digits.starts_with('0') && text.size() > 1) return std::nullopt;
  return digits_to_integer(digits, negative);
}

std::optional<int64_t> parse_reply_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  const bool sign = negative || text.starts_with('+');
  return digits_to_integer(sign ? text.substr(1) : text, negative);
}

}  // namespace keyferry::resp
