#include "transfer/engine_metrics.h"

namespace keyferry::transfer {

namespace {

constexpr std::array kOpNames{"set", "get"};
constexpr std::array kOutcomeNames{"ok", "missing", "refused", "repeat", "lost"};
constexpr std::array kStageNames{"queue", "lease", "post", "wire"};
constexpr std::array<const char*, memory::kRegionStates> kRegionNames{"registering", "free",        "leased",
                                                                      "in_flight",   "quarantined", "closed"};

template <typename Enum>
std::size_t slot(Enum value) {
  return static_cast<std::size_t>(value);
}

bool is_open(LaneState state) {
  return state == LaneState::kHello || state == LaneState::kIdle || state == LaneState::kChecking ||
         state == LaneState::kBusy;
}

}  // namespace

const char* region_state_name(memory::RegionState state) {
  return kRegionNames[slot(state)];
}

EngineMetrics::EngineMetrics(telemetry::Registry& registry, const std::string& node, std::string_view transport)
    : shard_(registry.add_shard()) {
  using telemetry::Metric;
  for (std::size_t op = 0; op < kOps; ++op) {
    for (std::size_t i = 0; i < kOutcomes; ++i)
      transfers_[op][i] = &shard_.counter(Metric::kTransfersTotal, {kOpNames[op], "rdma", kOutcomeNames[i]});
    for (std::size_t i = 0; i < kStages; ++i)
      stages_[op][i] = &shard_.histogram(Metric::kTransferStageSeconds, {kOpNames[op], kStageNames[i]});
    bytes_[op] = &shard_.counter(Metric::kTransferBytesTotal, {kOpNames[op], "rdma"});
  }
  for (std::size_t i = 0; i < kLaneStates; ++i) {
    // A closed lane is no lane any more.
    lanes_[i] = i == slot(LaneState::kClosed)
                    ? nullptr
                    : &shard_.gauge(Metric::kLanes, {node, LaneRules::name(static_cast<LaneState>(i))});
  }
  connecting_ = &shard_.gauge(Metric::kUpstreamConnections, {node, transport, "connecting"});
  open_ = &shard_.gauge(Metric::kUpstreamConnections, {node, transport, "open"});
  for (std::size_t i = 0; i < memory::kRegionStates; ++i) {
    pool_bytes_[i] = &shard_.gauge(Metric::kPoolBytes, {kRegionNames[i]});
    regions_[i] = &shard_.gauge(Metric::kRegions, {kRegionNames[i]});
  }
  registration_ = &shard_.histogram(Metric::kRegistrationSeconds);
  joined_ = {&shard_.counter(Metric::kFlightsJoinedTotal, {"waiting"}),
             &shard_.counter(Metric::kFlightsJoinedTotal, {"written"})};
  verify_ = &shard_.histogram(Metric::kTransferStageSeconds, {"get", "verify"});
  mismatch_ = &shard_.counter(Metric::kChecksumMismatchTotal, {"get"});
}

void EngineMetrics::transfer(Op op, OutcomeLabel outcome, std::uint64_t bytes) {
  transfers_[slot(op)][slot(outcome)]->add();
  if (bytes != 0) bytes_[slot(op)]->add(bytes);
}

void EngineMetrics::stage(Op op, Stage stage, base::Duration duration) {
  stages_[slot(op)][slot(stage)]->observe(base::seconds(duration));
}

void EngineMetrics::lane(LaneState from, LaneState to) {
  if (from != LaneState::kClosed) lanes_[slot(from)]->add(-1);
  if (to != LaneState::kClosed) lanes_[slot(to)]->add(1);
  const auto delta = [&](bool before, bool after) { return (after ? 1.0 : 0.0) - (before ? 1.0 : 0.0); };
  connecting_->add(delta(from == LaneState::kConnecting, to == LaneState::kConnecting));
  open_->add(delta(is_open(from), is_open(to)));
}

void EngineMetrics::pool(const memory::PoolStats& stats) {
  for (std::size_t i = 0; i < memory::kRegionStates; ++i) {
    pool_bytes_[i]->set(static_cast<double>(stats.bytes[i]));
    regions_[i]->set(static_cast<double>(stats.regions[i]));
  }
}

void EngineMetrics::registration(base::Duration duration) {
  registration_->observe(base::seconds(duration));
}

void EngineMetrics::fence(std::string_view reason) {
  shard_.counter(telemetry::Metric::kFencesTotal, {reason}).add();
}

}  // namespace keyferry::transfer
