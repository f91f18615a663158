#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "daemon/options.h"

namespace keyferry::daemon {

enum class OptionType : std::uint8_t {
  /// A map of further options.
  kSection,
  /// A list whose items are maps of further options (path "listen[].tcp"), or, where there is a row "path[]", plain
  /// values.
  kItems,
  kSize,
  kDuration,
  kCount,
  kBool,
  kChoice,
  kText,
  kTextList,
  /// host:port.
  kAddress,
  /// Permission bits in octal.
  kMode,
};

/// A value as read from text; which member counts follows from the type of the option.
struct Value {
  /// Bytes of a size, a count, permission bits, or a choice's place among the choices.
  std::uint64_t number = 0;
  base::Duration duration{};
  bool flag = false;
  /// A text, or a choice as written.
  std::string text;
  std::vector<std::string> list;
  HostPort address;
  /// The option's special word ("auto", "off") stood in place of a value.
  bool is_word = false;
};

/// One row of the table.
struct OptionInfo {
  /// "limits.pool_wait"; below an item of a list "listen[].tcp".
  std::string_view path{};
  OptionType type = OptionType::kSection;
  /// As it would stand in the file; empty: not set.
  std::string_view default_text{};
  std::string_view doc{};
  /// Bounds, both allowed: bytes, milliseconds or a number.
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  /// Allowed in place of a value: "auto", "off" or, for times, "0" (never).
  std::string_view word{};
  std::span<const std::string_view> choices{};
  /// Choices of other versions: an error that says so.
  std::span<const std::string_view> not_here{};
  /// For the commented file, where there is no default: what a value looks like.
  std::string_view example{};
  /// Puts a value into its member; below a list, into the last item. Null for sections; for kItems it adds an item.
  void (*set)(Options&, const Value&) = nullptr;
  /// kItems: empties the list.
  void (*clear)(Options&) = nullptr;
};

/// THE table of options, in the order of the file: loading, checks, --help-config, config/keyferry.yaml and
/// config/reference.md come from it.
std::span<const OptionInfo> option_table();
/// Null if there is none of that path.
const OptionInfo* find_option(std::string_view path);

/// Keys that the design has and this version has not, so that they are refused with that reason and nothing is half
/// there.
std::span<const std::string_view> keys_not_in_this_version();

/// The part of a path after its last dot, and the part before it ("" at the top).
std::string_view option_name(std::string_view path);
std::string_view option_section(std::string_view path);

}  // namespace keyferry::daemon
