#include "memory/lease_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "memory/size_text.h"

namespace keyferry::memory {

namespace {

// What a client may hold at most, in parts of what then stays free. Much, because one that sends all its commands
// before it reads waits for itself where its values don't fit; and bounded, so that the next client always finds
// something.
constexpr std::uint64_t kShare = 3;

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
  Client& own = clients_[client];
  if (own.tickets.empty()) {
    own.turn = next_turn_++;
    order_.emplace(own.held, own.turn, client);
  }
  own.tickets.push_back(ticket);
  pump();
  return ticket;
}

std::optional<Lease> LeaseQueue::try_now(ClientId client, std::uint64_t length) {
  // Somebody who holds nothing waits: this one would stand behind.
  if (!order_.empty() && std::get<0>(*order_.begin()) == 0) return std::nullopt;
  const auto found = clients_.find(client);
  if (found != clients_.end() && !may_have_more(found->second.held, length)) return std::nullopt;
  std::optional<Lease> lease = pool_.try_lease(length);
  if (lease) charge(client, *lease);
  return lease;
}

void LeaseQueue::gave_back(ClientId client, std::uint64_t bytes, base::TimePoint now) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  Client& own = found->second;
  const std::uint64_t held = own.held - std::min(own.held, bytes);
  if (!own.tickets.empty()) {
    order_.erase({own.held, own.turn, client});
    order_.emplace(held, own.turn, client);
  }
  if (held == 0 && own.held != 0) {
    for (const Ticket ticket : own.tickets) waiting_.at(ticket).since = now;
  }
  own.held = held;
  forget_if_idle(client);
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
    while (grant_one()) {
    }
  }
  pumping_ = false;
}

/// Answers the first whose turn it is; false if nobody's can be answered now.
bool LeaseQueue::grant_one() {
  for (const auto& [held, turn, client] : order_) {
    const auto head = waiting_.find(clients_[client].tickets.front());
    const std::uint64_t length = head->second.length;
    if (!pool_.could_ever_lease(length)) {
      Request request = take(head);
      request.done(never_fits(length));
      return true;
    }
    if (!may_have_more(held, length)) continue;
    std::optional<Lease> lease = pool_.try_lease(length);
    if (!lease) return false;
    // From here on `order_` changes: the places above are gone.
    const ClientId served = client;
    Request request = take(head);
    charge(served, *lease);
    to_the_back(served);
    request.done(*std::move(lease));
    return true;
  }
  return false;
}

bool LeaseQueue::may_have_more(std::uint64_t held, std::uint64_t length) const {
  if (held == 0) return true;
  const std::uint64_t free = pool_.stats().bytes_in(RegionState::kFree);
  const std::uint64_t wanted = bytes_for(length);
  return wanted <= free && held + wanted <= kShare * (free - wanted);
}

std::uint64_t LeaseQueue::bytes_for(std::uint64_t length) const {
  const std::uint64_t region = pool_.region_bytes();
  return (length / region + (length % region != 0 ? 1 : 0)) * region;
}

void LeaseQueue::charge(ClientId client, const Lease& lease) {
  Client& own = clients_[client];
  const std::uint64_t held = own.held + lease.regions.size() * pool_.region_bytes();
  if (!own.tickets.empty()) {
    order_.erase({own.held, own.turn, client});
    order_.emplace(held, own.turn, client);
  }
  own.held = held;
}

void LeaseQueue::to_the_back(ClientId client) {
  Client& own = clients_[client];
  if (own.tickets.empty()) return;
  order_.erase({own.held, own.turn, client});
  own.turn = next_turn_++;
  order_.emplace(own.held, own.turn, client);
}

void LeaseQueue::forget_if_idle(ClientId client) {
  const auto found = clients_.find(client);
  if (found != clients_.end() && found->second.held == 0 && found->second.tickets.empty()) clients_.erase(found);
}

void LeaseQueue::expire(base::TimePoint now) {
  std::vector<Ticket> over;
  for (const auto& [ticket, request] : waiting_) {
    if (clients_.at(request.client).held == 0 && now - request.since >= pool_wait_) over.push_back(ticket);
  }
  for (const Ticket ticket : over) {
    const auto found = waiting_.find(ticket);
    // The answer to one before it may have led to another's end.
    if (found == waiting_.end()) continue;
    Request request = take(found);
    request.done(waited_too_long(request));
  }
  pump();
}

std::optional<base::TimePoint> LeaseQueue::oldest() const {
  std::optional<base::TimePoint> oldest;
  for (const auto& [ticket, request] : waiting_) {
    if (clients_.at(request.client).held == 0 && (!oldest || request.since < *oldest)) oldest = request.since;
  }
  return oldest;
}

LeaseQueue::Request LeaseQueue::take(std::map<Ticket, Request>::iterator position) {
  const ClientId client = position->second.client;
  Client& own = clients_[client];
  own.tickets.erase(std::find(own.tickets.begin(), own.tickets.end(), position->first));
  if (own.tickets.empty()) order_.erase({own.held, own.turn, client});
  forget_if_idle(client);
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

base::Error LeaseQueue::waited_too_long(const Request& request) const {
  const PoolStats stats = pool_.stats();
  const auto client = clients_.find(request.client);
  const std::uint64_t held = client == clients_.end() ? 0 : client->second.held;
  return {"keyferry: no room in the pool for " + std::to_string(request.length) + " bytes within " +
              seconds_text(pool_wait_) + ": " + size_text(stats.bytes_in(RegionState::kFree)) + " of " +
              size_text(pool_.usable_bytes()) + " free, " + size_text(stats.bytes_in(RegionState::kQuarantined)) +
              " quarantined, " + size_text(held) + " held by this client, " + std::to_string(waiting_.size()) +
              " others waiting; raise pool.size or limits.pool_wait, or move fewer large values at once",
          ETIMEDOUT};
}

}  // namespace keyferry::memory
