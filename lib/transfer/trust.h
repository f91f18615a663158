#pragma once

#include <cstdint>

namespace keyferry::transfer {

/// Which error replies say that the server is done with the memory it was told of (transfer.trust_error_replies;
/// blob-rdma spec 3.4, C8).
enum class TrustErrorReplies : std::uint8_t {
  /// None: every error reply ends in a fence.
  kNever,
  /// Those that the server gives before it starts to move bytes, or after the last of them. An unknown text is not one
  /// of these.
  kBeforeRma,
  /// All, as the released client does.
  kAlways,
};

}  // namespace keyferry::transfer
