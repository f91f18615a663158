#include "gateway/slow_log.h"

namespace keyferry::gateway {

void SlowLog::add(const SlowCommand& command) {
  if (!on()) return;
  const std::lock_guard guard(mutex_);
  if (commands_.size() == kept_) commands_.pop_back();
  commands_.push_front(command);
}

std::vector<SlowCommand> SlowLog::latest() const {
  const std::lock_guard guard(mutex_);
  return {commands_.begin(), commands_.end()};
}

}  // namespace keyferry::gateway
