#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "fabric/fabric.h"
#include "transfer/availability.h"
#include "transfer/backoff.h"
#include "transfer/engine_metrics.h"
#include "transfer/lane.h"
#include "upstream/connection.h"

namespace keyferry::transfer {

/// The lanes to one node for one identity: makes them, warm or on demand, replaces what was lost with growing waits,
/// and says when the server refuses sessions altogether. Engine's thread only.
class LanePool final : private Lane::Owner {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    /// Transfers that have no lane.
    virtual std::size_t waiting() const = 0;
    /// take_idle() would give one.
    virtual void lane_is_idle() = 0;
    /// A lane came to nothing because its HELLO stayed unsettled, and no other is at work.
    virtual void hello_unsettled() = 0;
    /// The server refuses sessions (or the fabric endpoints), and there is no lane left from before.
    virtual void sessions_refused(const char* reason) = 0;
    /// The first lane since there was none: it may be another server by now.
    virtual void server_is_new() = 0;
  };

  struct Options {
    upstream::ConnectOptions connect;
    std::size_t lanes = 1;
    std::size_t warm = 0;
    /// An idle lane is asked for a sign of life when it has been quiet for so long.
    base::Duration check{};
  };

  /// `fabrics`: at least one; each lane is bound to the one that has fewest.
  LanePool(base::Loop& loop, std::vector<fabric::Fabric*> fabrics, Options options, EngineMetrics& metrics,
           Availability& availability, Listener& listener);
  ~LanePool() override;

  /// `ready` when the warm lanes are up or one of them has failed.
  void start(base::Task ready);
  /// Makes lanes if more wait than come.
  void fill();
  /// Claims an idle lane, the one used last; null if there is none. The caller ends it with release(), replace() or
  /// fence().
  std::shared_ptr<Lane> take_idle();
  /// Closes idle lanes in order and interrupts busy ones; `done` when all are closed.
  void stop(base::Task done);

  const std::vector<std::shared_ptr<Lane>>& lanes() const { return lanes_; }
  std::size_t busy() const { return count(LaneState::kBusy); }
  const Dialect& dialect() const { return dialects()[dialect_]; }

 private:
  void lane_moved(LaneState from, LaneState to) override;
  void lane_idle(Lane& lane) override;
  void lane_alive(Lane& lane) override;
  void lane_failed(Lane& lane, const LaneFailure& failure) override;
  void lane_closed(Lane& lane) override;
  bool may_use_address(const std::string& address) override;
  void address_fenced(const std::string& address) override;

  std::size_t count(LaneState state) const { return counts_[static_cast<std::size_t>(state)]; }
  std::size_t established() const {
    return count(LaneState::kIdle) + count(LaneState::kChecking) + count(LaneState::kBusy);
  }
  std::size_t coming() const { return count(LaneState::kConnecting) + count(LaneState::kHello); }
  void open_lane();
  std::optional<std::size_t> choose_nic() const;
  void check_later();
  void check_lanes();
  void give_up_nic(std::size_t nic);
  void close_lane(Lane& lane, const char* reason, const char* text);
  bool try_another_dialect(const Lane& lane, const LaneFailure& failure);
  void refused(const LaneFailure& failure);
  void unsettled();
  void cool_down(base::Duration wait);
  void note_failure(const Lane& lane, const LaneFailure& failure);
  void check_ready();
  void check_stopped();

  base::Loop& loop_;
  struct Nic {
    fabric::Fabric* fabric;
    /// Its completion queue is lost: no lane is made there any more (R74).
    bool lost = false;
  };

  std::vector<Nic> nics_;
  Options options_;
  std::string node_;
  std::size_t limit_;
  std::size_t warm_;
  EngineMetrics& metrics_;
  Availability& availability_;
  Listener& listener_;

  std::size_t counts_[kLaneStates] = {};
  std::vector<std::shared_ptr<Lane>> lanes_;
  /// Idle lanes, the one used last at the end.
  std::vector<Lane*> idle_;
  std::uint64_t next_number_ = 1;
  /// Addresses of endpoints fenced in the last seconds.
  std::deque<std::pair<base::TimePoint, std::string>> fenced_;

  /// Attempts that failed since the last that did not.
  std::size_t failures_ = 0;
  std::string last_failure_;
  /// Sessions are refused: one attempt is made when the wait is over, whoever waits or not.
  bool refused_ = false;
  bool cooling_ = false;
  base::Timer cool_timer_;
  base::Timer check_timer_;
  /// What the server speaks as far as is known, and how many others it did not know since it last did.
  std::size_t dialect_ = 0;
  std::size_t dialects_unknown_ = 0;
  Backoff dial_backoff_;
  Backoff refusal_backoff_;

  bool started_ = false;
  bool stopping_ = false;
  base::Task ready_;
  base::Task stopped_;
};

}  // namespace keyferry::transfer
