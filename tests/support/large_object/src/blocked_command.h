#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "valkey_api.h"

namespace keyferry::large_object {

/// Writes one reply; called with a context whose client may be replied to.
using Reply = std::function<void(ValkeyModuleCtx*)>;

/// A client that waits for its reply. Must end by exactly one of answer() and never_answer(). Main thread, except
/// reply_from_thread(). The client may go away at any time; the calls then do nothing visible.
class BlockedCommand {
 public:
  /// Blocks the context's client. Null if it cannot be blocked; it then has its error reply already.
  static std::shared_ptr<BlockedCommand> block(ValkeyModuleCtx* ctx);

  [[nodiscard]] std::uint64_t client_id() const { return client_id_; }

  /// Writes the reply, behind what reply_from_thread() wrote, and lets the client go on.
  void answer(Reply reply);

  /// Opens a way to write (a part of) the reply on another thread; a large reply is then copied there.
  void prepare_thread_reply();
  /// Once, by one other thread, after prepare_thread_reply() and before answer().
  void reply_from_thread(const Reply& reply);

  /// Leaves the client waiting until it disconnects.
  void never_answer();

  /// Gives back what the silent commands of a client hold; to be called when it disconnects.
  static void client_gone(std::uint64_t client_id);

 private:
  BlockedCommand(ValkeyModuleBlockedClient* blocked, std::uint64_t client_id)
      : blocked_(blocked), client_id_(client_id) {}

  ValkeyModuleBlockedClient* blocked_;
  ValkeyModuleCtx* thread_context_ = nullptr;
  std::uint64_t client_id_;
};

using BlockedCommandRef = std::shared_ptr<BlockedCommand>;

}  // namespace keyferry::large_object
