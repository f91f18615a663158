#include "daemon/options_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/bytes.h"

namespace keyferry::daemon {

namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array kSizeUnits{Unit{"B", 1}, Unit{"KiB", base::kKiB}, Unit{"MiB", base::kMiB}, Unit{"GiB", base::kGiB},
                                Unit{"TiB", 1024 * base::kGiB}};
constexpr std::array kTimeUnits{Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000}, Unit{"h", 3'600'000}};

constexpr std::string_view kSizeForm = "a whole number with B, KiB, MiB, GiB or TiB";
constexpr std::string_view kTimeForm = "a whole number with ms, s, m or h";

std::optional<std::uint64_t> parse_number(std::string_view text, int base = 10) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A number and one of the units; a product beyond 64 bits is as wrong as one beyond the bounds.
template <std::size_t N>
std::optional<std::uint64_t> parse_with_unit(std::string_view text, const std::array<Unit, N>& units) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_number(text.substr(0, digits));
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& one) { return one.name == text.substr(digits); });
  if (!number || unit == units.end()) return std::nullopt;
  if (*number > std::numeric_limits<std::uint64_t>::max() / unit->factor)
    return std::numeric_limits<std::uint64_t>::max();
  return *number * unit->factor;
}

template <std::size_t N>
std::string with_largest_unit(std::uint64_t number, const std::array<Unit, N>& units) {
  for (std::size_t i = N; i-- > 0;) {
    if (number != 0 && number % units[i].factor == 0)
      return std::to_string(number / units[i].factor) + std::string(units[i].name);
  }
  return std::to_string(number);
}

std::string list_text(std::span<const std::string_view> items) {
  std::string all;
  for (std::size_t i = 0; i < items.size(); ++i)
    all += (i == 0 ? "" : i + 1 == items.size() ? " or " : ", ") + std::string(items[i]);
  return all;
}

base::Result<Value> bounded(const OptionInfo& info, std::optional<std::uint64_t> number, std::string_view form) {
  if (!number) return base::Error{"not " + std::string(form)};
  if (*number < info.least || *number > info.most) return base::Error{"out of range"};
  Value value;
  value.number = *number;
  return value;
}

base::Result<Value> parse_choice(const OptionInfo& info, std::string_view text) {
  if (std::find(info.not_here.begin(), info.not_here.end(), text) != info.not_here.end())
    return base::Error{"not supported by this version"};
  const auto found = std::find(info.choices.begin(), info.choices.end(), text);
  if (found == info.choices.end()) return base::Error{"not one of the choices"};
  Value value;
  value.number = static_cast<std::uint64_t>(found - info.choices.begin());
  value.text = text;
  return value;
}

base::Result<Value> parse_bool(std::string_view text) {
  Value value;
  value.flag = text == "true";
  if (!value.flag && text != "false") return base::Error{"not true or false"};
  return value;
}

base::Result<Value> parse_text(std::string_view text) {
  if (text.empty()) return base::Error{"empty"};
  const bool has_control =
      std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; });
  if (has_control) return base::Error{"holds control characters"};
  Value value;
  value.text = text;
  return value;
}

base::Result<Value> parse_address(std::string_view text) {
  const auto address = parse_host_port(text);
  if (!address) return base::Error{"not host:port"};
  Value value;
  value.address = *address;
  return value;
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  return with_largest_unit(bytes, kSizeUnits);
}

std::string duration_text(std::uint64_t milliseconds) {
  return with_largest_unit(milliseconds, kTimeUnits);
}

std::optional<HostPort> parse_host_port(std::string_view text) {
  std::string_view host;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find("]:");
    if (end == std::string_view::npos) return std::nullopt;
    host = text.substr(1, end - 1);
    port = text.substr(end + 2);
    if (host.find(':') == std::string_view::npos) return std::nullopt;
  } else {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  const auto number = parse_number(port);
  const auto is_host_character = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".-_:%").find(c) != std::string_view::npos;
  };
  if (host.empty() || host.size() > 255 || !std::all_of(host.begin(), host.end(), is_host_character))
    return std::nullopt;
  if (!number || *number == 0 || *number > 65535) return std::nullopt;
  return HostPort{std::string(host), static_cast<std::uint16_t>(*number)};
}

base::Result<Value> parse_value(const OptionInfo& info, std::string_view text) {
  if (!info.word.empty() && text == info.word) {
    Value value;
    value.is_word = true;
    return value;
  }
  switch (info.type) {
    case OptionType::kSize:
      return bounded(info, parse_with_unit(text, kSizeUnits), kSizeForm);
    case OptionType::kDuration: {
      base::Result<Value> value = bounded(info, parse_with_unit(text, kTimeUnits), kTimeForm);
      if (value) value->duration = std::chrono::milliseconds(value->number);
      return value;
    }
    case OptionType::kCount:
      return bounded(info, parse_number(text), "a whole number");
    case OptionType::kMode:
      return bounded(info, parse_number(text, 8), "an octal number");
    case OptionType::kBool:
      return parse_bool(text);
    case OptionType::kChoice:
      return parse_choice(info, text);
    case OptionType::kText:
      return parse_text(text);
    case OptionType::kAddress:
      return parse_address(text);
    case OptionType::kTextList:
    case OptionType::kSection:
    case OptionType::kItems:
      break;
  }
  return base::Error{"not a plain value"};
}

std::string allowed_text(const OptionInfo& info) {
  const std::string word = info.word.empty() ? "" : std::string(info.word) + ", or ";
  switch (info.type) {
    case OptionType::kSection:
      return "a map of keys";
    case OptionType::kItems:
      return "a list";
    case OptionType::kSize:
      return word + std::string(kSizeForm) + ", " + size_text(info.least) + " to " + size_text(info.most);
    case OptionType::kDuration:
      return word + std::string(kTimeForm) + ", " + duration_text(info.least) + " to " + duration_text(info.most);
    case OptionType::kCount:
      return word + "a whole number, " + std::to_string(info.least) + " to " + std::to_string(info.most);
    case OptionType::kMode:
      return word + "an octal number, 0 to 0777";
    case OptionType::kBool:
      return "true or false";
    case OptionType::kChoice:
      return list_text(info.choices);
    case OptionType::kText:
      return "a text";
    case OptionType::kTextList:
      return "a list of texts";
    case OptionType::kAddress:
      return word + "host:port, [host]:port for IPv6, port 1 to 65535";
  }
  return {};
}

}  // namespace keyferry::daemon
