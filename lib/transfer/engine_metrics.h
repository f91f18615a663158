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
/// The stages that a transfer goes through on the engine's thread.
enum class Stage : std::uint8_t { kQueue, kLease, kPost, kWire };

/// The engine's own shard of numbers. Engine's thread only.
class EngineMetrics {
 public:
  EngineMetrics(telemetry::Registry& registry, const std::string& node, std::string_view transport);

  void transfer(Op op, OutcomeLabel outcome, std::uint64_t bytes);
  void stage(Op op, Stage stage, base::Duration duration);
  /// A lane came (from == kClosed) or changed its state.
  void lane(LaneState from, LaneState to);
  void pool(const memory::PoolStats& stats);
  void registration(base::Duration duration);
  void fence(std::string_view reason);
  /// A GET joined a flight, one that was written to a lane or one that was not.
  void joined(bool written) { joined_[written ? 1 : 0]->add(); }
  /// A value was hashed in that time; and it was wrong.
  void verified(base::Duration took) { verify_->observe(base::seconds(took)); }
  void mismatch() { mismatch_->add(); }

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
  std::array<telemetry::Counter*, 2> joined_;
  telemetry::Histogram* verify_;
  telemetry::Counter* mismatch_;
};

/// As metrics and /status.json name a region's state.
const char* region_state_name(memory::RegionState state);

}  // namespace keyferry::transfer
