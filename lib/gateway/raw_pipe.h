#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "gateway/operation.h"
#include "resp/reply_scanner.h"
#include "resp/request_parser.h"
#include "upstream/connection.h"
#include "upstream/pools.h"

namespace keyferry::gateway {

/// From a command on whose replies can't be counted any more: SYNC, REPLCONF, SUBSCRIBE in a transaction, what blocks
/// or changes the connection behind CLIENT REPLY OFF or SKIP; on a dedicated listener every SUBSCRIBE, MONITOR and
/// CLIENT REPLY. Bytes pass in both directions as they are, so that replies, pushes and silences stand where the server
/// put them (R10, R22). Commands are followed on their way: what speaks of other clients goes in the server's words
/// (in_server_words), and one that breaks the listener's rules ends the client. The pipe ends with the client, or with
/// the reply to RESET, and then the client goes on as it began, unless the connection is its own for life. What one
/// side does not take is not read from the other; a subscriber that falls behind is the server's to judge, by its own
/// limits. Belongs to the worker's thread.
class RawPipe final : public Operation {
 public:
  struct Begin {
    /// The first command has a large argument, which the parser has just offered.
    bool body_offered = false;
    /// It has no reply.
    bool after_skip = false;
  };
  /// `connection` was lent by `pool`; nothing is owed on it.
  RawPipe(Session& session, std::unique_ptr<upstream::Connection> connection, upstream::LendingPool& pool,
          const Begin& begin);
  ~RawPipe() override;

  void start() override;
  void client_gone() override;
  void output_drained() override;
  bool patient() const override { return true; }
  bool blocked() const override { return reset_ != Reset::kNone; }

 private:
  void to_server();
  std::size_t carried();
  std::string_view refusal(resp::RequestParser::Event event, std::span<const std::string_view> args) const;
  void refuse(std::string_view text);
  void note_login_change(std::span<const std::string_view> args);
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
  /// When the client sent what may change logins: what comes back behind it may say that this was done. It may be
  /// queued, for the next EXEC to do it.
  base::TimePoint logins_mentioned_{};
  bool login_change_queued_ = false;
  /// RESET makes another user of the client than it was here when it came: it can't pass unseen.
  const bool must_see_reset_;
  const bool ends_at_reset_;
  /// Commands are followed, and replies to find the one to RESET.
  bool follows_ = true;
  /// What the server gets in place of the command that is passed.
  std::string instead_;
  bool body_offered_;
  /// In the rest of a command that is too long to be kept.
  bool in_long_command_ = false;
  /// The last command was CLIENT REPLY SKIP: the next one has no reply.
  bool after_skip_;
  enum class Reset : std::uint8_t { kNone, kAsked, kWritten } reset_ = Reset::kNone;
  bool reset_answered_ = false;
  resp::ReplyScanner replies_;
  /// They can't be followed any more.
  bool replies_lost_ = false;
  /// How the reply under way begins.
  std::string begun_;
};

}  // namespace keyferry::gateway
