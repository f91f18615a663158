#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
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

/// Waiting for room in the pool, fair between clients: clients are served in turn, each one's requests in order of
/// arrival. The request whose turn it is blocks all others until it fits, so that a large one is never overtaken for
/// ever by small ones. Engine's thread only. A callback runs inside request(), pump() or expire(), never inside
/// cancel(); it may call the queue and the pool, but not destroy them.
class LeaseQueue {
 public:
  using Callback = base::UniqueFunction<void(base::Result<Lease>)>;

  /// `pool_wait`: how long a request waits at most (limits.pool_wait). The pool outlives the queue.
  LeaseQueue(Pool& pool, base::Duration pool_wait);

  /// Grants at once if nobody waits and there is room, else queues. A length that could never be leased is answered
  /// with an error at once. So the callback may have run when this returns; the ticket is then used up.
  Ticket request(ClientId client, std::uint64_t length, base::TimePoint now, Callback done);
  /// A lease for somebody who must not wait: nullopt where request() would have queued or refused.
  std::optional<Lease> try_now(std::uint64_t length);
  /// Forgets a request, its callback is destroyed unrun. False if it is not waiting any more. Call pump() afterwards:
  /// it may have been the one that blocked.
  bool cancel(Ticket ticket);
  /// Grants what can be granted; to be called after everything that gives regions back to the pool or takes some out of
  /// it for good.
  void pump();
  /// Answers with an error those that have waited for pool_wait, then pumps.
  void expire(base::TimePoint now);

  /// Requests waiting.
  std::size_t depth() const { return waiting_.size(); }
  /// When the one that waits longest arrived; expire() has something to do pool_wait later.
  std::optional<base::TimePoint> oldest() const;

 private:
  struct Request {
    ClientId client{};
    std::uint64_t length = 0;
    base::TimePoint since;
    Callback done;
  };

  Request take(std::map<Ticket, Request>::iterator position);
  base::Error never_fits(std::uint64_t length) const;
  base::Error waited_too_long(std::uint64_t length) const;

  Pool& pool_;
  base::Duration pool_wait_;
  /// By ticket, so in order of arrival.
  std::map<Ticket, Request> waiting_;
  /// Each client's tickets in order of arrival, no client without any; and the clients in the order of their turns.
  std::unordered_map<ClientId, std::deque<Ticket>> tickets_;
  std::deque<ClientId> turns_;
  std::uint64_t next_ticket_ = 1;
  bool pumping_ = false;
  bool pump_again_ = false;
};

}  // namespace keyferry::memory
