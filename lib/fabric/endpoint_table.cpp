#include "fabric/endpoint_table.h"

#include <rdma/fi_errno.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "fabric/address.h"

namespace keyferry::fabric {

namespace {

/// The server's library gives up an address after 1 s of refusals (blob-rdma spec 3.6); the rest is for its queue.
constexpr auto kFormerFor = std::chrono::seconds(10);
constexpr std::size_t kMostFormer = 1024;
constexpr std::size_t kMostAttempts = 16;

}  // namespace

EndpointTable::~EndpointTable() {
  while (!endpoints_.empty()) static_cast<void>(close(endpoints_.begin()->first));
}

base::Result<Endpoint> EndpointTable::open() {
  // Kept open meanwhile, or the same name would be given out again.
  std::vector<std::unique_ptr<TargetEndpoint>> refused;
  base::Result<Endpoint> result = base::Error{
      "keyferry: every new fabric endpoint got the name of one closed seconds ago; widen the range of ports",
      -FI_EADDRINUSE};
  while (refused.size() < kMostAttempts) {
    auto opened = TargetEndpoint::open(domain_);
    if (!opened) {
      result = opened.error();
      break;
    }
    if (lately_closed((*opened)->address())) {
      refused.push_back(std::move(*opened));
      continue;
    }
    const EndpointId id{++last_id_};
    result = Endpoint{id, (*opened)->address()};
    endpoints_.emplace(id, std::move(*opened));
    count_.store(endpoints_.size(), std::memory_order_relaxed);
    break;
  }
  for (const auto& endpoint : refused) static_cast<void>(endpoint->close());
  return result;
}

base::Result<void> EndpointTable::insert(EndpointId id, const std::vector<std::string>& addresses) {
  const auto found = endpoints_.find(id);
  if (found == endpoints_.end()) return unknown(id);
  const std::size_t before = found->second->peers();
  base::Result<void> result = found->second->insert(addresses);
  peers_.store(peers_.load(std::memory_order_relaxed) + found->second->peers() - before, std::memory_order_relaxed);
  return result;
}

base::Result<void> EndpointTable::close(EndpointId id) {
  const auto found = endpoints_.find(id);
  if (found == endpoints_.end()) return unknown(id);
  const std::unique_ptr<TargetEndpoint> endpoint = std::move(found->second);
  endpoints_.erase(found);
  peers_.store(peers_.load(std::memory_order_relaxed) - endpoint->peers(), std::memory_order_relaxed);
  base::Result<void> result = endpoint->close();
  count_.store(endpoints_.size(), std::memory_order_relaxed);
  former_.push_back({endpoint->address(), base::Clock::steady().now()});
  if (former_.size() > kMostFormer) former_.pop_front();
  if (!result) {
    close_failures_.store(close_failures_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    spdlog::error("{}", result.error().message);
  }
  return result;
}

void EndpointTable::read(FabricCounters& counters) const {
  counters.endpoints = count_.load(std::memory_order_relaxed);
  counters.av_entries = peers_.load(std::memory_order_relaxed);
  counters.close_failures += close_failures_.load(std::memory_order_relaxed);
}

bool EndpointTable::lately_closed(const std::string& address) {
  const base::TimePoint now = base::Clock::steady().now();
  while (!former_.empty() && now - former_.front().closed > kFormerFor) former_.pop_front();
  for (const Former& former : former_) {
    if (same_endpoint(former.address, address, domain_.info().addr_format)) return true;
  }
  return false;
}

base::Error EndpointTable::unknown(EndpointId id) const {
  return {"keyferry: there is no fabric endpoint " + std::to_string(static_cast<std::uint64_t>(id)), -FI_ENOENT};
}

}  // namespace keyferry::fabric
