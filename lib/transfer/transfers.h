#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/loop.h"
#include "fabric/fabric.h"
#include "memory/lease_queue.h"
#include "memory/pool.h"
#include "transfer/availability.h"
#include "transfer/blob_command.h"
#include "transfer/blob_reply.h"
#include "transfer/engine.h"
#include "transfer/engine_metrics.h"
#include "transfer/lane_pool.h"
#include "transfer/lease_book.h"
#include "transfer/node_probe.h"
#include "transfer/registrations.h"
#include "transfer/store_steps.h"

namespace keyferry::transfer {

/// What became of a BLOB.RDMA_GET.
struct GetResult {
  enum class Kind : std::uint8_t { kLanded, kMissing, kRefused, kRepeat, kLost };
  Kind kind = Kind::kLost;
  std::string text;
  LandedValue value;
};

/// One BLOB.RDMA_SET or BLOB.RDMA_GET on its way. Owns the Loan until it ends.
struct Transfer {
  Op op = Op::kSet;
  /// Names it while it is here; a GET's is its ticket for abandon().
  std::uint64_t number = 0;
  /// Whose lane carries it.
  upstream::Identity identity;
  std::string key;
  std::uint32_t crc = 0;
  Loan loan;
  base::Executor* back = nullptr;
  base::UniqueFunction<void(SetResult)> set_done;
  base::UniqueFunction<void(GetResult)> get_done;
  /// Of a GET, if anybody wants to know: called just before its command is written.
  base::Task on_posted;

  /// While it waits for a lane: where that identity's are.
  std::shared_ptr<LaneGroup> group;
  StateMachine<TransferRules> machine{TransferState::kQueued};
  base::TimePoint arrived;
  base::TimePoint posted;
  /// Lanes that came to nothing by an unsettled HELLO while this was the first in the queue.
  unsigned unsettled_lanes = 0;
  bool sent_crc = false;
  /// Of a SET: what follows it on its lane.
  std::optional<StoreSteps> steps;
  /// A SET that was answered +OK before one of its steps failed, or was lost.
  bool undone = false;
  bool steps_lost = false;

  memory::LeaseId lease() const { return memory::LeaseId{loan.lease()}; }
};

/// The owner of memory for a GET that several clients may share: no client's own, but it waits its turn as that of the
/// one that came first.
constexpr std::uint64_t kSharedGet = 1ULL << 63U;
constexpr memory::ClientId shared_by(std::uint64_t client) {
  return memory::ClientId{kSharedGet | client};
}
/// The local client, the first one if they share.
constexpr std::uint64_t local_client(memory::ClientId owner) {
  return static_cast<std::uint64_t>(owner) & ~kSharedGet;
}

/// How the last of a GET's clients went: by itself, so that its reply may still come in time, or by CLIENT KILL.
enum class Farewell : std::uint8_t { kWithGrace, kAtOnce };

/// Queue and execution of transfers: in order of arrival each gets the next idle lane of its identity, its command is
/// written, its reply decides. Engine's thread only.
class Transfers final : public LanePool::Listener {
 public:
  struct Parts {
    base::Loop& loop;
    LeaseBook& book;
    EngineMetrics& metrics;
    Availability& availability;
    /// Null without a fabric.
    Registrations* registrations = nullptr;
  };

  Transfers(Parts parts, const EngineOptions& options);

  /// Before the first submit(); null without a fabric.
  void set_lanes(LanePool* lanes) { lanes_ = lanes; }
  void submit(std::unique_ptr<Transfer> transfer);
  /// A GET that nobody waits for: answered at once if it is not on a lane yet, fenced if it is still there after
  /// orphan_grace, or in the loop's next turn.
  void abandon(std::uint64_t number, Farewell farewell);
  /// Refuses what that client has waiting and fences what it has on a lane.
  void end_client(memory::ClientId client);
  /// Everything that waits is answered; what runs is the lanes' to stop.
  void stop();

  bool crc_supported() const { return crc_supported_; }

  /// Transfers that have no lane.
  std::size_t waiting() const { return queue_.size(); }
  /// The local client for which that lane carries something, or the first of those who share a GET; nothing: none.
  std::optional<memory::ClientId> client_on(const Lane& lane) const;
  void serve() override;
  void hello_unsettled(const LaneGroup& group) override;
  void sessions_refused(const LaneGroup* group, const char* reason) override;
  void server_is_new() override { crc_supported_ = true; }

 private:
  using Owned = std::unique_ptr<Transfer>;

  std::string_view refusal(const Transfer& transfer) const;
  void begin(Owned transfer, const std::shared_ptr<Lane>& lane);
  void note_running(const Transfer& transfer, const std::shared_ptr<Lane>& lane);
  std::unique_ptr<base::Timer> interrupt_after(base::Duration limit, const std::shared_ptr<Lane>& lane,
                                               const char* reason, std::string text);
  void post(Owned transfer, const std::shared_ptr<Lane>& lane);
  void replied(Owned transfer, const std::shared_ptr<Lane>& lane, LaneReply reply);
  void follow(Owned transfer, const std::shared_ptr<Lane>& lane, ReplyOutcome outcome);
  void step_replied(Owned transfer, const std::shared_ptr<Lane>& lane, ReplyOutcome outcome, const LaneReply& reply);
  void end_trusted(Owned transfer, const std::shared_ptr<Lane>& lane, ReplyOutcome outcome);
  void end_fenced(Owned transfer, const std::shared_ptr<Lane>& lane, ReplyOutcome outcome);
  void fence_answered(memory::LeaseId lease, std::size_t nic, bool deregister, const base::Result<void>& result);
  void repeat(Owned transfer, std::string reason);
  void finish(Owned transfer, ReplyOutcome outcome);
  /// Ends those on a lane that `which` picks: each by closing its lane.
  template <typename Which>
  void interrupt_running(Which which, const char* reason, const std::string& text);
  std::optional<base::TimePoint> owed_since() const;
  std::optional<std::vector<Window>> windows(const Transfer& transfer, std::size_t nic) const;
  void arm_timer();
  void expire();
  /// Of one group, or all.
  void drain_queue(const LaneGroup* group, const char* reason);

  /// A transfer on a lane, the end of its grace once it is abandoned, and its deadline if there is one.
  struct Running {
    std::weak_ptr<Lane> lane;
    memory::ClientId client{};
    base::TimePoint since;
    std::unique_ptr<base::Timer> grace;
    std::unique_ptr<base::Timer> deadline;
  };

  Parts parts_;
  std::string node_;
  base::Duration upstream_wait_;
  base::Duration orphan_grace_;
  TrustErrorReplies trust_;
  std::uint64_t min_rate_;
  base::Duration deadline_base_;
  LanePool* lanes_ = nullptr;
  std::deque<Owned> queue_;
  std::unordered_map<std::uint64_t, Running> running_;
  NodeProbe probe_;
  base::Timer timer_;
  bool armed_ = false;
  bool crc_supported_ = true;
  bool stopping_ = false;
};

}  // namespace keyferry::transfer
