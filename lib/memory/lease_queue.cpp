#include "memory/lease_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "memory/size_text.h"

namespace keyferry::memory {

namespace {

std::string seconds_text(base::Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", base::seconds(duration));
  return text;
}

}  // namespace

LeaseQueue::LeaseQueue(Pool& pool, base::Duration pool_wait) : pool_(pool), pool_wait_(pool_wait) {}

Ticket LeaseQueue::request(ClientId client, std::uint64_t length, base::TimePoint now, Callback done) {
  const Ticket ticket{next_ticket_++};
  if (!pool_.could_ever_lease(length)) {
    done(never_fits(length));
    return ticket;
  }
  waiting_.emplace(ticket, Request{client, length, now, std::move(done)});
  auto& own = tickets_[client];
  if (own.empty()) turns_.push_back(client);
  own.push_back(ticket);
  pump();
  return ticket;
}

std::optional<Lease> LeaseQueue::try_now(std::uint64_t length) {
  if (!waiting_.empty()) return std::nullopt;
  return pool_.try_lease(length);
}

bool LeaseQueue::cancel(Ticket ticket) {
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return false;
  take(found);
  return true;
}

void LeaseQueue::pump() {
  // A callback that pumps again must not run inside the loop that called it: turns would be taken twice.
  pump_again_ = true;
  if (pumping_) return;
  pumping_ = true;
  while (std::exchange(pump_again_, false)) {
    while (!turns_.empty()) {
      const ClientId client = turns_.front();
      const auto head = waiting_.find(tickets_[client].front());
      if (!pool_.could_ever_lease(head->second.length)) {
        Request request = take(head);
        request.done(never_fits(request.length));
        continue;
      }
      std::optional<Lease> lease = pool_.try_lease(head->second.length);
      if (!lease) break;
      Request request = take(head);
      if (tickets_.contains(client)) {
        turns_.pop_front();
        turns_.push_back(client);
      }
      request.done(*std::move(lease));
    }
  }
  pumping_ = false;
}

void LeaseQueue::expire(base::TimePoint now) {
  while (!waiting_.empty() && now - waiting_.begin()->second.since >= pool_wait_) {
    Request request = take(waiting_.begin());
    request.done(waited_too_long(request.length));
  }
  pump();
}

std::optional<base::TimePoint> LeaseQueue::oldest() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->second.since;
}

LeaseQueue::Request LeaseQueue::take(std::map<Ticket, Request>::iterator position) {
  const ClientId client = position->second.client;
  auto& own = tickets_[client];
  own.erase(std::find(own.begin(), own.end(), position->first));
  if (own.empty()) {
    tickets_.erase(client);
    turns_.erase(std::find(turns_.begin(), turns_.end(), client));
  }
  Request request = std::move(position->second);
  waiting_.erase(position);
  return request;
}

base::Error LeaseQueue::never_fits(std::uint64_t length) const {
  const std::uint64_t most = std::min<std::uint64_t>(pool_.usable_bytes(), kMaxRegionsPerLease * pool_.region_bytes());
  return {"keyferry: no room in the pool for " + std::to_string(length) + " bytes: a lease holds 1 to " +
              std::to_string(most) + " bytes here (" + size_text(pool_.usable_bytes()) + " usable, at most " +
              std::to_string(kMaxRegionsPerLease) + " regions of " + size_text(pool_.region_bytes()) +
              "); raise pool.size or pool.region",
          EMSGSIZE};
}

base::Error LeaseQueue::waited_too_long(std::uint64_t length) const {
  const PoolStats stats = pool_.stats();
  return {"keyferry: no room in the pool for " + std::to_string(length) + " bytes within " + seconds_text(pool_wait_) +
              ": " + size_text(stats.bytes_in(RegionState::kFree)) + " of " + size_text(pool_.usable_bytes()) +
              " free, " + size_text(stats.bytes_in(RegionState::kQuarantined)) + " quarantined, " +
              std::to_string(waiting_.size()) +
              " others waiting; raise pool.size or limits.pool_wait, or move fewer large values at once",
          ETIMEDOUT};
}

}  // namespace keyferry::memory
