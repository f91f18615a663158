#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keyferry::gateway {

/// What a command of which a key stands under `transfer.offload` needs beyond being forwarded (lib/gateway/OFFLOAD.md).
enum class OffloadRoute : std::uint8_t {
  /// Nothing: as it is.
  kNone,
  /// One key, whose value may be a large object.
  kGet,
  kGetDel,
  kGetEx,
  kStrlen,
  kMget,
  /// Forwarded; where the server says WRONGTYPE because of a large object, the client gets `object_error`.
  kNotOnObject,
  /// The same, but never sent to the server where a key holds a large object: it says something else there, or worse.
  kNeverOnObject,
};

struct Offloaded {
  OffloadRoute route = OffloadRoute::kNone;
  /// Those of the command's keys that stand under a prefix; views into its arguments.
  std::vector<std::string_view> keys;
  /// The whole error text, starting with its code.
  std::string_view object_error;
};

/// Whether the key begins with one of the prefixes.
bool is_offloaded(std::string_view key, std::span<const std::string> prefixes);

/// Decides by name and arguments (args[0] is the name, any case; all of the command, or what comes before a large
/// argument).
Offloaded classify_offload(std::span<const std::string_view> args, std::span<const std::string> prefixes);

/// Whether these are the arguments before the value of a SET of such a key.
bool is_offloaded_set(std::span<const std::string_view> args, std::span<const std::string> prefixes);

}  // namespace keyferry::gateway
