#pragma once

#include <cstdint>
#include <list>

#include "base/clock.h"
#include "gateway/reply_slots.h"
#include "gateway/slow_log.h"

namespace keyferry::gateway {

/// Follows one client's replies until they are taken, for the SlowLog. All that were slow before they left are
/// followed, up to kMost, and of the others one at a time, so that an ordinary command costs a comparison: a client
/// that takes nothing is seen by that one. Belongs to the worker's thread.
class SlowWatch final : public ReplySlots::Watcher {
 public:
  static constexpr std::size_t kMost = 64;

  SlowWatch(SlowLog& log, std::uint64_t client) : log_(log), client_(client) {}

  void left(const ReplySlots::Reply& reply, std::uint64_t end) override;
  /// The client has taken so many bytes.
  void taken(std::uint64_t bytes);

 private:
  struct Followed {
    ReplySlots::Reply reply;
    std::uint64_t end;
  };
  void settle(const ReplySlots::Reply& reply) const;

  SlowLog& log_;
  const std::uint64_t client_;
  /// No memory while it is empty.
  std::list<Followed> followed_;
};

}  // namespace keyferry::gateway
