#include "transfer/transfers.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace keyferry::transfer {

namespace {

base::TimePoint now() {
  return base::Clock::steady().now();
}

OutcomeLabel label(Verdict verdict) {
  switch (verdict) {
    case Verdict::kStored:
    case Verdict::kLanded:
      return OutcomeLabel::kOk;
    case Verdict::kMissing:
      return OutcomeLabel::kMissing;
    case Verdict::kRefused:
      return OutcomeLabel::kRefused;
    case Verdict::kRepeat:
    case Verdict::kWithoutCrc:
      return OutcomeLabel::kRepeat;
    case Verdict::kLost:
      break;
  }
  return OutcomeLabel::kLost;
}

SetResult set_result(Transfer& transfer, ReplyOutcome& outcome) {
  switch (outcome.verdict) {
    case Verdict::kStored:
      return {SetResult::Kind::kStored, {}, std::move(transfer.loan)};
    case Verdict::kRefused:
      return {transfer.undone ? SetResult::Kind::kUndone : SetResult::Kind::kRefused, std::move(outcome.text),
              std::move(transfer.loan)};
    case Verdict::kRepeat:
    case Verdict::kWithoutCrc:
      return {SetResult::Kind::kRepeat, std::move(outcome.text), std::move(transfer.loan)};
    default:
      return {SetResult::Kind::kLost, std::move(outcome.text), {}, transfer.steps_lost};
  }
}

GetResult get_result(Transfer& transfer, ReplyOutcome& outcome) {
  switch (outcome.verdict) {
    case Verdict::kLanded:
      return {GetResult::Kind::kLanded, {}, {std::move(transfer.loan), outcome.length, outcome.crc}};
    case Verdict::kMissing:
      return {GetResult::Kind::kMissing, {}, {}};
    case Verdict::kRefused:
      return {GetResult::Kind::kRefused, std::move(outcome.text), {}};
    case Verdict::kRepeat:
      return {GetResult::Kind::kRepeat, std::move(outcome.text), {}};
    default:
      return {GetResult::Kind::kLost, std::move(outcome.text), {}};
  }
}

}  // namespace

Transfers::Transfers(Parts parts, const EngineOptions& options)
    : parts_(parts),
      node_(options.connect.address.text()),
      upstream_wait_(options.upstream_wait),
      orphan_grace_(options.orphan_grace),
      trust_(options.trust_error_replies),
      min_rate_(options.min_rate),
      deadline_base_(options.deadline_base),
      probe_(
          parts.loop, options.connect, {options.probe_after, options.probe_wait}, [this] { return owed_since(); },
          [this](base::TimePoint asked, const std::string& text) {
            interrupt_running([asked](const Running& running) { return running.since <= asked; }, "probe",
                              "the server fails its probe: " + text);
          }),
      timer_(parts.loop) {}

void Transfers::submit(Owned transfer) {
  transfer->arrived = now();
  if (lanes_ != nullptr) transfer->group = lanes_->group_of(transfer->identity);
  if (const std::string_view reason = refusal(*transfer); !reason.empty())
    return repeat(std::move(transfer), std::string(reason));
  if (lanes_ == nullptr || !windows(*transfer, 0)) return repeat(std::move(transfer), "unregistered");
  parts_.metrics.stage(transfer->op, Stage::kLease, parts_.book.waited(transfer->lease()));
  queue_.push_back(std::move(transfer));
  serve();
  arm_timer();
}

/// Why it can't go by the fabric now; empty if it may.
std::string_view Transfers::refusal(const Transfer& transfer) const {
  if (const std::string_view reason = parts_.availability.reason_for(transfer.identity.is_default()); !reason.empty())
    return reason;
  return transfer.group && transfer.group->refused ? transfer.group->refused : "";
}

void Transfers::abandon(std::uint64_t number, Farewell farewell) {
  const auto waiting =
      std::find_if(queue_.begin(), queue_.end(), [&](const Owned& one) { return one->number == number; });
  if (waiting != queue_.end()) {
    Owned transfer = std::move(*waiting);
    queue_.erase(waiting);
    return repeat(std::move(transfer), "abandoned");
  }
  const auto found = running_.find(number);
  if (found == running_.end() || found->second.grace) return;
  const std::shared_ptr<Lane> lane = found->second.lane.lock();
  found->second.grace = farewell == Farewell::kAtOnce
                            ? interrupt_after({}, lane, "client_ended", "this client was ended")
                            : interrupt_after(orphan_grace_, lane, "abandoned", "nobody waits for this GET any more");
}

void Transfers::end_client(memory::ClientId client) {
  std::deque<Owned> others;
  for (Owned& one : std::exchange(queue_, {})) {
    if (parts_.book.client(one->lease()) != client) {
      others.push_back(std::move(one));
      continue;
    }
    ReplyOutcome outcome;
    outcome.verdict = Verdict::kRefused;
    outcome.text = "-ERR keyferry: this client was ended; nothing was sent to the server";
    one->machine.move(TransferState::kEnded);
    finish(std::move(one), std::move(outcome));
  }
  queue_ = std::move(others);
  interrupt_running([client](const Running& running) { return running.client == client; }, "client_ended",
                    "this client was ended");
}

std::optional<memory::ClientId> Transfers::client_on(const Lane& lane) const {
  for (const auto& [number, running] : running_) {
    if (running.lane.lock().get() == &lane) return running.client;
  }
  return std::nullopt;
}

template <typename Which>
void Transfers::interrupt_running(Which which, const char* reason, const std::string& text) {
  // Interrupting takes them out of the map.
  std::vector<std::weak_ptr<Lane>> lanes;
  for (const auto& [number, running] : running_) {
    if (which(running)) lanes.push_back(running.lane);
  }
  for (const std::weak_ptr<Lane>& one : lanes) {
    if (const std::shared_ptr<Lane> lane = one.lock()) lane->interrupt(reason, text);
  }
}

std::optional<base::TimePoint> Transfers::owed_since() const {
  std::optional<base::TimePoint> oldest;
  for (const auto& [number, running] : running_) {
    if (!oldest || running.since < *oldest) oldest = running.since;
  }
  return oldest;
}

void Transfers::stop() {
  stopping_ = true;
  timer_.cancel();
  probe_.stop();
  drain_queue(nullptr, "stopping");
}

void Transfers::hello_unsettled(const LaneGroup& group) {
  const auto first =
      std::find_if(queue_.begin(), queue_.end(), [&](const Owned& one) { return one->group.get() == &group; });
  if (first == queue_.end() || ++(*first)->unsettled_lanes < 2) return;
  Owned transfer = std::move(*first);
  queue_.erase(first);
  repeat(std::move(transfer), "hello_failed");
}

void Transfers::sessions_refused(const LaneGroup* group, const char* reason) {
  drain_queue(group, reason);
}

void Transfers::drain_queue(const LaneGroup* group, const char* reason) {
  std::deque<Owned> others;
  for (Owned& transfer : std::exchange(queue_, {})) {
    if (group != nullptr && transfer->group.get() != group) {
      others.push_back(std::move(transfer));
    } else {
      repeat(std::move(transfer), reason);
    }
  }
  queue_ = std::move(others);
}

/// In order of arrival across identities, so that a busy one does not keep the lanes from another: who came first has a
/// lane made in place of one that is idle before those behind him may take that.
void Transfers::serve() {
  std::unordered_map<const LaneGroup*, std::size_t> without;
  for (auto one = queue_.begin(); one != queue_.end() && !stopping_ && lanes_->has_room();) {
    const std::shared_ptr<LaneGroup> group = (*one)->group;
    const std::shared_ptr<Lane> lane = lanes_->take_idle(*group);
    if (!lane) {
      lanes_->want(group, ++without[group.get()]);
      ++one;
      continue;
    }
    Owned transfer = std::move(*one);
    one = queue_.erase(one);
    begin(std::move(transfer), lane);
  }
}

void Transfers::begin(Owned transfer, const std::shared_ptr<Lane>& lane) {
  transfer->posted = now();
  parts_.metrics.stage(transfer->op, Stage::kQueue, transfer->posted - transfer->arrived);
  transfer->sent_crc = transfer->op == Op::kSet && crc_supported_ && lane->dialect().crc;
  post(std::move(transfer), lane);
}

void Transfers::post(Owned transfer, const std::shared_ptr<Lane>& lane) {
  // Registrations don't change while a lease is out, so these are the windows that submit() looked at.
  const std::vector<Window> named = windows(*transfer, lane->nic()).value_or(std::vector<Window>{});
  std::string command =
      transfer->op == Op::kGet
          ? get_command(transfer->key, named, lane->dialect())
          : set_command(transfer->key, transfer->loan.length(),
                        transfer->sent_crc ? std::optional(transfer->crc) : std::nullopt, named, lane->dialect());
  transfer->machine.move(TransferState::kPosted);
  note_running(*transfer, lane);
  if (transfer->on_posted) transfer->on_posted();
  parts_.book.posted(transfer->lease());
  Lane& at = *lane;
  at.exchange(std::move(command),
              [this, weak = std::weak_ptr(lane), transfer = std::move(transfer)](LaneReply reply) mutable {
                if (const std::shared_ptr<Lane> self = weak.lock())
                  replied(std::move(transfer), self, std::move(reply));
              });
}

void Transfers::note_running(const Transfer& transfer, const std::shared_ptr<Lane>& lane) {
  Running& running = running_[transfer.number];
  running.lane = lane;
  running.client = parts_.book.client(transfer.lease());
  running.since = now();
  probe_.watch();
  if (min_rate_ == 0) return;
  // A year is as good as never, and fits a Duration.
  const std::chrono::duration<double> moving(
      std::min(static_cast<double>(transfer.loan.length()) / static_cast<double>(min_rate_), 3e7));
  running.deadline = interrupt_after(deadline_base_ + std::chrono::duration_cast<base::Duration>(moving), lane,
                                     "deadline", "no reply came within the time that transfer.min_rate allows");
}

std::unique_ptr<base::Timer> Transfers::interrupt_after(base::Duration limit, const std::shared_ptr<Lane>& lane,
                                                        const char* reason, std::string text) {
  auto timer = std::make_unique<base::Timer>(parts_.loop);
  timer->start(limit, [lane = std::weak_ptr(lane), reason, text = std::move(text)] {
    if (const std::shared_ptr<Lane> self = lane.lock()) self->interrupt(reason, text);
  });
  return timer;
}

void Transfers::replied(Owned transfer, const std::shared_ptr<Lane>& lane, LaneReply reply) {
  running_.erase(transfer->number);
  if (!reply.value) {
    ReplyOutcome lost;
    lost.text = node_ + ": " + reply.text;
    lost.fence_reason = reply.reason;
    return end_fenced(std::move(transfer), lane, std::move(lost));
  }
  const base::TimePoint answered = now();
  transfer->machine.move(TransferState::kAnswered);
  parts_.metrics.stage(transfer->op, Stage::kPost, lane->written_at() - transfer->posted);
  parts_.metrics.stage(transfer->op, Stage::kWire, answered - lane->written_at());
  ReplyOutcome outcome =
      classify_reply(*reply.value, {transfer->op, transfer->loan.length(), transfer->sent_crc, trust_});
  if (outcome.verdict == Verdict::kWithoutCrc) {
    if (std::exchange(crc_supported_, false))
      spdlog::warn("{}: BLOB.RDMA_SET does not take CRC there, values are stored without it", node_);
    if (outcome.aftermath == Aftermath::kUsable) {
      transfer->sent_crc = false;
      transfer->posted = answered;
      parts_.book.settled(transfer->lease());
      return post(std::move(transfer), lane);
    }
  }
  if (outcome.aftermath == Aftermath::kFence) return end_fenced(std::move(transfer), lane, std::move(outcome));
  if (outcome.verdict == Verdict::kStored && transfer->steps)
    return follow(std::move(transfer), lane, std::move(outcome));
  end_trusted(std::move(transfer), lane, std::move(outcome));
}

/// The value is stored and its memory out of danger: what remains are small commands on the same lane.
void Transfers::follow(Owned transfer, const std::shared_ptr<Lane>& lane, ReplyOutcome outcome) {
  std::optional<std::string> command = transfer->steps->next();
  if (!command) {
    if (const std::string& error = transfer->steps->error(); !error.empty()) {
      transfer->undone = true;
      outcome.verdict = Verdict::kRefused;
      outcome.text = "-" + error;
    }
    return end_trusted(std::move(transfer), lane, std::move(outcome));
  }
  // Deadline, probe and the client's end count for these as well.
  note_running(*transfer, lane);
  Lane& at = *lane;
  at.exchange(*std::move(command), [this, weak = std::weak_ptr(lane), transfer = std::move(transfer),
                                    outcome = std::move(outcome)](const LaneReply& reply) mutable {
    if (const std::shared_ptr<Lane> self = weak.lock())
      step_replied(std::move(transfer), self, std::move(outcome), reply);
  });
}

void Transfers::step_replied(Owned transfer, const std::shared_ptr<Lane>& lane, ReplyOutcome outcome,
                             const LaneReply& reply) {
  running_.erase(transfer->number);
  if (reply.value) {
    transfer->steps->replied(*reply.value);
    return follow(std::move(transfer), lane, std::move(outcome));
  }
  // Nothing moves on the fabric, so no fence: the memory is free, the connection is not to be trusted any more.
  outcome.verdict = Verdict::kLost;
  outcome.aftermath = Aftermath::kReplaceLane;
  outcome.text = node_ + ": " + reply.text;
  transfer->steps_lost = true;
  end_trusted(std::move(transfer), lane, std::move(outcome));
}

void Transfers::end_trusted(Owned transfer, const std::shared_ptr<Lane>& lane, ReplyOutcome outcome) {
  const bool replace = outcome.aftermath == Aftermath::kReplaceLane;
  transfer->machine.move(TransferState::kEnded);
  parts_.book.settled(transfer->lease());
  finish(std::move(transfer), std::move(outcome));
  if (replace) {
    lane->replace("its connection is of no more use");
  } else {
    lane->release();
  }
}

void Transfers::end_fenced(Owned transfer, const std::shared_ptr<Lane>& lane, ReplyOutcome outcome) {
  const memory::LeaseId lease = transfer->lease();
  transfer->machine.move(TransferState::kFenced);
  parts_.book.quarantined(lease, outcome.fence_reason, now());
  parts_.metrics.fence(outcome.fence_reason);
  spdlog::warn("{}: lane {} is fenced ({}), {} bytes are quarantined until its endpoint is closed", node_,
               lane->number(), outcome.fence_reason, transfer->loan.length());
  const std::size_t nic = lane->nic();
  const bool deregister = lane->fabric().traits().deregistration_fences;
  lane->fence([this, lease, nic, deregister](const base::Result<void>& result) {
    fence_answered(lease, nic, deregister, result);
  });
  finish(std::move(transfer), std::move(outcome));
  lanes_->fill();
}

void Transfers::fence_answered(memory::LeaseId lease, std::size_t nic, bool deregister,
                               const base::Result<void>& result) {
  if (!result) {
    spdlog::critical("{}: a fence failed, its memory is lost until keyferryd restarts: {}", node_,
                     result.error().message);
    parts_.metrics.fence("failed");
    return parts_.book.fence_failed(lease);
  }
  if (!deregister) return parts_.book.fence_confirmed(lease, false);
  parts_.registrations->drop(parts_.book.regions(lease), nic,
                             [this, lease] { parts_.book.fence_confirmed(lease, true); });
}

void Transfers::repeat(Owned transfer, std::string reason) {
  transfer->machine.move(TransferState::kEnded);
  ReplyOutcome outcome;
  outcome.verdict = Verdict::kRepeat;
  outcome.text = std::move(reason);
  finish(std::move(transfer), std::move(outcome));
}

void Transfers::finish(Owned transfer, ReplyOutcome outcome) {
  const Verdict verdict = outcome.verdict;
  const std::uint64_t bytes = verdict == Verdict::kStored ? transfer->loan.length() : outcome.length;
  parts_.metrics.transfer(transfer->op, label(verdict), bytes);
  base::Executor& back = *transfer->back;
  if (transfer->op == Op::kSet) {
    if (verdict == Verdict::kStored && (bytes > kLentAgain || !parts_.book.lend_again(transfer->lease())))
      transfer->loan = {};
    back.post([done = std::move(transfer->set_done), result = set_result(*transfer, outcome)]() mutable {
      done(std::move(result));
    });
  } else {
    back.post([done = std::move(transfer->get_done), result = get_result(*transfer, outcome)]() mutable {
      done(std::move(result));
    });
  }
}

std::optional<std::vector<Window>> Transfers::windows(const Transfer& transfer, std::size_t nic) const {
  const memory::Lease* lease = parts_.book.usable(transfer.lease());
  if (lease == nullptr || parts_.registrations == nullptr) return std::nullopt;
  std::vector<Window> list;
  for (const base::MutableBytes span : transfer.loan.spans()) {
    const memory::RegionIndex region = lease->regions[list.size() % lease->regions.size()];
    const std::optional<Window> window = parts_.registrations->window(region, nic, span);
    if (!window) return std::nullopt;
    list.push_back(*window);
  }
  if (list.empty()) return std::nullopt;
  return list;
}

void Transfers::arm_timer() {
  if (armed_ || queue_.empty()) return;
  armed_ = true;
  timer_.start(queue_.front()->arrived + upstream_wait_ - now(), [this] { expire(); });
}

void Transfers::expire() {
  armed_ = false;
  while (!queue_.empty() && now() - queue_.front()->arrived >= upstream_wait_) {
    Owned transfer = std::move(queue_.front());
    queue_.pop_front();
    repeat(std::move(transfer), "no_lane");
  }
  arm_timer();
}

}  // namespace keyferry::transfer
