#include "gateway/slow_watch.h"

#include <algorithm>

#include "gateway/command_table.h"

namespace keyferry::gateway {

void SlowWatch::left(const ReplySlots::Reply& reply, std::uint64_t end) {
  if (reply.command_class == CommandClass::kBlocking || followed_.size() >= kMost) return;
  if (!followed_.empty() && reply.finished - reply.opened < log_.from()) return;
  followed_.push_back({reply, end});
}

void SlowWatch::taken(std::uint64_t bytes) {
  while (!followed_.empty() && followed_.front().end <= bytes) {
    settle(followed_.front().reply);
    followed_.pop_front();
  }
}

void SlowWatch::settle(const ReplySlots::Reply& reply) const {
  const base::TimePoint now = base::Clock::steady().now();
  if (now - reply.opened < log_.from()) return;
  SlowCommand slow;
  slow.when = std::chrono::system_clock::now();
  slow.client = client_;
  slow.command = reply.row != nullptr ? reply.row->name : "other";
  slow.command_class = name_of(reply.command_class);
  // What the server was not asked for has waited for nothing but its turn.
  const base::TimePoint asked = reply.asked == base::TimePoint{} ? reply.finished : std::max(reply.asked, reply.opened);
  slow.queue = asked - reply.opened;
  slow.upstream = reply.finished - asked;
  slow.delivery = now - reply.finished;
  log_.add(slow);
}

}  // namespace keyferry::gateway
