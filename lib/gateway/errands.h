#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "upstream/channel.h"

namespace keyferry::gateway {

/// Commands that a worker sends on its own account and that no client waits for, such as the removal of what a command
/// that was cut short has left. What comes of them is logged if it is no success. Belongs to the worker's thread.
class Errands final : public upstream::ReplySink {
 public:
  /// `command`: whole, in RESP. `what`: for the log, e.g. "the removal of a leftover".
  void run(std::shared_ptr<upstream::Channel> on, const std::string& command, std::string_view what);

  bool on_reply(std::uint64_t tag, std::string_view bytes, bool last) override;
  void on_reply_lost(std::uint64_t tag, upstream::Lost lost, bool begun, std::string_view reason) override;

 private:
  struct Errand {
    std::shared_ptr<upstream::Channel> channel;
    std::string_view what;
  };
  std::unordered_map<std::uint64_t, Errand> under_way_;
  std::uint64_t next_ = 0;
};

}  // namespace keyferry::gateway
