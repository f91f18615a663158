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
      check_timer_(loop) {
  for (fabric::Fabric* const fabric : fabrics) nics_.push_back({fabric});
  groups_.push_back(std::make_shared<LaneGroup>(loop, upstream::Identity{}));
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
  const std::shared_ptr<LaneGroup> own = groups_.front();
  // Refused sessions are asked for once more when the wait is over, whoever waits or not.
  const auto wanted = [&] { return own->refused ? own->coming() == 0 : own->established() + own->coming() < warm_; };
  while (in_use() < limit_ && may_open(*own) && wanted()) open_lane(own);
  listener_.serve();
}

std::shared_ptr<LaneGroup> LanePool::group_of(const upstream::Identity& identity) {
  const auto found = std::find_if(groups_.begin(), groups_.end(),
                                  [&](const std::shared_ptr<LaneGroup>& one) { return one->identity == identity; });
  return found != groups_.end() ? *found : groups_.emplace_back(std::make_shared<LaneGroup>(loop_, identity));
}

std::size_t LanePool::in_use() const {
  std::size_t sum = 0;
  for (const std::shared_ptr<LaneGroup>& one : groups_) sum += one->established() + one->coming();
  return sum;
}

bool LanePool::has_room() const {
  return in_use() < limit_ || std::any_of(groups_.begin(), groups_.end(),
                                          [](const std::shared_ptr<LaneGroup>& one) { return !one->idle.empty(); });
}

bool LanePool::may_open(const LaneGroup& group) const {
  if (!started_ || stopping_ || group.cooling || !choose_nic()) return false;
  // While attempts fail there is one at a time (R39).
  if (group.failures != 0 && group.coming() != 0) return false;
  // Lanes that are being closed count as well, so that closings that never end can't pile up.
  return lanes_.size() < 2 * limit_;
}

void LanePool::want(const std::shared_ptr<LaneGroup>& group, std::size_t transfers) {
  if (group->coming() >= transfers || !may_open(*group)) return;
  if (in_use() >= limit_ && !make_room(*group)) return;
  open_lane(group);
}

/// Closes the lane of another group that has been idle longest.
bool LanePool::make_room(const LaneGroup& group) {
  Lane* longest = nullptr;
  for (const std::shared_ptr<LaneGroup>& one : groups_) {
    if (one.get() == &group || one->idle.empty()) continue;
    Lane* const oldest = one->idle.front();
    if (longest == nullptr || oldest->entered() < longest->entered()) longest = oldest;
  }
  if (longest == nullptr) return false;
  close_lane(*longest, "", "");
  return true;
}

void LanePool::open_lane(const std::shared_ptr<LaneGroup>& group) {
  const std::size_t nic = choose_nic().value_or(0);
  Lane::Owner& self = *this;
  auto lane =
      std::make_shared<Lane>(loop_, LaneSetup{nic, *nics_[nic].fabric, dialect(), group},
                             options_.connect.with(group->identity, options_.connect.protocol), next_number_++, self);
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
  for (const std::shared_ptr<LaneGroup>& group : std::vector(groups_)) {
    for (Lane* const lane : std::vector(group->idle)) {
      if (lane->entered() > quiet_since && !lane->login_is_old() && !lane->misplaced()) continue;
      std::erase(group->idle, lane);
      // Another identity's is made again when it is needed.
      group->is_default() && !lane->misplaced() ? lane->check() : lane->retire();
    }
  }
  trim_groups();
}

/// Forgets identities that have no lane and that nothing waits for.
void LanePool::trim_groups() {
  std::erase_if(groups_, [](const std::shared_ptr<LaneGroup>& one) {
    return !one->is_default() && one.use_count() == 1 && !one->cooling;
  });
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
    listener_.sessions_refused(nullptr, "queue_lost");
  }
  for (const std::shared_ptr<Lane>& lane : std::vector(lanes_)) {
    if (lane->nic() == nic) close_lane(*lane, "queue_lost", "the fabric's completion queue is lost");
  }
  fill();
}

std::shared_ptr<Lane> LanePool::take_idle(LaneGroup& group) {
  while (!group.idle.empty()) {
    std::shared_ptr<Lane> lane = group.idle.back()->shared_from_this();
    group.idle.pop_back();
    if (lane->misplaced()) {
      lane->retire();
      continue;
    }
    lane->claim();
    return lane;
  }
  return nullptr;
}

void LanePool::stop(base::Task done) {
  stopping_ = true;
  stopped_ = std::move(done);
  for (const std::shared_ptr<LaneGroup>& group : groups_) group->cool_timer.cancel();
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
      std::erase(lane.group().idle, &lane);
      return lane.retire();
    case LaneState::kBusy:
      return lane.interrupt(reason, text);
    default:
      return;
  }
}

void LanePool::lane_moved(Lane& lane, LaneState from, LaneState to) {
  LaneGroup& group = lane.group();
  if (from != LaneState::kClosed) --group.counts[static_cast<std::size_t>(from)];
  ++group.counts[static_cast<std::size_t>(to)];
  metrics_.lane(from, to);
}

void LanePool::lane_idle(Lane& lane) {
  if (stopping_) return lane.retire();
  LaneGroup& group = lane.group();
  if (group.failures != 0 || group.refused) spdlog::info("{}: a lane for BLOB.RDMA_* is up again", node_);
  if (lane.transfers() == 0) {
    std::size_t established = 0;
    for (const std::shared_ptr<LaneGroup>& one : groups_) established += one->established();
    if (established == 1) listener_.server_is_new();
  }
  group.failures = 0;
  group.last_failure.clear();
  dialects_unknown_ = 0;
  group.refused = nullptr;
  group.dial_backoff.reset();
  group.refusal_backoff.reset();
  if (group.is_default()) availability_.set_remote(nullptr);
  group.idle.push_back(&lane);
  check_ready();
  fill();
}

void LanePool::lane_alive(Lane& lane) {
  if (stopping_) return lane.retire();
  // The one used last stays the one used next.
  lane.group().idle.insert(lane.group().idle.begin(), &lane);
  listener_.serve();
}

void LanePool::lane_failed(Lane& lane, const LaneFailure& failure) {
  LaneGroup& group = lane.group();
  std::erase(group.idle, &lane);
  if (stopping_) return;
  if (try_another_dialect(lane, failure)) return fill();
  note_failure(lane, failure);
  switch (failure.kind) {
    case LaneFailure::Kind::kIdleLost:
      break;
    case LaneFailure::Kind::kUnreachable:
      ++group.failures;
      // What another identity is told at the door its client should hear: the other way of its transfer will tell.
      if (!group.is_default() && group.established() == 0) {
        group.refused = "no_lane";
        listener_.sessions_refused(&group, group.refused);
      }
      cool_down(group, group.dial_backoff.next());
      break;
    case LaneFailure::Kind::kUnsettled:
      unsettled(group);
      break;
    case LaneFailure::Kind::kNoEndpoint:
    case LaneFailure::Kind::kRefused:
      refused(group, failure);
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

void LanePool::refused(LaneGroup& group, const LaneFailure& failure) {
  ++group.failures;
  cool_down(group, group.refusal_backoff.next());
  // Lanes from before go on working; their next loss brings this up again.
  if (group.established() != 0) return;
  group.refused = failure.reason;
  if (group.is_default()) availability_.set_remote(failure.reason);
  listener_.sessions_refused(&group, failure.reason);
}

void LanePool::unsettled(LaneGroup& group) {
  // The first is replaced at once, for the transfer that waits for it.
  if (++group.failures > 1) cool_down(group, group.dial_backoff.next());
  if (group.count(LaneState::kBusy) == 0) listener_.hello_unsettled(group);
}

void LanePool::cool_down(LaneGroup& group, base::Duration wait) {
  if (group.cooling) return;
  group.cooling = true;
  group.cool_timer.start(wait, [this, &group] {
    group.cooling = false;
    // Another identity is tried when it asks.
    if (!group.is_default()) group.refused = nullptr;
    fill();
  });
}

void LanePool::note_failure(const Lane& lane, const LaneFailure& failure) {
  // Said once, not at every attempt.
  std::string& last = lane.group().last_failure;
  if (failure.text == last) return;
  last = failure.text;
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
      return spdlog::warn("{}: the server refuses {}BLOB.RDMA_HELLO ({}), so large values travel as BLOB.TCP_*: {}",
                          node_, lane.group().is_default() ? "" : "another identity ", failure.reason, failure.text);
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
  if (ready_ && groups_.front()->established() >= warm_) loop_.post(std::exchange(ready_, nullptr));
}

void LanePool::check_stopped() {
  if (stopping_ && lanes_.empty() && stopped_) loop_.post(std::exchange(stopped_, nullptr));
}

}  // namespace keyferry::transfer
