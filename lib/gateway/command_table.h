#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace keyferry::gateway {

/// How the gateway carries a command.
enum class Route : std::uint8_t {
  /// Forwarded on a shared channel.
  kOrdinary,
  /// Answered here (gateway/local_commands.h).
  kLocal,
  /// BLOB.TCP_SET key value / BLOB.TCP_GET key: by the fabric from the threshold up, else on a bulk connection.
  kBlobSet,
  kBlobGet,
  /// Refused with `refusal`; the connection lives (R7).
  kRefused,
  /// A line of HTTP: the client is closed without a reply, as the server does, lest a web page drive it (cross-protocol
  /// scripting). Never forwarded: it would
  /// end a connection that others share.
  kHangUp,
};

struct Classified {
  Route route = Route::kOrdinary;
  /// For kRefused: the whole error text, starting with its code.
  std::string_view refusal;
};

/// Decides by name and arguments (args[0] is the name, any case). What the table does not know is ordinary: arity,
/// unknown commands and ACL are the server's to judge. Only the arguments that are given are looked at, so the name
/// alone is enough for most.
Classified classify(std::span<const std::string_view> args);

/// True if both are equal, ASCII letters in any case. `upper` must be upper case.
bool equals_upper(std::string_view text, std::string_view upper);

}  // namespace keyferry::gateway
