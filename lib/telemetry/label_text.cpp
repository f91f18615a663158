#include "telemetry/label_text.h"

#include <cstddef>
#include <cstdint>

namespace keyferry::telemetry {

namespace {

constexpr std::size_t kMaxBytes = 160;

bool is_continuation(char c) {
  return (static_cast<std::uint8_t>(c) & 0xC0) == 0x80;
}

/// Bytes of the well-formed character that `text` starts with (RFC 3629: no overlong forms, no surrogates), 0 if there
/// is none.
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<std::uint8_t>(text[0]);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  const auto second = static_cast<std::uint8_t>(text[1]);
  const bool out_of_range = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                            (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return out_of_range ? 0 : length;
}

}  // namespace

std::string label_text(std::string_view value) {
  std::string out;
  while (!value.empty()) {
    const std::size_t length = character_length(value);
    const std::string_view piece = length == 0 ? std::string_view("?") : value.substr(0, length);
    if (out.size() + piece.size() > kMaxBytes) break;
    out += piece;
    value.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace keyferry::telemetry
