#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/executor.h"
#include "base/result.h"
#include "transfer/engine_metrics.h"
#include "transfer/fetch.h"
#include "transfer/sliced_check.h"
#include "transfer/states.h"
#include "transfer/transfers.h"
#include "transfer/write_marks.h"

namespace keyferry::transfer {

/// GETs that wait for the same value share one transfer, one lease and one hashing (design: single-flight). Of a key,
/// under one identity and database, there is at most one flight on a lane and one behind it:
///
///   next      not written to a lane yet: whoever asks joins it, as the server runs it after that
///   recent    written, or landed and being hashed: joined only where the key is immutable and its WriteMarks are what
///             they were when it was written; never once its last waiter has left
///
/// A flight asks for its lease when it begins, on behalf of its first client, and is handed to Transfers when it has
/// the lease and none of its key is on a lane. The value is hashed where its first waiter wants that, which hears of it
/// from there, without the way over this thread and back; every other waiter gets a share of it from here. A waiter
/// that leaves leaves the others alone; with the last one the flight gives up what it waits for, or is abandoned on its
/// lane (orphan_grace, then a fence).
///
/// Engine's thread only. What it asks of the rest of the engine is never answered inside the call.
class Flights {
 public:
  /// The rest of the engine.
  class Ground {
   public:
    virtual ~Ground() = default;
    virtual void ask_for_lease(std::uint64_t number, std::uint64_t client, std::uint64_t length,
                               base::UniqueFunction<void(base::Result<Loan>)> done) = 0;
    virtual void cancel_lease(std::uint64_t number) = 0;
    virtual void submit(std::unique_ptr<Transfer> transfer) = 0;
    virtual void abandon(std::uint64_t number, Farewell farewell) = 0;
  };

  /// `region`: bytes of one region; `largest`: the longest lease. `executor`: the engine's thread.
  struct Sizes {
    std::uint64_t region = 0;
    std::uint64_t largest = 0;
  };
  Flights(Ground& ground, base::Executor& executor, const WriteMarks& marks, EngineMetrics& metrics, Sizes sizes)
      : ground_(ground), executor_(executor), marks_(marks), metrics_(metrics), sizes_(sizes) {}

  /// `ticket` names it for leave(), and the transfer that it begins, if it does.
  void fetch(std::uint64_t ticket, FetchRequest request, base::Executor& back, std::shared_ptr<FetchSink> sink);
  /// Nobody waits for that answer any more: it is kLeft, unless another is on its way already.
  void leave(std::uint64_t ticket);
  /// All that a client waits for, but without a grace for what it alone waits for. What others wait for with it goes
  /// on.
  void end_client(std::uint64_t client);
  /// Flights that have a lease and wait for another are answered; the others' leases and transfers are.
  void stop();

  /// Flights that have not ended.
  std::size_t size() const { return live_; }

 private:
  using Key = std::pair<upstream::Identity, std::string>;
  /// The engine's hold on a sink. Used on the waiter's executor only, whatever comes first there ends it: the value
  /// from where it was hashed, or word from this thread that was on its way meanwhile.
  class Receiver {
   public:
    explicit Receiver(std::shared_ptr<FetchSink> sink) : sink_(std::move(sink)) {}
    void leased() const {
      if (sink_) sink_->fetch_leased();
    }
    void fetched(FetchResult result) {
      if (const std::shared_ptr<FetchSink> sink = std::exchange(sink_, nullptr)) sink->fetched(std::move(result));
    }

   private:
    std::shared_ptr<FetchSink> sink_;
  };
  struct Waiter {
    std::uint64_t ticket = 0;
    std::uint64_t client = 0;
    base::Executor* back = nullptr;
    base::Executor* hash_on = nullptr;
    std::shared_ptr<Receiver> receiver;
  };
  struct Flight {
    std::uint64_t number = 0;
    Key key;
    StateMachine<FlightRules> machine{FlightState::kLeasing};
    std::vector<Waiter> waiters;
    /// While kBehind.
    Loan loan;
    /// WriteMarks::state() just before the command was written.
    std::uint64_t marks = 0;
    /// While kChecking, and the waiter that hears of the value from there.
    std::shared_ptr<SlicedCheck> check;
    std::uint64_t hears_first = 0;
  };
  using Held = std::shared_ptr<Flight>;
  struct Line {
    Held recent;
    Held next;
  };

  Held joinable(const Line& line, const Key& key) const;
  Held begin(std::uint64_t number, FetchRequest request);
  void leased(const Held& flight, base::Result<Loan> loan);
  void advance(const Key& key);
  void submit(const Held& flight);
  void posted(const Held& flight);
  void landed(const Held& flight, GetResult result);
  void checked(const Held& flight, base::Result<SharedValue> value, base::Duration took);
  void remove(std::uint64_t ticket, Farewell farewell);
  void give_up(const Held& flight, Farewell farewell);
  void end(const Held& flight, const FetchResult& result, std::uint64_t has_heard = 0);
  static SlicedCheck::Right hand_over(const Waiter& waiter);
  static void tell(Waiter waiter, FetchResult result);

  Ground& ground_;
  base::Executor& executor_;
  const WriteMarks& marks_;
  EngineMetrics& metrics_;
  const Sizes sizes_;
  std::map<Key, Line> lines_;
  std::unordered_map<std::uint64_t, Held> by_ticket_;
  std::size_t live_ = 0;
  bool stopping_ = false;
};

}  // namespace keyferry::transfer
