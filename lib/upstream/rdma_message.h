#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace keyferry::upstream {

/// One control message of Valkey over RDMA: 32 bytes, big endian, sent by IBV_WR_SEND (valkey-over-rdma spec 2). A
/// plain value; fields that an opcode has not are 0. Inside of this folder.
struct RdmaMessage {
  static constexpr std::size_t kBytes = 32;
  enum class Opcode : std::uint16_t {
    kGetServerFeature = 0,
    kSetClientFeature = 1,
    kKeepalive = 2,
    kRegisterXferMemory = 3,
  };

  Opcode opcode = Opcode::kKeepalive;
  /// GetServerFeature and SetClientFeature.
  std::uint16_t select = 0;
  std::uint64_t features = 0;
  /// RegisterXferMemory: where the peer may write, how many bytes, and the key for it.
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t key = 0;

  bool operator==(const RdmaMessage&) const = default;
};

std::array<std::byte, RdmaMessage::kBytes> encode(const RdmaMessage& message);
/// Nothing for an opcode that the protocol has not, and for another length than 32 bytes: both are fatal (spec 2).
std::optional<RdmaMessage> decode(std::span<const std::byte> bytes);

}  // namespace keyferry::upstream
