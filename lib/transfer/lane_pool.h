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
#include "transfer/engine_metrics.h"
#include "transfer/lane.h"
#include "transfer/lane_group.h"
#include "upstream/connection.h"

namespace keyferry::transfer {

/// The lanes to one node: makes them, warm for the configured identity and on demand for any other, replaces what was
/// lost with growing waits, and says when the server refuses sessions altogether. All identities share the limit: where
/// one needs a lane and there is no room, another's that has been idle longest gives way. Engine's thread only.
class LanePool final : private Lane::Owner {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    /// take_idle() or want() may do more than they did: what waits is to be looked at in order.
    virtual void serve() = 0;
    /// A lane of that group came to nothing because its HELLO stayed unsettled, and no other of it is at work.
    virtual void hello_unsettled(const LaneGroup& group) = 0;
    /// The server refuses that identity sessions (or the fabric endpoints), and it has no lane left from before. Null:
    /// nobody gets one.
    virtual void sessions_refused(const LaneGroup* group, const char* reason) = 0;
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
  /// Keeps up the warm lanes, and has the listener look at what waits.
  void fill();
  /// Where lanes of that identity are found; made when asked for the first time.
  std::shared_ptr<LaneGroup> group_of(const upstream::Identity& identity);
  /// Claims an idle lane of the group, the one used last; null if there is none. The caller ends it with release(),
  /// replace() or fence().
  std::shared_ptr<Lane> take_idle(LaneGroup& group);
  /// So many transfers wait for a lane of the group: makes one more if fewer come, another group's that has been idle
  /// longest giving way if need be.
  void want(const std::shared_ptr<LaneGroup>& group, std::size_t transfers);
  /// False: neither take_idle() nor want() can do anything for any group now.
  bool has_room() const;
  /// Closes idle lanes in order and interrupts busy ones; `done` when all are closed.
  void stop(base::Task done);

  const std::vector<std::shared_ptr<Lane>>& lanes() const { return lanes_; }
  const Dialect& dialect() const { return dialects()[dialect_]; }

 private:
  void lane_moved(Lane& lane, LaneState from, LaneState to) override;
  void lane_idle(Lane& lane) override;
  void lane_alive(Lane& lane) override;
  void lane_failed(Lane& lane, const LaneFailure& failure) override;
  void lane_closed(Lane& lane) override;
  bool may_use_address(const std::string& address) override;
  void address_fenced(const std::string& address) override;

  /// Of all groups: established, or to be.
  std::size_t in_use() const;
  bool may_open(const LaneGroup& group) const;
  bool make_room(const LaneGroup& group);
  void open_lane(const std::shared_ptr<LaneGroup>& group);
  void trim_groups();
  std::optional<std::size_t> choose_nic() const;
  void check_later();
  void check_lanes();
  void give_up_nic(std::size_t nic);
  void close_lane(Lane& lane, const char* reason, const char* text);
  bool try_another_dialect(const Lane& lane, const LaneFailure& failure);
  void refused(LaneGroup& group, const LaneFailure& failure);
  void unsettled(LaneGroup& group);
  void cool_down(LaneGroup& group, base::Duration wait);
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

  /// The first is the configured identity's.
  std::vector<std::shared_ptr<LaneGroup>> groups_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::uint64_t next_number_ = 1;
  /// Addresses of endpoints fenced in the last seconds.
  std::deque<std::pair<base::TimePoint, std::string>> fenced_;

  base::Timer check_timer_;
  /// What the server speaks as far as is known, and how many others it did not know since it last did.
  std::size_t dialect_ = 0;
  std::size_t dialects_unknown_ = 0;

  bool started_ = false;
  bool stopping_ = false;
  base::Task ready_;
  base::Task stopped_;
};

}  // namespace keyferry::transfer
