#include "gateway/router.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "gateway/blob_get.h"
#include "gateway/blob_set.h"
#include "gateway/bulk_exchange.h"
#include "gateway/client_ids.h"
#include "gateway/client_query.h"
#include "gateway/drop_input.h"
#include "gateway/local_commands.h"
#include "gateway/login_exchange.h"
#include "gateway/offload_start.h"
#include "gateway/session.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

constexpr std::size_t kMostOverlappingGets = 4;
// What one client's reads may take to be kept for another try (upstream.retry_reads).
constexpr std::size_t kMostKept = 256 * base::kKiB;

}  // namespace

Router::Router(Session& session, bool dedicated)
    : session_(session), worker_(session.worker()), parser_(session.parser()), dedicated_(dedicated) {}

Router::~Router() = default;

bool Router::is_large_set(std::span<const std::string_view> args) const {
  if (args.empty()) return false;
  return classify(args) == Route::kBlobSet || is_offloaded_set(args, worker_.options.offload);
}

bool Router::dispatch(std::span<const std::string_view> args, std::string_view raw) {
  row_ = find_command(args);
  const Route route = classify(row_, args);
  if (route == Route::kHangUp) return hang_up();
  session_.began(row_);
  if (query_waits() || reset_waits() || (pin_ && pin_->holds_up())) return false;
  if (route == Route::kRdma) {
    refuse(kRdmaRefusal);
    session_.end_command(raw.size());
    return true;
  }
  if (session_.must_log_in()) return dispatch_stranger(route, args, raw);
  if (session_.rules().denies(args)) return refuse_denied(args, raw);
  if (pin_) return dispatch_pinned(route, args, raw);
  if (!dedicated_ && route == Route::kIdentity && !equals_upper(args[0], "SELECT")) return start_login(args, raw);
  return dedicated_ ? want_pin(Pin::Kind::kLong) : dispatch_shared(route, args, raw);
}

/// As the server does with a line of HTTP, once what came before has run.
bool Router::hang_up() {
  if (session_.all_answered()) session_.close("it sent a line of HTTP");
  return false;
}

/// What comes behind CLIENT KILL must not find its victims alive.
bool Router::query_waits() {
  if (query_ && !query_->over()) return true;
  query_.reset();
  return false;
}

/// RESET makes a client what it was when it came: what is under way runs to its end as whoever sent it (R54), and
/// whether the client must log in then is to be known first.
bool Router::reset_waits() {
  if (row_ == nullptr || row_->name != "RESET") return false;
  if (!session_.all_answered()) return true;
  // One answer will do, or changes of others could hold it up for ever.
  if (logins_ == Logins::kKnown || worker_.knows_logins()) {
    logins_ = Logins::kNotAsked;
    return false;
  }
  if (std::exchange(logins_, Logins::kAsked) == Logins::kAsked) return true;
  worker_.when_logins_known([this, session = session_.weak_from_this()] {
    const auto alive = session.lock();
    if (!alive) return;
    if (logins_ == Logins::kAsked) logins_ = Logins::kKnown;
    session_.process();
  });
  return true;
}

/// Of a client that has to log in first, in the server's words.
bool Router::dispatch_stranger(Route route, std::span<const std::string_view> args, std::string_view raw) {
  // A login under way decides.
  if (!operations_.empty()) return false;
  if (pin_) {
    // From before RESET.
    if (pin_->owed() != 0) return false;
    pin_->close();
    pin_.reset();
  }
  if (route == Route::kIdentity && !equals_upper(args[0], "SELECT")) return start_login(args, raw);
  if (equals_upper(args[0], "QUIT") || equals_upper(args[0], "RESET")) {
    run_local(session_, args, session_.open_reply(CommandClass::kLocal));
  } else if (equals_upper(args[0], "HELLO")) {
    refuse(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
        "<pass> option can be used to authenticate the client and select the RESP protocol version at the same time");
  } else {
    refuse("NOAUTH Authentication required.");
  }
  session_.end_command(raw.size());
  return true;
}

bool Router::refuse_denied(std::span<const std::string_view> args, std::string_view raw) {
  refuse(denial(args));
  session_.end_command(raw.size());
  return true;
}

std::string Router::denial(std::span<const std::string_view> args) {
  // As the server does with a command that a transaction may not hold: EXEC is to fail, so it is told one of no use.
  if (pin_ && pin_->state() == Pin::State::kReady && pin_->silence() == Pin::Silence::kNone)
    tell_pin(std::array<std::string_view, 1>{"ECHO"});
  return "NOPERM keyferry: this listener does not carry '" + std::string(args[0]) + "' (deny_commands)";
}

bool Router::start_login(std::span<const std::string_view> args, std::string_view raw) {
  if (greeting_ || !operation_may_start(false)) return false;
  std::string command;
  resp::append_command(command, args);
  base::Task then = equals_upper(args[0], "HELLO") ? greeting(args).then : identity_change(args);
  const SlotTag tag = session_.open_reply(CommandClass::kPinned);
  auto login = std::make_shared<LoginExchange>(session_, tag, std::move(command), std::move(then));
  session_.end_command(raw.size());
  start_operation(std::move(login), false);
  return true;
}

/// RESET of a client that is, without a login of its own, somebody else here than to the server: its connection goes.
bool Router::reset_here(std::string_view raw) {
  if (pin_->owed() != 0) return false;
  pin_->close();
  pin_.reset();
  run_local(session_, std::array<std::string_view, 1>{"RESET"}, session_.open_reply(CommandClass::kLocal));
  session_.tell_directory();
  session_.end_command(raw.size());
  return true;
}

bool Router::dispatch_shared(Route route, std::span<const std::string_view> args, std::string_view raw) {
  if (greeting_) return false;
  alone_ = false;
  switch (route) {
    case Route::kOrdinary: {
      const Offloaded offloaded = offloaded_of(args);
      return offloaded.route == OffloadRoute::kNone ? forward(args, raw) : start_offloaded(offloaded, args, raw);
    }
    case Route::kEndsTransaction:
      return forward(args, raw);
    case Route::kLocal: {
      if (equals_upper(args[0], "HELLO")) return greet(args, raw.size());
      if (equals_upper(args[0], "CLIENT")) return ask_leave(args, raw);
      const SlotTag tag = session_.open_reply(CommandClass::kLocal);
      run_local(session_, args, tag);
      session_.tell_directory();
      session_.end_command(raw.size());
      return true;
    }
    case Route::kBlobGet:
    case Route::kBlobSet:
      return start_blob(route, args, raw);
    case Route::kAlone:
    case Route::kIdentity:
    case Route::kTransaction:
      return want_pin(Pin::Kind::kShort);
    case Route::kClients:
    case Route::kControl:
      return want_pin(is_control(route, args) ? Pin::Kind::kControl : Pin::Kind::kShort);
    case Route::kRaw:
      return unsubscribes_nothing(args) || speaks(args) ? forward(args, raw) : want_pin(Pin::Kind::kLong);
    case Route::kBlocking:
    case Route::kOwn:
      return want_pin(Pin::Kind::kLong);
    case Route::kRdma:
    case Route::kHangUp:
      break;
  }
  return false;
}

// --- large values, and what is too large for a shared channel
// ------------------------------------------------------------------------------

bool Router::start_blob(Route route, std::span<const std::string_view> args, std::string_view raw) {
  const bool value = route == Route::kBlobGet && args.size() == 2;
  // Small, or with arguments that the server will judge: as it is, on a connection of its own, because the module
  // blocks it meanwhile.
  if (!value) {
    if (!operation_may_start(false)) return false;
    // A value that becomes small goes the other way from now on.
    if (args.size() > 1) worker_.lengths.forget(session_.client().identity, args[1]);
    return forward_alone(args, raw, route == Route::kBlobSet ? "set" : "get");
  }
  if (!operation_may_start(true)) return false;
  const SlotTag tag = session_.open_reply(CommandClass::kTransferGet);
  auto operation = std::make_shared<BlobGet>(session_, tag, std::string(args[1]));
  session_.end_command(raw.size());
  start_operation(std::move(operation), false);
  return true;
}

bool Router::start_offloaded(const Offloaded& offloaded, std::span<const std::string_view> args, std::string_view raw) {
  if (!operation_may_start(offloaded.route == OffloadRoute::kGet)) return false;
  const SlotTag tag = session_.open_reply(CommandClass::kOrdinary);
  std::shared_ptr<Operation> operation = offloaded_command(session_, tag, offloaded, args, raw.size() > kMostShared);
  session_.end_command(raw.size());
  start_operation(std::move(operation), false);
  return true;
}

/// A whole command on a connection of its own. `counted_as`: see BulkExchange::count_as; empty for ordinary commands.
bool Router::forward_alone(std::span<const std::string_view> args, std::string_view raw, std::string_view counted_as) {
  if (!operation_may_start(false)) return false;
  std::string bytes;
  resp::append_command(bytes, args);
  const SlotTag tag = session_.open_reply(CommandClass::kBulk);
  auto exchange = std::make_shared<BulkExchange>(session_, tag, BulkSource::whole(std::move(bytes)));
  if (!counted_as.empty()) exchange->count_as(counted_as, false);
  session_.end_command(raw.size());
  start_operation(std::move(exchange), false);
  return true;
}

bool Router::forward(std::span<const std::string_view> args, std::string_view raw) {
  if (raw.size() > kMostShared) return forward_alone(args, raw, {});
  const upstream::Access access = access_of(row_);
  if (!ordinary_may_start(access)) return false;
  const SlotTag tag = session_.open_reply(CommandClass::kOrdinary);
  upstream::Channel& to = *channel(access);
  ++outstanding_;
  std::string bytes;
  if (parser_.is_inline()) resp::append_command(bytes, args);
  const std::string_view command = parser_.is_inline() ? std::string_view(bytes) : raw;
  if (worker_.options.retry_reads) keep_read(command, tag);
  to.send(command, *this, tag, access);
  reads_behind_ = access == upstream::Access::kReads ? reads_behind_ + 1 : 0;
  session_.end_command(raw.size());
  return true;
}

/// Only what the server's own table calls a read may run twice.
void Router::keep_read(std::string_view command, SlotTag tag) {
  if (row_ == nullptr || (row_->flags & kReadonly) == 0 || read_bytes_ + command.size() > kMostKept) return;
  reads_.emplace(tag, command);
  read_bytes_ += command.size();
}

void Router::forget_read(SlotTag tag) {
  const auto found = reads_.find(tag);
  if (found == reads_.end()) return;
  read_bytes_ -= found->second.size();
  reads_.erase(found);
}

/// The reply to a read was lost with a connection that had stood. `first`: of those that were lost with it. Its channel
/// is replaced, and what follows it in the client's order goes behind it there. Not if something else than reads was
/// lost behind it: that may have run, and the read would see what came after it.
bool Router::ask_again(SlotTag tag, bool begun, bool was_connected, bool first) {
  const auto found = reads_.find(tag);
  if (found == reads_.end()) return false;
  const std::string command = std::move(found->second);
  read_bytes_ -= command.size();
  reads_.erase(found);
  const std::size_t behind = first ? outstanding_ : still_lost_;
  if (!was_connected || behind != reads_.size() || (begun && !session_.retract_reply(tag))) return false;
  if (first) {
    still_lost_ = outstanding_;
    if (still_lost_ != 0) lost_channel_ = channel_;
    channel_ = worker_.channels.pick(channel_->identity(), channel_->protocol());
  }
  ++outstanding_;
  worker_.metrics.shard.counter(telemetry::Metric::kReadRetriesTotal).add();
  channel_->send(command, *this, tag);
  return true;
}

/// While writes may be held back, a client's write waits for its reads, which are where others' reads are, and its read
/// behind reads does, if others' writes have come to where these are.
bool Router::ordinary_may_start(upstream::Access access) const {
  if (!operations_.empty()) return false;
  if (outstanding_ == 0) return true;
  const bool only_reads = outstanding_ <= reads_behind_;
  if (only_reads && channel_->owes_writes() == (access == upstream::Access::kReads) &&
      worker_.channels.holds_writes(channel_->identity(), channel_->protocol()))
    return false;
  return channel_->accepts() && channel_->serves(session_.client().identity, session_.client().protocol);
}

bool Router::operation_may_start(bool get) const {
  if (outstanding_ != 0 || (pin_ && pin_->owed() != 0)) return false;
  if (operations_.empty()) return true;
  return get && operations_.size() < kMostOverlappingGets &&
         std::all_of(operations_.begin(), operations_.end(), [](const auto& operation) { return operation->is_get(); });
}

bool Router::take_body() {
  const std::span<const std::string_view> args = parser_.args(session_.input());
  row_ = find_command(args);
  const Route route = args.empty() ? Route::kOrdinary : classify(row_, args);
  if (route == Route::kHangUp) return hang_up();
  session_.began(row_);
  if (query_waits() || (pin_ && pin_->holds_up())) return false;
  if (route == Route::kRdma) {
    refuse_large(kRdmaRefusal);
    return true;
  }
  if (session_.must_log_in()) {
    if (!operations_.empty()) return false;
    refuse_large("NOAUTH Authentication required.");
    return true;
  }
  if (session_.rules().denies(args)) {
    refuse_large(denial(args));
    return true;
  }
  if (pin_) return take_body_pinned(route, args);
  return dedicated_ ? want_pin(Pin::Kind::kLong) : take_body_shared(route, args);
}

bool Router::take_body_shared(Route route, std::span<const std::string_view> args) {
  if (greeting_) return false;
  switch (route) {
    case Route::kClients:
    case Route::kLocal:
      refuse_large("ERR keyferry: an argument of this command is too long");
      return true;
    case Route::kAlone:
    case Route::kIdentity:
    case Route::kTransaction:
      return want_pin(Pin::Kind::kShort);
    case Route::kControl:
      return want_pin(Pin::Kind::kControl);
    case Route::kBlocking:
    case Route::kOwn:
    case Route::kRaw:
      return want_pin(Pin::Kind::kLong);
    default:
      break;
  }
  if (!operation_may_start(false)) return false;
  if (route == Route::kBlobSet && start_large_set()) return true;
  if (route == Route::kOrdinary && may_transfer() && start_offloaded_body(args)) return true;
  auto exchange =
      std::make_shared<BulkExchange>(session_, session_.open_reply(CommandClass::kBulk), BulkSource::from_input());
  if (route == Route::kBlobSet) {
    exchange->count_as("set", false);
    if (args.size() > 1) worker_.lengths.forget(session_.client().identity, args[1]);
  }
  start_operation(std::move(exchange), true);
  return true;
}

/// False: it is an ordinary command.
bool Router::start_offloaded_body(std::span<const std::string_view> args) {
  const std::vector<std::string>& prefixes = worker_.options.offload;
  if (is_offloaded_set(args, prefixes)) {
    const SlotTag tag = session_.open_reply(CommandClass::kBulk);
    start_operation(offloaded_set(session_, tag, args[1]), true);
    return true;
  }
  const Offloaded offloaded = args.empty() ? Offloaded{} : classify_offload(args, prefixes);
  if (offloaded.route != OffloadRoute::kNotOnObject) return false;
  start_operation(offloaded_stream(session_, session_.open_reply(CommandClass::kBulk), offloaded), true);
  return true;
}

/// False: the value goes as BLOB.TCP_SET, which was counted with its reason where it might have gone by the fabric.
bool Router::start_large_set() {
  if (parser_.argc() != 3 || parser_.body_index() != 2 || parser_.body_length() < worker_.options.threshold)
    return false;
  if (const std::string_view reason = worker_.engine.unavailable_reason(session_.client().identity); !reason.empty()) {
    worker_.metrics.count_fallback(reason);
    return false;
  }
  if (parser_.body_length() > worker_.engine.largest_value()) {
    worker_.metrics.count_fallback("larger_than_half_the_pool");
    return false;
  }
  const std::span<const std::string_view> args = parser_.args(session_.input());
  const SlotTag tag = session_.open_reply(CommandClass::kTransferSet);
  start_operation(std::make_shared<BlobSet>(session_, tag, std::string(args[1]), parser_.body_length(),
                                            !session_.has_undelivered()),
                  true);
  return true;
}

// By value: an operation that ends at once is still alive when start() returns.
void Router::start_operation(std::shared_ptr<Operation> operation, bool owns_input) {
  operations_.push_back(operation);
  if (owns_input) session_.give_input_to(operation.get());
  operation->start();
}

bool Router::blocked() const {
  return (pin_ && pin_->blocked()) || std::any_of(operations_.begin(), operations_.end(),
                                                  [](const auto& operation) { return operation->blocked(); });
}

void Router::refuse(std::string_view text) {
  const SlotTag tag = session_.open_reply(CommandClass::kLocal);
  if (!is_silent()) return session_.reply_error(tag, text);
  stay_silent();
  session_.finish_reply(tag);
}

void Router::refuse_large(std::string_view text) {
  refuse(text);
  start_operation(DropInput::whole_command(session_), true);
}

void Router::operation_done(Operation& operation) {
  const auto found =
      std::find_if(operations_.begin(), operations_.end(), [&](const auto& one) { return one.get() == &operation; });
  if (found == operations_.end()) return;
  const std::shared_ptr<Operation> keep = *found;
  operations_.erase(found);
  session_.replace_input_owner(operation, nullptr);
  if (session_.closed()) return;
  advance_gets();
  session_.process();
}

void Router::continue_with(Operation& old, std::shared_ptr<Operation> next) {
  const auto found =
      std::find_if(operations_.begin(), operations_.end(), [&](const auto& one) { return one.get() == &old; });
  if (found == operations_.end() || session_.closed()) return operation_done(old);
  const std::shared_ptr<Operation> keep = std::exchange(*found, next);
  session_.replace_input_owner(old, next.get());
  next->start();
  advance_gets();
}

void Router::advance_gets() {
  // Values that the client has not taken yet count, too: who reads slowly must not gather the pool.
  std::size_t held = session_.values_held();
  // Copied: asking may end an operation at once, which changes the list.
  for (const std::shared_ptr<Operation>& operation : std::vector(operations_)) {
    if (operation->wants_lease()) {
      if (held >= kMostOverlappingGets) return;
      operation->ask_for_lease();
    }
    if (!operation->past_lease()) return;
    ++held;
  }
}

void Router::output_drained() {
  if (pin_) pin_->output_drained();
  if (channel_paused_) {
    channel_paused_ = false;
    channel_->resume();
  }
  for (const std::shared_ptr<Operation>& operation : std::vector(operations_)) operation->output_drained();
  advance_gets();
}

std::vector<std::uint64_t> Router::operations_on() const {
  std::vector<std::uint64_t> ids;
  for (const auto& operation : operations_) {
    if (operation->server_id() != 0) ids.push_back(operation->server_id());
  }
  return ids;
}

void Router::refresh_login() {
  if (pin_) pin_->refresh_login();
}

void Router::client_gone() {
  for (const auto& done : std::exchange(attaching_, {})) done();
  if (pin_) {
    pin_->close();
    pin_.reset();
  }
  if (channel_paused_) {
    channel_paused_ = false;
    channel_->resume();
  }
  for (const std::shared_ptr<Operation>& operation : std::vector(operations_)) operation->client_gone();
}

const std::shared_ptr<upstream::Channel>& Router::channel(upstream::Access access) {
  const Session::ClientState& client = session_.client();
  if (!channel_ || (outstanding_ == 0 && (!channel_->accepts() || !channel_->serves(client.identity, client.protocol) ||
                                          channel_->pending() != 0 || access == upstream::Access::kWrites)))
    channel_ = worker_.channels.pick(client.identity, client.protocol, access);
  return channel_;
}

bool Router::on_reply(std::uint64_t tag, std::string_view bytes, bool last) {
  if (last) {
    --outstanding_;
    if (!reads_.empty()) forget_read(tag);
  }
  if (session_.closed()) return true;
  if (greeting_) {
    greeted(bytes, last);
  } else if (!leaves_.empty() && leaves_.front().tag == tag) {
    answered_leave(bytes, last);
  } else {
    session_.reply(tag, bytes);
    if (last) {
      session_.asked(tag, channel_->asked_at());
      session_.finish_reply(tag);
    }
  }
  // A client that is idle must not keep another identity's connections from being given up.
  if (last && outstanding_ == 0 && !channel_->identity().is_default()) {
    channel_.reset();
    return true;
  }
  if (session_.queued() > worker_.options.client_buffer) {
    session_.close("it does not take its replies: more than limits.client_buffer are queued");
    return true;
  }
  channel_paused_ = session_.output_full() && channel_->retired();
  return !channel_paused_;
}

void Router::on_reply_lost(std::uint64_t tag, upstream::Lost lost, bool begun, std::string_view reason) {
  --outstanding_;
  leaves_.remove_if([&](const Leave& leave) { return leave.tag == tag; });
  channel_paused_ = false;
  // A channel tells of all that it has lost in one go, in order; what another one carries by now is not among it.
  const bool replaced = still_lost_ != 0;
  std::shared_ptr<upstream::Channel> told_all;
  if (replaced && --still_lost_ == 0) told_all = std::move(lost_channel_);
  if (session_.closed()) return;
  if (greeting_) begun = false;
  greeting_.reset();
  if (ask_again(tag, begun, replaced || channel_->lived(base::Duration::zero()), !replaced)) return;
  if (begun && !session_.retract_reply(tag)) {
    // Half a reply has left: nothing that could follow would be understood (promise 1).
    return session_.close("the rest of a reply was lost: " + std::string(reason));
  }
  std::string text = "ERR keyferry: " + std::string(reason);
  text += lost == upstream::Lost::kNotSent ? "; the command was not sent" : "; the command may have run";
  session_.reply_error(tag, text);
  if (!replaced) session_.end_of_login(channel_->failure());
}

}  // namespace keyferry::gateway
