#include "gateway/expiry_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "gateway/command_table.h"

namespace keyferry::gateway {

namespace {

struct Unit {
  std::string_view word;
  bool absolute;
  std::int64_t milliseconds;
};
constexpr std::array kUnits{
    Unit{"EX", false, 1000},
    Unit{"PX", false, 1},
    Unit{"EXAT", true, 1000},
    Unit{"PXAT", true, 1},
};

// The server's bound is what its clock can add; this is half of that, and far beyond anybody's wish.
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 2;

/// As strictly as the server: no plus sign, no blanks, no zeros in front.
std::optional<std::int64_t> integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits.front() == '0' && text != "0")) return std::nullopt;
  std::int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

ExpiryOptions parse_expiry_options(std::span<const std::string_view> words) {
  using Kind = ExpiryOptions::Kind;
  if (words.empty()) return {};
  if (words.size() == 1 && equals_upper(words[0], "PERSIST")) return {Kind::kPersist, {}};
  if (words.size() != 2) return {Kind::kOther, {}};
  const auto* unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& one) { return equals_upper(words[0], one.word); });
  if (unit == kUnits.end()) return {Kind::kOther, {}};
  const std::optional<std::int64_t> count = integer(words[1]);
  if (!count) return {Kind::kNoInteger, {}};
  if (*count <= 0 || *count > kMost / unit->milliseconds) return {Kind::kNoTime, {}};
  return {Kind::kExpiry, {unit->absolute, *count * unit->milliseconds}};
}

}  // namespace keyferry::gateway
