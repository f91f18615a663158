#include "upstream/rdma_route.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "upstream/rdma_tuning.h"

namespace keyferry::upstream {

RdmaTuning& rdma_tuning() {
  static RdmaTuning tuning;
  return tuning;
}

bool RdmaRoute::well() const {
  const std::lock_guard lock(mutex_);
  return state_.well;
}

void RdmaRoute::succeeded() {
  const std::lock_guard lock(mutex_);
  probing_ = false;
  if (faulty_) return;
  state_.well = true;
  state_.reason.clear();
  wait_ = kFirstWait;
}

void RdmaRoute::failed(const std::string& why, base::TimePoint now) {
  const std::lock_guard lock(mutex_);
  probing_ = false;
  if (faulty_) return;
  if (state_.well) {
    fall(why);
  } else if (now < next_) {
    // Dials that were under way together count once.
    return;
  } else {
    state_.reason = why;
    wait_ = std::min(2 * wait_, kLongestWait);
  }
  next_ = now + wait_;
}

void RdmaRoute::fall(const std::string& why) {
  state_.well = false;
  state_.reason = why;
  ++state_.falls;
  wait_ = kFirstWait;
}

std::optional<std::string> RdmaRoute::fault_of(std::string_view version) {
  constexpr std::pair<int, int> kSafe{9, 1};
  std::pair<int, int> number{0, 0};
  const char* const end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, number.first);
  if (error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  if (std::from_chars(dot + 1, end, number.second).ec != std::errc()) return std::nullopt;
  if (number >= kSafe) return std::string();
  return "Valkey " + std::string(version) + " hangs or crashes over RDMA with I/O threads; 9.1 does not";
}

void RdmaRoute::server_is(std::string_view version) {
  const std::optional<std::string> fault = fault_of(version);
  const std::lock_guard lock(mutex_);
  if (!fault || strict_ || fault->empty() != faulty_) return;
  faulty_ = !faulty_;
  if (!faulty_) return;  // a probe finds out how it is now
  if (state_.well) fall({});
  state_.reason = *fault;
}

bool RdmaRoute::faulty() const {
  const std::lock_guard lock(mutex_);
  return faulty_;
}

bool RdmaRoute::claim_probe(base::TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (strict_ || faulty_ || state_.well || probing_ || now < next_) return false;
  probing_ = true;
  return true;
}

RdmaRoute::State RdmaRoute::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

}  // namespace keyferry::upstream
