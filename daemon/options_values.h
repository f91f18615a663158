#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "daemon/options_table.h"

namespace keyferry::daemon {

/// Reads one plain value by its row: type, bounds, choices, special word. The error says what is wrong, without key and
/// value and without what is allowed (allowed_text()). Pure functions, any thread.
base::Result<Value> parse_value(const OptionInfo& info, std::string_view text);

/// What a row allows, as a phrase: "a size from 4KiB to 1GiB".
std::string allowed_text(const OptionInfo& info);

/// Sizes as the file writes them: 64KiB; 1000B where no unit divides it.
std::string size_text(std::uint64_t bytes);
/// Times as the file writes them: 250ms, 30s, 5m, 24h.
std::string duration_text(std::uint64_t milliseconds);

/// host:port or [host]:port; nothing if it is neither.
std::optional<HostPort> parse_host_port(std::string_view text);

}  // namespace keyferry::daemon
