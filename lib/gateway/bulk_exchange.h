#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "gateway/continuation.h"
#include "gateway/operation.h"
#include "gateway/reply_slots.h"
#include "resp/reply_scanner.h"
#include "transfer/engine.h"
#include "upstream/connection.h"

namespace keyferry::gateway {

/// Where the bytes of a command come from.
struct BulkSource {
  /// The whole command, in memory.
  static BulkSource whole(std::string bytes);
  /// `command key value [rest ...]`, the value from a lease: a transfer that is repeated.
  static BulkSource stored(std::string_view command, std::string_view key, transfer::Loan value,
                           const std::vector<std::string>& rest = {});
  /// From the client, as it comes: the parser has just offered a large argument.
  static BulkSource from_input();

  std::string head;
  transfer::Loan value;
  /// What follows the value, its CR LF first.
  std::string tail;
  bool input = false;
};

/// One command on a connection of its own, from its first byte to its reply's last, through bounded memory in both
/// directions: BLOB.TCP_* (the module blocks the connection meanwhile) and commands with arguments too large for a
/// shared channel. What the client sends is read as the server takes it, what the server sends as the client takes it.
/// Belongs to the worker's thread.
class BulkExchange final : public Operation {
 public:
  BulkExchange(Session& session, SlotTag tag, BulkSource source);
  ~BulkExchange() override;

  /// It repeats a transfer, or stands in for one: counted in transfers_total as path="tcp" of this operation ("set",
  /// "get"), and overlapping with other GETs.
  void count_as(std::string_view operation, bool get) {
    counted_as_ = operation;
    get_ = get;
  }

  /// Whose part this is.
  void continue_to(std::shared_ptr<Continuation> continuation) { continuation_ = std::move(continuation); }

  void start() override;
  void client_gone() override;
  void output_drained() override;
  bool is_get() const override { return get_; }
  std::uint64_t server_id() const override { return connection_ ? connection_->client_id() : 0; }

 private:
  void on_connection(base::Result<std::unique_ptr<upstream::Connection>> connection);
  void write_memory();
  void write_input();
  void input_written(std::error_code error);
  void on_sent(std::error_code error);
  void read_reply();
  void on_reply(std::error_code error, std::string_view bytes);
  bool take_reply(std::string_view bytes);
  void complete();
  void hand_over(std::shared_ptr<Operation> next);
  void fail(std::string_view reason, bool may_have_run);
  void end(bool clean, std::string_view outcome);
  std::shared_ptr<Operation> rest_of_input();
  void release(bool clean);

  SlotTag tag_;
  BulkSource source_;
  std::shared_ptr<Continuation> continuation_;
  /// A reply of one line that the continuation is to judge.
  std::string held_;
  std::string_view counted_as_;
  bool get_ = false;

  std::unique_ptr<upstream::Connection> connection_;
  resp::ReplyScanner scanner_;
  /// All of the command is written; all of its reply is here.
  bool sent_ = false;
  bool replied_ = false;
  bool error_reply_ = false;
  bool reply_begun_ = false;
  bool clean_ = true;
  bool reading_ = false;
  bool writing_ = false;
  bool ended_ = false;
  /// From the client: the parser streams the command; bytes it has seen that are still in the input, lent to a write;
  /// whether they are the last.
  bool streaming_ = false;
  std::size_t lent_ = 0;
  bool lent_last_ = false;
  std::uint64_t moved_ = 0;
};

}  // namespace keyferry::gateway
