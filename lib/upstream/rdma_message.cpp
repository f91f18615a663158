#include "upstream/rdma_message.h"

namespace keyferry::upstream {

namespace {

// Offsets within the 32 bytes (valkey-over-rdma spec 2).
constexpr std::size_t kSelect = 2;
constexpr std::size_t kFeatures = 24;
constexpr std::size_t kAddress = 16;
constexpr std::size_t kLength = 24;
constexpr std::size_t kKey = 28;

template <typename Number>
void put(std::span<std::byte> bytes, std::size_t at, Number number) {
  for (std::size_t i = sizeof(Number); i-- > 0; number = static_cast<Number>(number >> 4 >> 4))
    bytes[at + i] = static_cast<std::byte>(number & 0xff);
}

template <typename Number>
Number get(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) number = number << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return static_cast<Number>(number);
}

}  // namespace

std::array<std::byte, RdmaMessage::kBytes> encode(const RdmaMessage& message) {
  std::array<std::byte, RdmaMessage::kBytes> bytes{};
  put(bytes, 0, static_cast<std::uint16_t>(message.opcode));
  switch (message.opcode) {
    case RdmaMessage::Opcode::kGetServerFeature:
    case RdmaMessage::Opcode::kSetClientFeature:
      put(bytes, kSelect, message.select);
      put(bytes, kFeatures, message.features);
      break;
    case RdmaMessage::Opcode::kRegisterXferMemory:
      put(bytes, kAddress, message.address);
      put(bytes, kLength, message.length);
      put(bytes, kKey, message.key);
      break;
    case RdmaMessage::Opcode::kKeepalive:
      break;
  }
  return bytes;
}

std::optional<RdmaMessage> decode(std::span<const std::byte> bytes) {
  if (bytes.size() != RdmaMessage::kBytes) return std::nullopt;
  RdmaMessage message;
  const auto opcode = get<std::uint16_t>(bytes, 0);
  if (opcode > static_cast<std::uint16_t>(RdmaMessage::Opcode::kRegisterXferMemory)) return std::nullopt;
  message.opcode = static_cast<RdmaMessage::Opcode>(opcode);
  switch (message.opcode) {
    case RdmaMessage::Opcode::kGetServerFeature:
    case RdmaMessage::Opcode::kSetClientFeature:
      message.select = get<std::uint16_t>(bytes, kSelect);
      message.features = get<std::uint64_t>(bytes, kFeatures);
      break;
    case RdmaMessage::Opcode::kRegisterXferMemory:
      message.address = get<std::uint64_t>(bytes, kAddress);
      message.length = get<std::uint32_t>(bytes, kLength);
      message.key = get<std::uint32_t>(bytes, kKey);
      break;
    case RdmaMessage::Opcode::kKeepalive:
      break;
  }
  return message;
}

}  // namespace keyferry::upstream
