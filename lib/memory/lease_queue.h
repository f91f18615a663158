#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "memory/pool.h"

namespace keyferry::memory {

/// Names one local client for fairness; the caller chooses the numbers.
enum class ClientId : std::uint64_t {};
/// Names one request of one LeaseQueue; never used again. 0 is none.
enum class Ticket : std::uint64_t {};

/// Waiting for room in the pool, fair between clients by the bytes that each holds. Clients that hold nothing come
/// first, in turn, and the one whose turn it is blocks all others until it fits, so that a large request is never
/// overtaken for ever by small ones. Then those that hold least. A client that holds something gets more only while a
/// third of what it then holds stays free: alone it can fill three quarters of the pool, two clients three sevenths
/// each, so one that does not take its values never has all of it. Whoever is put off by that is served like everybody
/// when its leases have come back.
/// Each client's own requests are served in order of arrival. Engine's thread only. A callback runs inside request(),
/// pump() or expire(), never inside cancel() or gave_back(); it may call the queue and the pool, but not destroy them.
class LeaseQueue {
 public:
  using Callback = base::UniqueFunction<void(base::Result<Lease>)>;

  /// `pool_wait`: how long a request waits at most (limits.pool_wait). The pool outlives the queue.
  LeaseQueue(Pool& pool, base::Duration pool_wait);

  /// Grants at once if nobody waits and there is room, else queues. A length that could never be leased is answered
  /// with an error at once. So the callback may have run when this returns; the ticket is then used up.
  Ticket request(ClientId client, std::uint64_t length, base::TimePoint now, Callback done);
  /// A lease for somebody who must not wait: nullopt where request() would have queued or refused.
  std::optional<Lease> try_now(ClientId client, std::uint64_t length);
  /// A client's lease does not count as held any more: it came back, or it is beyond the client's power. `bytes`: of
  /// whole regions. Call pump() afterwards.
  void gave_back(ClientId client, std::uint64_t bytes, base::TimePoint now);
  /// Forgets a request, its callback is destroyed unrun. False if it is not waiting any more. Call pump() afterwards:
  /// it may have been the one that blocked.
  bool cancel(Ticket ticket);
  /// Grants what can be granted; to be called after everything that gives regions back to the pool or takes some out of
  /// it for good.
  void pump();
  /// Answers with an error those that have waited for pool_wait, then pumps. The time in which a client itself holds
  /// memory does not count: what it waits for then is its own to bring about.
  void expire(base::TimePoint now);

  /// Requests waiting.
  std::size_t depth() const { return waiting_.size(); }
  /// Since when the one that waits longest does; expire() has something to do pool_wait later.
  std::optional<base::TimePoint> oldest() const;

 private:
  struct Request {
    ClientId client{};
    std::uint64_t length = 0;
    base::TimePoint since;
    Callback done;
  };

  struct Client {
    std::uint64_t held = 0;
    std::uint64_t turn = 0;
    /// In order of arrival.
    std::deque<Ticket> tickets;
  };
  /// Bytes held, turn, client: who comes first is served first.
  using Place = std::tuple<std::uint64_t, std::uint64_t, ClientId>;

  bool grant_one();
  bool may_have_more(std::uint64_t held, std::uint64_t length) const;
  std::uint64_t bytes_for(std::uint64_t length) const;
  void charge(ClientId client, const Lease& lease);
  void to_the_back(ClientId client);
  void forget_if_idle(ClientId client);
  Request take(std::map<Ticket, Request>::iterator position);
  base::Error never_fits(std::uint64_t length) const;
  base::Error waited_too_long(const Request& request) const;

  Pool& pool_;
  base::Duration pool_wait_;
  /// By ticket, so in order of arrival.
  std::map<Ticket, Request> waiting_;
  /// Clients that wait or hold something; and the places of those that wait.
  std::unordered_map<ClientId, Client> clients_;
  std::set<Place> order_;
  std::uint64_t next_ticket_ = 1;
  std::uint64_t next_turn_ = 1;
  bool pumping_ = false;
  bool pump_again_ = false;
};

}  // namespace keyferry::memory
