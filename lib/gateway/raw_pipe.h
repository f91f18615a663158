#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "gateway/operation.h"
#include "resp/reply_scanner.h"
#include "upstream/connection.h"
#include "upstream/pools.h"

namespace keyferry::gateway {

/// From a command on whose replies can't be counted any more (SUBSCRIBE, MONITOR, CLIENT REPLY, SYNC ...) to the
/// client's end: bytes pass in both directions as they are, so that replies, pushes and silences stand where the server
/// put them (R10, R22). Where the listener has rules, commands are looked at on their way and one that breaks them ends
/// the client. Where the server's RESET would make another user of it than it is here, the pipe ends with the reply to
/// that, and the client goes on as it began. What one side does not take is not read from the other; a subscriber that
/// falls behind is the server's to judge, by its own limits. Belongs to the worker's thread.
class RawPipe final : public Operation {
 public:
  /// `connection` was lent by `pool`; nothing is owed on it.
  RawPipe(Session& session, std::unique_ptr<upstream::Connection> connection, upstream::LendingPool& pool);
  ~RawPipe() override;

  void start() override;
  void client_gone() override;
  void output_drained() override;
  bool patient() const override { return true; }

 private:
  void to_server();
  std::size_t carried();
  std::size_t refuse(bool whole);
  std::size_t pass_all();
  bool follow_replies(std::string_view bytes);
  void finish_reset();
  void become_what_it_was();
  void to_client();
  void mark_writes();
  void end();

  std::unique_ptr<upstream::Connection> connection_;
  upstream::LendingPool& pool_;
  bool reading_ = false;
  /// When the client sent what may change logins: what comes back behind it may say that this was done.
  base::TimePoint logins_mentioned_{};
  /// RESET has to be noticed, so commands are followed, and replies to find the one to it.
  bool watches_;
  /// In the rest of a command that is too long to be kept.
  bool in_long_command_ = false;
  /// The last command was CLIENT REPLY SKIP: the next one has no reply.
  bool after_skip_ = false;
  enum class Reset : std::uint8_t { kNone, kAsked, kWritten } reset_ = Reset::kNone;
  bool reset_answered_ = false;
  resp::ReplyScanner replies_;
  /// They can't be followed any more.
  bool replies_lost_ = false;
  /// How the reply under way begins.
  std::string begun_;
};

}  // namespace keyferry::gateway
