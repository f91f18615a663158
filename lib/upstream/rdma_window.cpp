#include "upstream/rdma_window.h"

#include <algorithm>
#include <utility>

namespace keyferry::upstream {

namespace {

// Places of the send queue and receives of the peer that data leaves to announcements and probes.
constexpr std::uint64_t kKeptBack = 16;
// One request in queue / kSignalShare at least is signalled, and one in ring / kRingShare bytes: what is unsignalled
// never fills either, so that something always comes back.
constexpr std::uint64_t kSignalShare = 8;
constexpr std::uint64_t kRingShare = 4;

}  // namespace

bool RdmaSendLedger::place_for_data() const {
  return in_queue() + kKeptBack < limits_.queue;
}

// Enters one work request; true if it is to be signalled.
bool RdmaSendLedger::post(std::size_t bytes) {
  ++posted_;
  ring_posted_ += bytes;
  ++unsignalled_;
  unsignalled_bytes_ += bytes;
  const bool signal = unsignalled_ >= limits_.queue / kSignalShare ||
                      unsignalled_bytes_ * kRingShare >= std::max<std::size_t>(limits_.ring, 1);
  if (!signal) return false;
  unsignalled_ = unsignalled_bytes_ = 0;
  signalled_.push_back({posted_, ring_posted_});
  return true;
}

std::optional<RdmaSendLedger::Data> RdmaSendLedger::data(std::size_t wanted) {
  const std::size_t ring_free = limits_.ring - static_cast<std::size_t>(ring_posted_ - ring_completed_);
  const std::size_t bytes = std::min({wanted, window_left(), ring_free});
  if (bytes == 0 || !place_for_data()) return std::nullopt;
  Data data{};
  data.ring_offset = static_cast<std::size_t>(ring_posted_ % limits_.ring);
  data.window_offset = offset_;
  data.bytes = bytes;
  offset_ += bytes;
  unnotified_ += static_cast<std::uint32_t>(bytes);
  data.notify = unproven() < limits_.credit;
  if (data.notify) {
    ++consumed_;
    data.immediate = std::exchange(unnotified_, 0);
    if (offset_ == window_) filled_ = consumed_;
  }
  data.signal = post(bytes);
  data.number = posted_;
  return data;
}

std::optional<RdmaSendLedger::Data> RdmaSendLedger::notice() {
  if (unnotified_ == 0 || unproven() >= limits_.credit || !place_for_data()) return std::nullopt;
  Data data{};
  data.notify = true;
  data.immediate = std::exchange(unnotified_, 0);
  ++consumed_;
  if (offset_ == window_) filled_ = consumed_;
  data.signal = post(0);
  data.number = posted_;
  return data;
}

std::optional<RdmaSendLedger::Control> RdmaSendLedger::control(Kind kind) {
  const bool place =
      kind == Kind::kOther ? place_for_data() && unproven() < limits_.credit : in_queue() < limits_.queue;
  if (!place || unproven() >= limits_.credit + kKeptBack) return std::nullopt;
  ++consumed_;
  if (kind == Kind::kProbe) probe_ = consumed_;
  if (kind == Kind::kAnnounce) announced_ = consumed_;
  const bool signal = post(0);
  return Control{posted_, signal};
}

void RdmaSendLedger::announced(std::uint32_t length) {
  if (filled_) prove(*std::exchange(filled_, std::nullopt));
  window_ = length;
  offset_ = 0;
  // What the peer was not told of in the old window it will never look for.
  unnotified_ = 0;
}

void RdmaSendLedger::probe_answered() {
  if (probe_) prove(*std::exchange(probe_, std::nullopt));
}

void RdmaSendLedger::peer_wrote() {
  if (announced_) prove(*std::exchange(announced_, std::nullopt));
}

void RdmaSendLedger::prove(std::uint64_t upto) {
  proven_ = std::max(proven_, upto);
}

void RdmaSendLedger::completed(std::uint64_t number) {
  while (!signalled_.empty() && signalled_.front().number <= number) {
    completed_ = signalled_.front().number;
    ring_completed_ = signalled_.front().ring_end;
    signalled_.pop_front();
  }
}

bool RdmaReceiveWindow::arrived(std::uint64_t bytes) {
  if (bytes > length_ - arrived_) return false;
  arrived_ += static_cast<std::size_t>(bytes);
  return true;
}

bool RdmaReceiveWindow::take(std::size_t bytes) {
  read_ += bytes;
  if (read_ < length_) return false;
  arrived_ = read_ = 0;
  return true;
}

}  // namespace keyferry::upstream
