#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/offload_table.h"
#include "gateway/operation.h"
#include "gateway/reply_slots.h"
#include "resp/value.h"
#include "upstream/channel.h"

namespace keyferry::gateway {

/// A command of which a key stands under `transfer.offload` and may hold a string or a large object. It is sent as it
/// came and its reply passed on; where the server says WRONGTYPE and BLOB.INFO says that it is a large object's, the
/// command is carried out on that: GET and GETEX read it (BlobGet), GETDEL moves it aside first, so that of two only
/// one gets it, STRLEN is its length, and the rest gets an error that says why (lib/gateway/OFFLOAD.md). The likelier
/// kind is asked for first. A key that changes its kind between two questions is asked for again. Belongs to the
/// worker's thread.
class OffloadCommand final : public Operation, public upstream::ReplySink {
 public:
  struct Plan {
    OffloadRoute route = OffloadRoute::kNone;
    /// Whole, in RESP. Empty: it was carried out elsewhere and is not to be repeated.
    std::string command;
    /// Under a prefix, at least one.
    std::vector<std::string> keys;
    std::string_view object_error;
    /// The words behind the key, for GETEX.
    std::vector<std::string> options;
    /// How often it was begun anew.
    unsigned rounds = 0;
  };

  OffloadCommand(Session& session, SlotTag tag, Plan plan);
  ~OffloadCommand() override;

  /// The server's answer to the command, when it was sent elsewhere: a line that begins with -WRONGTYPE.
  void answered_with(std::string line) { wrong_type_ = std::move(line); }

  void start() override;
  void client_gone() override;
  void output_drained() override;

  bool on_reply(std::uint64_t tag, std::string_view bytes, bool last) override;
  void on_reply_lost(std::uint64_t tag, upstream::Lost lost, bool begun, std::string_view reason) override;

 private:
  enum class Asked : std::uint8_t { kCommand, kInfo, kExpiry, kMove };

  void ask(Asked what, const std::string& command);
  void ask_command();
  void ask_info();
  bool command_replied(std::string_view bytes, bool last);
  void info_replied(const resp::Value& info);
  void asked_all(const resp::Value& info);
  void expiry_replied(const resp::Value& reply);
  void move_replied(const resp::Value& reply);
  void on_object(std::uint64_t length);
  void set_expiry();
  void move_aside();
  void read_value();
  void answer(std::string_view bytes);
  void end();

  SlotTag tag_;
  Plan plan_;
  Asked asked_ = Asked::kCommand;
  bool gone_ = false;
  bool paused_ = false;
  /// The command's reply is being passed on.
  bool passing_ = false;
  /// Kept until it has answered: the session may choose another meanwhile.
  std::shared_ptr<upstream::Channel> channel_;
  /// What came of the reply, as long as it is looked at.
  std::string reply_;
  std::string wrong_type_;
  /// The key that is asked for.
  std::size_t key_ = 0;
  std::uint64_t length_ = 0;
  /// Where GETDEL has put the object.
  std::string moved_to_;
};

}  // namespace keyferry::gateway
