#pragma once

#include <cstddef>
#include <cstdint>

#include "transfer/state_machine.h"

namespace keyferry::transfer {

/// A lane's life; drawn in the README, as the others are.
enum class LaneState : std::uint8_t {
  /// Dialling, then opening the endpoint.
  kConnecting,
  /// BLOB.RDMA_HELLO is written, or its addresses are being inserted: the connection is unsettled.
  kHello,
  kIdle,
  /// Idle for long: a PING asks whether it still is (R35). No transfer takes it meanwhile.
  kChecking,
  /// One transfer has it, from before its command is written.
  kBusy,
  /// Nothing is in flight: connection closed, endpoint closing.
  kDraining,
  /// A transfer ended without a trusted reply: connection closed, endpoint closing, memory waits for that.
  kFenced,
  kClosed,
};
inline constexpr std::size_t kLaneStates = 8;

struct LaneRules {
  using State = LaneState;
  static constexpr const char* kName = "lane";
  static const char* name(State state);
  static bool allowed(State from, State to);
};

/// A transfer's life in the engine; drawn in the README. Being leased comes before it and being verified and delivered
/// after it, both at the gateway.
enum class TransferState : std::uint8_t {
  /// Waits for a lane; nothing was sent.
  kQueued,
  /// Its command may have left: the server may touch the memory.
  kPosted,
  /// A whole reply is here.
  kAnswered,
  /// The answer is on its way to the caller; the server is done with the memory, or never knew of it.
  kEnded,
  /// The answer is on its way to the caller; the memory waits for the fence.
  kFenced,
};

/// The life of a GET that several clients may wait for; drawn in the README.
enum class FlightState : std::uint8_t {
  /// Waits for memory.
  kLeasing,
  /// Has it; another flight of its key is on a lane.
  kBehind,
  /// Waits for a lane.
  kQueued,
  /// Its command may have left.
  kOnLane,
  /// Landed; a worker hashes it.
  kChecking,
  /// Its waiters' answers are on their way, or they all left.
  kOver,
};

struct FlightRules {
  using State = FlightState;
  static constexpr const char* kName = "flight";
  static const char* name(State state);
  static bool allowed(State from, State to);
};

struct TransferRules {
  using State = TransferState;
  static constexpr const char* kName = "transfer";
  static const char* name(State state);
  static bool allowed(State from, State to);
};

}  // namespace keyferry::transfer
