#pragma once

#include <cstdint>
#include <string>

#include "resp/value.h"
#include "transfer/trust.h"

namespace keyferry::transfer {

enum class Op : std::uint8_t { kSet, kGet };

/// What the caller of a transfer is told.
enum class Verdict : std::uint8_t {
  kStored,
  kLanded,
  kMissing,
  /// The server's own error, one that the BLOB.TCP_* form gives too.
  kRefused,
  /// Only the RDMA form can give this: repeat as BLOB.TCP_*.
  kRepeat,
  /// The server's dialect lacks CRC on BLOB.RDMA_SET: send it again without.
  kWithoutCrc,
  /// Neither a result nor an error: nobody knows what the server did.
  kLost,
};

/// What becomes of the lane and of the memory that the command named.
enum class Aftermath : std::uint8_t {
  /// Both are usable at once.
  kUsable,
  /// The memory is; the lane's connection is of no more use.
  kReplaceLane,
  /// The server may still touch the memory: close the lane, and wait for that (C8, R88).
  kFence,
};

struct ReplyContext {
  Op op = Op::kSet;
  /// GET: bytes of all windows together.
  std::uint64_t window = 0;
  bool sent_crc = false;
  TrustErrorReplies trust = TrustErrorReplies::kBeforeRma;
};

struct ReplyOutcome {
  Verdict verdict = Verdict::kLost;
  Aftermath aftermath = Aftermath::kFence;
  /// kRefused: the whole error line without CR LF. kRepeat, kWithoutCrc: the reason for fallback_total. kLost: what
  /// came, for the client.
  std::string text;
  /// With kFence: the reason for fences_total.
  const char* fence_reason = "";
  /// kLanded: the object's length and CRC-32C as the server announced them.
  std::uint64_t length = 0;
  std::uint32_t crc = 0;
};

/// Reads a whole reply to BLOB.RDMA_SET or BLOB.RDMA_GET. Every known text stands in dialect.cpp. Any thread.
ReplyOutcome classify_reply(const resp::Value& reply, const ReplyContext& context);

}  // namespace keyferry::transfer
