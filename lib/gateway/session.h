#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/stream.h"
#include "gateway/input_buffer.h"
#include "gateway/listener_rules.h"
#include "gateway/operation.h"
#include "gateway/output_queue.h"
#include "gateway/reply_slots.h"
#include "gateway/router.h"
#include "gateway/slow_watch.h"
#include "gateway/stall_watch.h"
#include "gateway/worker_context.h"
#include "resp/request_parser.h"

namespace keyferry::gateway {

/// How a client came.
struct ClientOrigin {
  /// The gateway's, never used again.
  std::uint64_t id = 0;
  /// "tcp", "tls" or "unix"; lives for ever.
  std::string_view transport;
  /// See ClientFacts.
  std::shared_ptr<const std::string> local_address{};
  /// It has a connection to the server for itself, for life (a listener with upstream: dedicated).
  bool dedicated = false;
  std::shared_ptr<const ListenerRules> rules = std::make_shared<const ListenerRules>();
  /// Of these, whom it acts as until it says; null: the configuration's user.
  const MappedUser* user = nullptr;
};

/// One local client: its socket, its parser, its replies in order, back-pressure. What becomes of its commands its
/// Router decides. Belongs to its worker's thread. Owned by the worker; lives on after the client has gone until every
/// reply it asked for has come.
class Session final : public std::enable_shared_from_this<Session>, public ReachableClient {
 public:
  /// What the client has told about itself, and whom it acts as.
  struct ClientState {
    std::uint64_t id = 0;
    resp::Protocol protocol = resp::Protocol::kResp2;
    upstream::Identity identity;
    std::string name;
    std::string library_name;
    std::string library_version;
    /// Of CLIENT TRACKING with REDIRECT: the gateway's id of the other client.
    std::uint64_t redirect = 0;
  };

  Session(WorkerContext& worker, std::unique_ptr<base::Stream> stream, const ClientOrigin& origin);
  ~Session();

  void start();
  /// Once a second: stall, idle time (limits.stall, limits.client_idle).
  void tick(base::TimePoint now);
  /// Ends the connection now; what is under way runs to its end without it.
  void close(std::string_view reason);
  /// See ReachableClient.
  void kill() override;
  void attach(std::function<void()> done) override;
  /// Nothing is owed to it any more: the worker may drop it.
  bool finished() const { return closed_ && router_.idle() && !reading_ && !writing_; }
  /// No command is under way and nothing waits to be written: it may be closed without harm.
  bool idle() const { return slots_.open_count() == 0 && output_.empty() && input_.size() == 0; }
  std::optional<base::TimePoint> oldest_request() const {
    return slots_.open_count() != 0 ? slots_.oldest() : held_up_;
  }

  /// For an operator: see Router.
  ClientFacts facts() const;
  std::size_t owed() const { return slots_.open_count(); }
  const upstream::Channel* shared_channel() const { return router_.shared_channel(); }
  std::vector<std::uint64_t> operations_on() const { return router_.operations_on(); }

  // --- for operations and local commands
  // -------------------------------------------------------------------------------------------------------

  WorkerContext& worker() { return worker_; }
  ClientState& client() { return client_; }
  resp::RequestParser& parser() { return parser_; }
  bool closed() const { return closed_; }
  bool dedicated() const { return router_.dedicated(); }
  const ListenerRules& rules() const { return *origin_.rules; }
  /// Nothing but a login is taken from it.
  bool must_log_in() const { return must_log_in_; }
  /// The server has agreed to another user.
  void logged_in_as(std::string user, std::string password);
  /// As it was when it came, as far as that is the gateway's to say (RESET).
  void forget_login();
  /// What it was when it came is known here alone: the server's RESET would make another of it.
  bool has_own_login() const { return worker_.configured_login || must_log_in_at_first() || origin_.user != nullptr; }
  bool has_operations() const { return router_.has_operations(); }
  /// What comes next stands alone: nothing before it waits for an answer or for a connection.
  bool all_answered() const;
  /// Replies of this client wait to be taken by it.
  bool has_undelivered() const { return !output_.empty(); }
  /// Bytes that wait here for the client, without values that lie in the pool.
  std::size_t output_queued() const { return output_.buffered() + slots_.buffered(); }
  /// No more should be queued for this client now; output_drained() tells when it may go on.
  bool output_full() const;

  void reply(SlotTag tag, std::string_view bytes);
  void reply_error(SlotTag tag, std::string_view text);
  void reply_value(SlotTag tag, transfer::SharedValue value);
  bool retract_reply(SlotTag tag) { return slots_.retract(tag); }
  bool owes(SlotTag tag) const { return slots_.is_open(tag); }
  void finish_reply(SlotTag tag);
  /// Its command was handed to a connection to the server then.
  void asked(SlotTag tag, base::TimePoint when);
  void asked(SlotTag tag) { asked(tag, base::Clock::steady().now()); }
  /// It has become clear what the command is.
  void classify(SlotTag tag, CommandClass command_class) { slots_.classify(tag, command_class); }
  /// An error that ends the conversation: it is queued and the client is closed when all has been written.
  void protocol_error(std::string_view text);
  void close_after_output();
  /// Bytes of the server that are no command's reply.
  void push(std::string_view bytes);
  /// Its user can no longer log in: it ends when it has what is owed to it (R54).
  void end_of_login(int code);
  /// The server has ended the client's own connection: the client ends with it, when it has what came before.
  void end_with_server(std::string_view reason);
  /// What CLIENT LIST tells of it has changed.
  void tell_directory();
  /// The command has been taken up, `row` being null for one that the table does not know.
  void began(const CommandRow* row) { activity_->command.store(row, std::memory_order_relaxed); }
  /// See Router.
  bool release_pin() { return router_.release_pin(); }
  void pin_lost() { router_.pin_lost(); }
  /// Runs now. Many that are woken or commit at once would be served one after another before the next command on a
  /// shared channel: what they do runs behind that (Router::gives_way).
  void in_turn(base::Task task);
  /// The same, at the end of this turn of the loop, so that all that the turn sends leaves together.
  void later(base::Task task);

  /// See Router::channel().
  const std::shared_ptr<upstream::Channel>& channel(upstream::Access access) { return router_.channel(access); }

  /// What was read and not used yet, for the operation that owns the input.
  std::string_view input() const { return input_.view(); }
  void consume_input(std::size_t bytes);
  /// Reads more into the input; `on_data` runs when there is some. Not called when the client goes away: client_gone()
  /// is.
  void read_input(std::size_t capacity, base::Task on_data);
  /// What lies behind the memory of a read_into() stays in the kernel, or comes into input() with it as far as there is
  /// room.
  enum class Behind : std::uint8_t { kStays, kComesToo };
  /// Reads straight into memory that the caller keeps until the callback is gone, run or not; it is told how many bytes
  /// are there. 0: something is in input() instead, a read of the session's own having been under way.
  void read_into(std::vector<base::MutableBytes> memory, Behind behind,
                 base::UniqueFunction<void(std::size_t)> on_data);
  /// The command's last byte was consumed: the session parses on.
  void input_done();

  void operation_done(Operation& operation) { router_.operation_done(operation); }
  /// `next` takes the place of `old`, which has ended.
  void continue_with(Operation& old, std::shared_ptr<Operation> next) { router_.continue_with(old, std::move(next)); }
  /// See Router::only().
  bool only(const Operation& operation) const { return router_.only(operation); }
  /// A GET got, gave up or no longer needs its lease: the next one's turn.
  void advance_gets() { router_.advance_gets(); }

  // --- for the router
  // -------------------------------------------------------------------------------------------------------

  /// A place for the reply of the command that the parser gave; asked for before anything of that command is sent.
  SlotTag open_reply(CommandClass command_class);
  /// The command that the parser gave is carried out or on its way: its bytes are done with.
  void end_command(std::size_t bytes);
  /// Goes on with what was read, as far as it may.
  void process();
  /// From here the operation takes the rest of the current command from the input.
  void give_input_to(Operation* operation);
  void replace_input_owner(const Operation& old, Operation* next);
  /// Bytes queued for the client, and values of the pool that wait for it.
  std::size_t queued() const { return output_.buffered() + slots_.buffered(); }
  std::size_t values_held() const { return output_.values() + slots_.values(); }

 private:
  bool must_log_in_at_first() const;
  bool may_go_on() const;
  bool take_command();
  bool begins(bool begun);
  bool speaks_of_its_server(SlotTag tag) const;
  bool reads_whole();
  void make_room();

  void was_active();
  void read_more();
  base::MutableBytes room_to_read();
  void settle(base::TimePoint now);
  void start_read(std::span<const base::MutableBytes> buffers, base::UniqueFunction<void(std::size_t)> on_data);
  bool has_read(std::error_code error, std::size_t bytes);
  void on_end_of_input();
  void close_if_over();
  void note_login_change(SlotTag tag);
  void schedule_flush();
  void flush();
  void on_written(std::error_code error, std::size_t bytes);
  void after_output();
  void account();
  ReplySlots::Mark may_write();

  WorkerContext& worker_;
  std::unique_ptr<base::Stream> stream_;
  ClientState client_;
  const ClientOrigin origin_;
  const std::shared_ptr<ClientActivity> activity_ = std::make_shared<ClientActivity>();
  bool must_log_in_ = false;
  /// Since the last EXEC a command was answered that may change logins: it may have been queued for the next.
  bool login_change_queued_ = false;
  const base::TimePoint since_ = base::Clock::steady().now();
  const WorkerMetrics::ClientBytes bytes_;

  InputBuffer input_;
  resp::RequestParser parser_;
  /// The operation that takes the rest of the current command from the input; null while the session itself parses.
  Operation* input_owner_ = nullptr;
  /// Since when the command that the parser gave last can't begin.
  std::optional<base::TimePoint> held_up_;
  /// The parser has offered a large body that could not be started yet.
  bool body_offered_ = false;

  OutputQueue output_;
  ReplySlots slots_;
  std::uint64_t accounted_ = 0;
  std::optional<SlowWatch> slow_;

  Router router_;

  bool reading_ = false;
  /// A read under way has been given memory of input_.
  bool input_lent_ = false;
  /// Runs when the session's own read, under way when an operation took the input, has brought something.
  base::Task input_waiter_;
  bool writing_ = false;
  bool flush_scheduled_ = false;
  bool processing_ = false;
  bool input_ended_ = false;
  /// What lies in the input is no whole command.
  bool needs_more_ = false;
  bool left_waiting_ = false;  // at the last tick: its input had ended, and something waited that only it could end
  bool closing_ = false;
  bool closed_ = false;

  StallWatch stall_;
  base::TimePoint last_active_;
};

}  // namespace keyferry::gateway
