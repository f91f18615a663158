#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "memory/pool.h"
#include "telemetry/registry.h"
#include "transfer/blob_reply.h"
#include "transfer/states.h"

namespace keyferry::transfer {

/// How a transfer ended, as the label `outcome` says it.
enum class OutcomeLabel : std::uint8_t { kOk, kMissing, kRefused, kRepeat, kLost };
/// The stages that the engine sees; verify and deliver are the gateway's.
enum class Stage : std::uint8_t { kQueue, kLease, kPost, kWire };

/// The engine's own shard of numbers. Engine's thread only.
class EngineMetrics {
 public:
  EngineMetrics(telemetry::Registry& registry, std::string node, std::string_view transport);

  void transfer(Op op, OutcomeLabel outcome, std::uint64_t bytes);
  void stage(Op op, Stage stage, base::Duration duration);
  /// A lane came (from == kClosed) or changed its state.
  void lane(LaneState from, LaneState to);
  void pool(const memory::PoolStats& stats);
  void registration(base::Duration duration);
  void fence(std::string_view reason);

 private:
  static constexpr std::size_t kOps = 2;
  static constexpr std::size_t kOutcomes = 5;
  static constexpr std::size_t kStages = 4;

  telemetry::Shard& shard_;
  std::array<std::array<telemetry::Counter*, kOutcomes>, kOps> transfers_;
  std::array<telemetry::Counter*, kOps> bytes_;
  std::array<std::array<telemetry::Histogram*, kStages>, kOps> stages_;
  std::array<telemetry::Gauge*, kLaneStates> lanes_;
  telemetry::Gauge* connecting_;
  telemetry::Gauge* open_;
  std::array<telemetry::Gauge*, memory::kRegionStates> pool_bytes_;
  std::array<telemetry::Gauge*, memory::kRegionStates> regions_;
  telemetry::Histogram* registration_;
};

/// As metrics and /status.json name a region's state.
const char* region_state_name(memory::RegionState state);

}  // namespace keyferry::transfer
