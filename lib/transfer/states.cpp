#include "transfer/states.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <utility>

namespace keyferry::transfer {

namespace {

std::atomic<std::uint64_t> illegal_count{0};

template <typename State, std::size_t N>
bool listed(const std::array<std::pair<State, State>, N>& transitions, State from, State to) {
  return std::find(transitions.begin(), transitions.end(), std::pair(from, to)) != transitions.end();
}

constexpr std::array<std::pair<LaneState, LaneState>, 14> kLaneTransitions{{
    {LaneState::kConnecting, LaneState::kHello},
    {LaneState::kConnecting, LaneState::kDraining},
    {LaneState::kHello, LaneState::kIdle},
    {LaneState::kHello, LaneState::kDraining},
    {LaneState::kIdle, LaneState::kBusy},
    {LaneState::kIdle, LaneState::kDraining},
    {LaneState::kIdle, LaneState::kChecking},
    {LaneState::kChecking, LaneState::kIdle},
    {LaneState::kChecking, LaneState::kDraining},
    {LaneState::kBusy, LaneState::kIdle},
    // The reply is trusted, but the connection is of no more use.
    {LaneState::kBusy, LaneState::kDraining},
    {LaneState::kBusy, LaneState::kFenced},
    {LaneState::kDraining, LaneState::kClosed},
    {LaneState::kFenced, LaneState::kClosed},
}};

constexpr std::array<std::pair<TransferState, TransferState>, 7> kTransferTransitions{{
    {TransferState::kQueued, TransferState::kPosted},
    // Never written: no lane, no fabric.
    {TransferState::kQueued, TransferState::kEnded},
    {TransferState::kPosted, TransferState::kAnswered},
    {TransferState::kPosted, TransferState::kFenced},
    {TransferState::kAnswered, TransferState::kEnded},
    {TransferState::kAnswered, TransferState::kFenced},
    // Sent again without CRC, to a server whose dialect lacks it.
    {TransferState::kAnswered, TransferState::kPosted},
}};

constexpr std::array<std::pair<FlightState, FlightState>, 9> kFlightTransitions{{
    {FlightState::kLeasing, FlightState::kBehind},
    {FlightState::kLeasing, FlightState::kOver},
    {FlightState::kBehind, FlightState::kQueued},
    {FlightState::kBehind, FlightState::kOver},
    {FlightState::kQueued, FlightState::kOnLane},
    {FlightState::kQueued, FlightState::kOver},
    {FlightState::kOnLane, FlightState::kChecking},
    {FlightState::kOnLane, FlightState::kOver},
    {FlightState::kChecking, FlightState::kOver},
}};

}  // namespace

std::uint64_t illegal_transitions() {
  return illegal_count.load(std::memory_order_relaxed);
}

void report_illegal_transition(const char* machine, const char* from, const char* to) {
  illegal_count.fetch_add(1, std::memory_order_relaxed);
  spdlog::critical("{}: a change from {} to {} was refused: this is a bug in keyferry", machine, from, to);
#ifdef KEYFERRY_DEBUG
  std::abort();
#endif
}

const char* LaneRules::name(State state) {
  static constexpr std::array<const char*, kLaneStates> kNames{"connecting", "hello",    "idle",   "checking",
                                                               "busy",       "draining", "fenced", "closed"};
  return kNames[static_cast<std::size_t>(state)];
}

bool LaneRules::allowed(State from, State to) {
  return listed(kLaneTransitions, from, to);
}

const char* TransferRules::name(State state) {
  static constexpr std::array<const char*, 5> kNames{"queued", "posted", "answered", "ended", "fenced"};
  return kNames[static_cast<std::size_t>(state)];
}

bool TransferRules::allowed(State from, State to) {
  return listed(kTransferTransitions, from, to);
}

const char* FlightRules::name(State state) {
  switch (state) {
    case FlightState::kLeasing:
      return "leasing";
    case FlightState::kBehind:
      return "behind";
    case FlightState::kQueued:
      return "queued";
    case FlightState::kOnLane:
      return "on_lane";
    case FlightState::kChecking:
      return "checking";
    case FlightState::kOver:
      return "over";
  }
  return "?";
}

bool FlightRules::allowed(State from, State to) {
  return listed(kFlightTransitions, from, to);
}

}  // namespace keyferry::transfer
