#pragma once

#include <cstdint>
#include <span>
#include <string_view>

// What the generations of the module call their commands and what their errors mean: THE place for names and texts
// (blob-rdma spec 1.3, 2.1 to 2.3, 2.8). Tables and pure functions: any thread.

namespace keyferry::transfer {

/// One generation. Which one a server has shows by the first HELLO that it knows. The generations before these answer a
/// GET with a bare length: without a checksum nothing of theirs could be handed out (promise 3), so they are not here.
struct Dialect {
  std::string_view name;
  std::string_view hello;
  std::string_view set;
  std::string_view get;
  /// SET takes CRC.
  bool crc;
};

/// Newest first; at least one.
std::span<const Dialect> dialects();

/// Whether the server may be moving bytes when it says so (blob-rdma spec 3.4).
enum class Rma : std::uint8_t { kSettled, kMayRun };

/// What an error is to a transfer.
enum class Answer : std::uint8_t {
  /// The TCP form gives it too: passed on.
  kRefused,
  /// Only the RDMA form can give it.
  kRepeat,
  /// The server's SET has no CRC, if one was sent; else as kRepeat.
  kWithoutCrc,
  /// As kRepeat, and the lane's connection is of no more use.
  kReplaceLane,
  /// To a HELLO: the two sides disagree on whether there is a session (C2).
  kUnsettled,
};

struct KnownError {
  /// A text matches if it begins with `start` and holds `inside` (lower case) somewhere.
  std::string_view start;
  std::string_view inside;
  Answer answer;
  /// For fallback_total, fences_total and transport_info; a literal.
  const char* reason;
  Rma rma;
};

/// The first row that matches; `unknown` is the last of all, which matches everything.
const KnownError& known_error(std::string_view text);
bool is_unknown(const KnownError& error);

}  // namespace keyferry::transfer
