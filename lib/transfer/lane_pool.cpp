#include "transfer/lane_pool.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace keyferry::transfer {

namespace {
// Pieces queued at the server go on trying a fenced endpoint's address for a second (C9).
constexpr base::Duration kAddressRest = std::chrono::seconds(5);
}  // namespace

LanePool::LanePool(base::Loop& loop, std::vector<fabric::Fabric*> fabrics, Options options, EngineMetrics& metrics,
                   Availability& availability, Listener& listener)
    : loop_(loop),
      options_(std::move(options)),
      node_(options_.connect.address.text()),
      limit_(std::max<std::size_t>(options_.lanes, 1)),
      warm_(std::min(options_.warm, limit_)),
      metrics_(metrics),
      availability_(availability),
      listener_(listener),
      cool_timer_(loop),
      check_timer_(loop),
      dial_backoff_(std::chrono::milliseconds(50), std::chrono::seconds(5)),
      refusal_backoff_(std::chrono::seconds(1), std::chrono::seconds(30)) {
  for (fabric::Fabric* const fabric : fabrics) nics_.push_back({fabric});
}

LanePool::~LanePool() = default;

void LanePool::start(base::Task ready) {
  started_ = true;
  ready_ = std::move(ready);
  check_later();
  fill();
  check_ready();
}

void LanePool::fill() {
  if (!started_ || stopping_ || cooling_ || !choose_nic()) return;
  const auto wanted = [&] {
    if (refused_) return coming() == 0;
    // While attempts fail there is one at a time (R39).
    if (failures_ != 0 && coming() != 0) return false;
    return established() + coming() < warm_ || listener_.waiting() > coming();
  };
  // Lanes that are being closed count as well, so that closings that never end can't pile up.
  while (established() + coming() < limit_ && lanes_.size() < 2 * limit_ && wanted()) open_lane();
}

void LanePool::open_lane() {
  const std::size_t nic = choose_nic().value_or(0);
  Lane::Owner& self = *this;
  auto lane = std::make_shared<Lane>(loop_, LaneSetup{nic, *nics_[nic].fabric, dialect()}, options_.connect,
                                     next_number_++, self);
  lanes_.push_back(lane);
  lane->start();
}

/// The one with the fewest lanes; none if all are lost.
std::optional<std::size_t> LanePool::choose_nic() const {
  std::vector<std::size_t> lanes(nics_.size());
  for (const std::shared_ptr<Lane>& lane : lanes_) ++lanes[lane->nic()];
  std::optional<std::size_t> best;
  for (std::size_t nic = 0; nic < nics_.size(); ++nic) {
    if (!nics_[nic].lost && (!best || lanes[nic] < lanes[*best])) best = nic;
  }
  return best;
}

void LanePool::check_later() {
  check_timer_.start(options_.check, [this] {
    check_lanes();
    check_later();
  });
}

/// Lanes that were quiet for long are asked whether they live, so that a dead one is found before a transfer meets it.
void LanePool::check_lanes() {
  for (std::size_t nic = 0; nic < nics_.size(); ++nic) {
    if (!nics_[nic].lost && nics_[nic].fabric->counters().queue_lost) give_up_nic(nic);
  }
  const base::TimePoint quiet_since = base::Clock::steady().now() - options_.check;
  for (Lane* const lane : std::vector(idle_)) {
    if (lane->entered() > quiet_since) continue;
    std::erase(idle_, lane);
    lane->check();
  }
}

/// Its completion queue can't be read any more, so no byte moves through it: what is in flight there would wait for
/// ever.
void LanePool::give_up_nic(std::size_t nic) {
  nics_[nic].lost = true;
  spdlog::critical(
      "fabric {} on {}: its completion queue can't be read any more: its lanes are closed and no new ones are made "
      "there until keyferryd restarts",
      nics_[nic].fabric->traits().provider, nics_[nic].fabric->traits().domain);
  if (!choose_nic()) {
    availability_.set_local("queue_lost");
    listener_.sessions_refused("queue_lost");
  }
  for (const std::shared_ptr<Lane>& lane : std::vector(lanes_)) {
    if (lane->nic() == nic) close_lane(*lane, "queue_lost", "the fabric's completion queue is lost");
  }
  fill();
}

std::shared_ptr<Lane> LanePool::take_idle() {
  if (idle_.empty()) return nullptr;
  std::shared_ptr<Lane> lane = idle_.back()->shared_from_this();
  idle_.pop_back();
  lane->claim();
  return lane;
}

void LanePool::stop(base::Task done) {
  stopping_ = true;
  stopped_ = std::move(done);
  cool_timer_.cancel();
  check_timer_.cancel();
  for (const std::shared_ptr<Lane>& lane : std::vector(lanes_)) close_lane(*lane, "stop", "keyferryd is stopping");
  check_stopped();
}

void LanePool::close_lane(Lane& lane, const char* reason, const char* text) {
  switch (lane.state()) {
    case LaneState::kConnecting:
    case LaneState::kHello:
    case LaneState::kIdle:
    case LaneState::kChecking:
      std::erase(idle_, &lane);
      return lane.retire();
    case LaneState::kBusy:
      return lane.interrupt(reason, text);
    default:
      return;
  }
}

void LanePool::lane_moved(LaneState from, LaneState to) {
  if (from != LaneState::kClosed) --counts_[static_cast<std::size_t>(from)];
  ++counts_[static_cast<std::size_t>(to)];
  metrics_.lane(from, to);
}

void LanePool::lane_idle(Lane& lane) {
  if (stopping_) return lane.retire();
  if (failures_ != 0 || refused_) spdlog::info("{}: a lane for BLOB.RDMA_* is up again", node_);
  if (established() == 1 && lane.transfers() == 0) listener_.server_is_new();
  failures_ = 0;
  last_failure_.clear();
  dialects_unknown_ = 0;
  refused_ = false;
  dial_backoff_.reset();
  refusal_backoff_.reset();
  availability_.set_remote(nullptr);
  idle_.push_back(&lane);
  listener_.lane_is_idle();
  check_ready();
  fill();
}

void LanePool::lane_alive(Lane& lane) {
  if (stopping_) return lane.retire();
  // The one used last stays the one used next.
  idle_.insert(idle_.begin(), &lane);
  listener_.lane_is_idle();
}

void LanePool::lane_failed(Lane& lane, const LaneFailure& failure) {
  std::erase(idle_, &lane);
  if (stopping_) return;
  if (try_another_dialect(lane, failure)) return fill();
  note_failure(lane, failure);
  switch (failure.kind) {
    case LaneFailure::Kind::kIdleLost:
      break;
    case LaneFailure::Kind::kUnreachable:
      ++failures_;
      cool_down(dial_backoff_.next());
      break;
    case LaneFailure::Kind::kUnsettled:
      unsettled();
      break;
    case LaneFailure::Kind::kNoEndpoint:
    case LaneFailure::Kind::kRefused:
      refused(failure);
      break;
  }
  if (failure.kind != LaneFailure::Kind::kIdleLost && ready_) loop_.post(std::exchange(ready_, nullptr));
  fill();
}

/// A server that does not know the command may be of another generation: each gets one HELLO, on a connection of its
/// own.
bool LanePool::try_another_dialect(const Lane& lane, const LaneFailure& failure) {
  if (failure.kind != LaneFailure::Kind::kRefused || failure.reason != std::string_view("no_module")) return false;
  // Several lanes may have asked at once; the first answer decides for all.
  if (&lane.dialect() != &dialect()) return true;
  const std::string_view asked = dialect().hello;
  dialect_ = (dialect_ + 1) % dialects().size();
  if (++dialects_unknown_ == dialects().size()) {
    dialects_unknown_ = 0;
    return false;
  }
  spdlog::info("{}: the server does not know {}, trying {}", node_, asked, dialect().hello);
  return true;
}

void LanePool::refused(const LaneFailure& failure) {
  ++failures_;
  cool_down(refusal_backoff_.next());
  // Lanes from before go on working; their next loss brings this up again.
  if (established() != 0) return;
  refused_ = true;
  availability_.set_remote(failure.reason);
  listener_.sessions_refused(failure.reason);
}

void LanePool::unsettled() {
  // The first is replaced at once, for the transfer that waits for it.
  if (++failures_ > 1) cool_down(dial_backoff_.next());
  if (busy() == 0) listener_.hello_unsettled();
}

void LanePool::cool_down(base::Duration wait) {
  if (cooling_) return;
  cooling_ = true;
  cool_timer_.start(wait, [this] {
    cooling_ = false;
    fill();
  });
}

void LanePool::note_failure(const Lane& lane, const LaneFailure& failure) {
  // Said once, not at every attempt.
  if (failure.text == last_failure_) return;
  last_failure_ = failure.text;
  switch (failure.kind) {
    case LaneFailure::Kind::kIdleLost:
      return spdlog::info("{}: lane {} is replaced: {}", node_, lane.number(), failure.text);
    case LaneFailure::Kind::kUnreachable:
      return spdlog::warn("{}: no connection for a lane: {}", node_, failure.text);
    case LaneFailure::Kind::kUnsettled:
      return spdlog::warn("{}: BLOB.RDMA_HELLO did not come to an end and its connection is replaced: {}", node_,
                          failure.text);
    case LaneFailure::Kind::kNoEndpoint:
      return spdlog::error("{}: no lane can be made: {}", node_, failure.text);
    case LaneFailure::Kind::kRefused:
      return spdlog::warn("{}: the server refuses BLOB.RDMA_HELLO ({}), so large values travel as BLOB.TCP_*: {}",
                          node_, failure.reason, failure.text);
  }
}

void LanePool::lane_closed(Lane& lane) {
  std::erase_if(lanes_, [&](const std::shared_ptr<Lane>& one) { return one.get() == &lane; });
  fill();
  check_stopped();
}

bool LanePool::may_use_address(const std::string& address) {
  const base::TimePoint now = base::Clock::steady().now();
  while (!fenced_.empty() && now - fenced_.front().first > kAddressRest) fenced_.pop_front();
  return std::none_of(fenced_.begin(), fenced_.end(), [&](const auto& one) { return one.second == address; });
}

void LanePool::address_fenced(const std::string& address) {
  fenced_.emplace_back(base::Clock::steady().now(), address);
}

void LanePool::check_ready() {
  if (ready_ && established() >= warm_) loop_.post(std::exchange(ready_, nullptr));
}

void LanePool::check_stopped() {
  if (stopping_ && lanes_.empty() && stopped_) loop_.post(std::exchange(stopped_, nullptr));
}

}  // namespace keyferry::transfer
