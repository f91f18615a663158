#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keyferry::large_object {

/// Unsigned decimal of the wire (blob-rdma spec 2.0): a leading '+' and leading zeros are taken; '-', blanks, 0x,
/// nothing and values above `max` are not.
std::optional<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t max = UINT64_MAX);

/// A size in the server's own notation: 4096, 64kb, 8mb, 1gb (and k, m, g for powers of 1000).
std::optional<std::uint64_t> parse_memory(std::string_view text);

/// Both cases; nullopt for an odd number of digits or anything that is no digit. Empty text gives no bytes.
std::optional<std::vector<std::byte>> from_hex(std::string_view text);

/// Lower case.
std::string to_hex(std::span<const std::byte> bytes);

bool equals_ignoring_case(std::string_view a, std::string_view b);

std::string to_lower(std::string_view text);

/// Splits at commas; blanks around a part and empty parts are dropped.
std::vector<std::string> split_list(std::string_view text);

}  // namespace keyferry::large_object
