#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/command_table.h"
#include "gateway/offload_table.h"
#include "gateway/operation.h"
#include "gateway/pin.h"
#include "gateway/reply_slots.h"
#include "gateway/worker_context.h"
#include "resp/request_parser.h"
#include "upstream/channel.h"

namespace keyferry::gateway {

class ClientQuery;
class Session;

/// Which way each command of one client goes, and when it may start: program order (design: Session). Ordinary commands
/// are pipelined on one shared channel, a command that needs more (Operation) starts when everything before it is
/// answered, and only consecutive large GETs overlap. While state demands it the client has a connection for itself
/// (Pin): moving there waits for all earlier replies, and all commands take that way until it goes back (R14). Part of
/// its session, belongs to the worker's thread.
class Router final : public upstream::ReplySink {
 public:
  /// `dedicated`: the client keeps a connection for itself for life.
  Router(Session& session, bool dedicated);
  ~Router() override;

  /// A whole command, `raw` as it came. False: it can't start yet, or the client was closed; ask again when something
  /// has ended.
  bool dispatch(std::span<const std::string_view> args, std::string_view raw);
  /// A command with a large argument, whose body has not been taken yet (R11). False: as above.
  bool take_body();
  /// True for the beginning of a command whose large value may go by the fabric.
  bool is_large_set(std::span<const std::string_view> args) const;

  /// Nothing is under way for this client.
  bool idle() const { return outstanding_ == 0 && operations_.empty() && !pin_; }
  bool has_operations() const { return !operations_.empty(); }
  /// No other operation of this client is under way.
  bool only(const Operation& operation) const {
    return operations_.size() == 1 && operations_.front().get() == &operation;
  }
  /// A lease, a connection or a paused channel waits for the client to take what it asked for.
  bool holds_something() const { return !operations_.empty() || channel_paused_ || (pin_ && pin_->paused()); }
  bool dedicated() const { return dedicated_; }
  /// The command that comes next has no reply (CLIENT REPLY).
  bool is_silent() const { return pin_ && pin_->silence() != Pin::Silence::kNone; }
  /// An array of no elements or an empty line: nothing to answer. False: as dispatch().
  bool pass_nothing();
  /// It waits for what others do, and is not idle while nothing comes.
  bool listens() const { return pin_ && (pin_->subscribes() || pin_->monitors()); }
  /// What has no reply is still to be handed to the server.
  bool has_unsent() const { return pin_ && pin_->has_unsent(); }
  bool waits_for_pin() const { return pin_ && pin_->state() == Pin::State::kWaiting; }
  /// What the client waits for may never come: it has given that up when it closes its side.
  bool blocked() const;

  /// The client's own connection has nothing to do: false if the client keeps it.
  bool release_pin();
  /// It is lost, and what was owed on it is answered.
  void pin_lost();
  /// What it does gives way to what clients of shared channels do: it has a connection for itself, or had for its last
  /// command, and not because everybody has.
  bool gives_way() const { return alone_ && !dedicated_; }

  void operation_done(Operation& operation);
  void continue_with(Operation& old, std::shared_ptr<Operation> next);
  void advance_gets();
  /// Another client wants to send invalidations here (CLIENT TRACKING with REDIRECT), so this one needs a connection of
  /// its own. `done` runs when it has one, can't have one, or is gone.
  void attach(std::function<void()> done);
  void advance_attach();
  /// What was queued for the client has left.
  void output_drained();
  void client_gone();
  /// Its own connection, if it has one, logs in again where the configuration's password has changed.
  void refresh_login();

  /// The shared channel that carries its ordinary commands, or did last; may be null.
  const upstream::Channel* shared_channel() const { return pin_ ? nullptr : channel_.get(); }
  /// What carries its commands leads elsewhere than a new connection would.
  bool misplaced() const { return pin_ ? pin_->misplaced() : channel_ && channel_->misplaced(); }
  /// The server's ids of the connections that its operations have for themselves.
  std::vector<std::uint64_t> operations_on() const;

  /// The channel for the client's ordinary commands of this protocol; kept while replies are owed on it.
  const std::shared_ptr<upstream::Channel>& channel(upstream::Access access);

  // --- ReplySink: ordinary commands on the shared channel

  bool on_reply(std::uint64_t tag, std::string_view bytes, bool last) override;
  void on_reply_lost(std::uint64_t tag, upstream::Lost lost, bool begun, std::string_view reason) override;

 private:
  /// A larger command does not go by a shared channel (R33).
  static constexpr std::size_t kMostShared = 64 * base::kKiB + 512;

  /// A CLIENT command that is answered here once the server has allowed it.
  struct Leave {
    SlotTag tag;
    std::vector<std::string> args;
    /// What the server says is the client's answer.
    bool refused = false;
    bool begun = false;
  };
  /// HELLO on its way to the server.
  struct Greeting {
    SlotTag tag = 0;
    resp::Protocol protocol = resp::Protocol::kResp2;
    std::string name;
    std::string reply;
  };

  bool hang_up();
  bool query_waits();
  bool reset_waits();
  bool dispatch_stranger(Route route, std::span<const std::string_view> args, std::string_view raw);
  bool refuse_denied(std::span<const std::string_view> args, std::string_view raw);
  std::string denial(std::span<const std::string_view> args);
  bool start_login(std::span<const std::string_view> args, std::string_view raw);
  bool reset_here(std::string_view raw);
  bool ask_leave(std::span<const std::string_view> args, std::string_view raw);
  void answered_leave(std::string_view bytes, bool last);
  bool dispatch_shared(Route route, std::span<const std::string_view> args, std::string_view raw);
  bool dispatch_uncounted(std::span<const std::string_view> args, std::string_view raw);
  void answer_pin_failure();
  bool want_pin(Pin::Kind kind);
  bool greet(std::span<const std::string_view> args, std::size_t bytes);
  void greeted(std::string_view bytes, bool last);
  bool pin_ready(bool& failed);
  bool dispatch_pinned(Route route, std::span<const std::string_view> args, std::string_view raw);
  bool dispatch_clients(std::span<const std::string_view> args, std::string_view raw);
  bool may_transfer() const;
  Offloaded offloaded_of(std::span<const std::string_view> args) const;
  bool take_body_shared(Route route, std::span<const std::string_view> args);
  bool take_body_pinned(Route route, std::span<const std::string_view> args);
  void send_pinned(Route route, std::span<const std::string_view> args, std::string_view raw);
  bool promote_or_refuse(Route route);
  std::string_view as_sent(std::span<const std::string_view> args, std::string_view raw, std::string& bytes) const;
  void keep_pin();
  void name_pin();
  void tell_pin(std::span<const std::string_view> args);
  void mark_for_wait(PinPlan& wait);
  bool is_followed(std::span<const std::string_view> args) const;
  bool may_only_listen() const;
  bool unsubscribes_nothing(std::span<const std::string_view> args) const;
  bool start_raw(bool body_offered);
  static bool speaks(std::span<const std::string_view> args);
  static bool may_be_silent(Route route, std::span<const std::string_view> args);
  void ask_to_be_silent(std::span<const std::string_view> args);
  bool dispatch_silent(Route route, std::span<const std::string_view> args, std::string_view raw);
  void dispatch_reply(std::span<const std::string_view> args, std::string_view raw);
  void send_silently(Route route, std::span<const std::string_view> args, std::string_view raw);
  void stay_silent();
  void kill_silently(std::span<const std::string_view> args);
  void speak_again(std::span<const std::string_view> args);
  bool redirect_ready(std::span<const std::string_view> args);
  PinPlan plan(Route route, std::span<const std::string_view> args);
  PinPlan plan_client(std::span<const std::string_view> args);
  base::Task identity_change(std::span<const std::string_view> args);
  PinPlan greeting(std::span<const std::string_view> args);
  bool start_blob(Route route, std::span<const std::string_view> args, std::string_view raw);
  bool forward_alone(std::span<const std::string_view> args, std::string_view raw, std::string_view counted_as);
  bool forward(std::span<const std::string_view> args, std::string_view raw);
  void keep_read(std::string_view command, SlotTag tag);
  void forget_read(SlotTag tag);
  bool ask_again(SlotTag tag, bool begun, bool was_connected, bool first);
  bool ordinary_may_start(upstream::Access access) const;
  bool operation_may_start(bool get) const;
  bool start_large_set();
  bool start_offloaded(const Offloaded& offloaded, std::span<const std::string_view> args, std::string_view raw);
  bool start_offloaded_body(std::span<const std::string_view> args);
  void start_operation(std::shared_ptr<Operation> operation, bool owns_input);
  void refuse(std::string_view text);
  void refuse_large(std::string_view text);

  Session& session_;
  WorkerContext& worker_;
  resp::RequestParser& parser_;
  /// Of the command that dispatch() has before it.
  const CommandRow* row_ = nullptr;
  std::shared_ptr<upstream::Channel> channel_;
  /// Ordinary commands without a complete reply, all on channel_.
  std::size_t outstanding_ = 0;
  /// The latest of them that are reads.
  std::size_t reads_behind_ = 0;
  bool channel_paused_ = false;
  /// With upstream.retry_reads: reads in flight that have been asked once, whole, and their bytes together.
  std::map<SlotTag, std::string> reads_;
  std::size_t read_bytes_ = 0;
  /// A channel that was lost and has been replaced for a read, and how many commands it has not told of yet.
  std::shared_ptr<upstream::Channel> lost_channel_;
  std::size_t still_lost_ = 0;
  /// No memory but while one is under way.
  std::unique_ptr<Greeting> greeting_;
  /// Asked for and not answered, in order; no memory while it is empty.
  std::list<Leave> leaves_;
  std::vector<std::shared_ptr<Operation>> operations_;
  const bool dedicated_;
  std::shared_ptr<Pin> pin_;
  /// The last command was not for a shared channel.
  bool alone_ = false;
  /// CLIENT LIST, INFO or KILL under way, or over.
  std::shared_ptr<ClientQuery> query_;
  /// Of a RESET that waits for the worker to know who must log in.
  enum class Logins : std::uint8_t { kNotAsked, kAsked, kKnown };
  Logins logins_ = Logins::kNotAsked;
  /// Of attach().
  std::vector<std::function<void()>> attaching_;
  /// The client that this one's redirection waits for to be attached, and the one that had its chance; 0: none.
  std::uint64_t redirect_waits_ = 0;
  std::uint64_t redirect_tried_ = 0;
};

}  // namespace keyferry::gateway
