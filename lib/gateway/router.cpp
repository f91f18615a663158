#include "gateway/router.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "gateway/blob_get.h"
#include "gateway/blob_set.h"
#include "gateway/bulk_exchange.h"
#include "gateway/client_ids.h"
#include "gateway/drop_input.h"
#include "gateway/local_commands.h"
#include "gateway/offload_start.h"
#include "gateway/pin_upload.h"
#include "gateway/raw_pipe.h"
#include "gateway/session.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

constexpr std::size_t kMostOverlappingGets = 4;
// A larger command does not go by a shared channel (R33).
constexpr std::size_t kMostShared = 64 * base::kKiB + 512;

}  // namespace

Router::Router(Session& session, bool dedicated)
    : session_(session), worker_(session.worker()), parser_(session.parser()), dedicated_(dedicated) {}

Router::~Router() = default;

bool Router::is_large_set(std::span<const std::string_view> args) const {
  if (args.empty()) return false;
  return classify(args) == Route::kBlobSet || is_offloaded_set(args, worker_.options.offload);
}

bool Router::dispatch(std::span<const std::string_view> args, std::string_view raw) {
  const Route route = classify(args);
  if (route == Route::kHangUp) {
    session_.close("it sent a line of HTTP");
    return false;
  }
  if (route == Route::kRdma) {
    refuse(refusal_of(route));
    session_.end_command(raw.size());
    return true;
  }
  if (pin_) return dispatch_pinned(route, args, raw);
  return dedicated_ ? want_pin(Pin::Kind::kLong) : dispatch_shared(route, args, raw);
}

bool Router::dispatch_shared(Route route, std::span<const std::string_view> args, std::string_view raw) {
  switch (route) {
    case Route::kOrdinary: {
      const Offloaded offloaded = offloaded_of(args);
      return offloaded.route == OffloadRoute::kNone ? forward(args, raw) : start_offloaded(offloaded, args, raw);
    }
    case Route::kEndsTransaction:
      return forward(args, raw);
    case Route::kLocal: {
      const SlotTag tag = session_.open_reply(CommandClass::kLocal);
      run_local(session_, args, tag);
      if (!equals_upper(args[0], "PING")) session_.tell_directory();
      session_.end_command(raw.size());
      return true;
    }
    case Route::kBlobGet:
    case Route::kBlobSet:
      return start_blob(route, args, raw);
    case Route::kAlone:
    case Route::kIdentity:
    case Route::kTransaction:
    case Route::kClients:
      return want_pin(Pin::Kind::kShort);
    case Route::kBlocking:
    case Route::kOwn:
    case Route::kRaw:
      return want_pin(Pin::Kind::kLong);
    case Route::kRdma:
    case Route::kHangUp:
      break;
  }
  refuse(refusal_of(route));
  session_.end_command(raw.size());
  return true;
}

// --- a connection of the client's own
// -----------------------------------------------------------------------------------------------------

/// False: the command is dispatched again when there is one, and everything behind it waits (R14).
bool Router::want_pin(Pin::Kind kind) {
  if (!operation_may_start(false)) return false;
  pin_ = std::make_shared<Pin>(session_, kind);
  pin_->acquire();
  return false;
}

/// False: nothing can be sent on it now. `failed`: there is none; the command is to be answered with an error.
bool Router::pin_ready(bool& failed) {
  failed = pin_->state() == Pin::State::kFailed;
  if (failed) {
    refuse("ERR keyferry: " + pin_->failure() + "; the command was not sent");
    pin_.reset();
    return false;
  }
  return pin_->state() == Pin::State::kReady && operations_.empty() && pin_->room();
}

bool Router::dispatch_pinned(Route route, std::span<const std::string_view> args, std::string_view raw) {
  bool failed = false;
  if (!pin_ready(failed)) {
    if (failed) session_.end_command(raw.size());
    return failed;
  }
  const bool answered = pin_->owed() == 0;
  switch (route) {
    case Route::kRaw:
      if (!answered) return false;
      if (!promote_or_refuse(route)) break;
      return start_raw();
    case Route::kBlobGet:
    case Route::kBlobSet:
      if (!answered) return false;
      if (may_transfer()) return start_blob(route, args, raw);
      worker_.metrics.count_fallback("own_connection");
      send_pinned(route, args, raw);
      break;
    case Route::kLocal:
      if (!dedicated_) return answered && local_while_pinned(args, raw);
      send_pinned(route, args, raw);
      break;
    case Route::kClients:
      if (dedicated_ || (answered && pin_->in_transaction())) {
        send_pinned(route, args, raw);
        break;
      }
      return answered && dispatch_clients(args, raw);
    default:
      if (const Offloaded offloaded = route == Route::kOrdinary ? offloaded_of(args) : Offloaded{};
          offloaded.route != OffloadRoute::kNone)
        return answered && start_offloaded(offloaded, args, raw);
      if (promote_or_refuse(route)) send_pinned(route, args, raw);
  }
  session_.end_command(raw.size());
  return true;
}

/// CLIENT LIST, INFO, KILL, UNBLOCK: ids are the gateway's here, and the server's on the connection.
bool Router::dispatch_clients(std::span<const std::string_view> args, std::string_view raw) {
  const ClientsPlan plan = plan_clients(args, worker_.directory, session_.client().id);
  if (plan.way == ClientsPlan::Way::kRefuse || plan.way == ClientsPlan::Way::kKillHere) {
    const SlotTag tag = session_.open_reply(CommandClass::kLocal);
    if (plan.way == ClientsPlan::Way::kRefuse) {
      session_.reply_error(tag, refusal_of(Route::kClients));
    } else {
      session_.reply(tag, worker_.directory.kill(plan.id) ? ":1\r\n" : ":0\r\n");
      session_.finish_reply(tag);
    }
    if (pin_->releasable()) {
      pin_->release();
      pin_.reset();
    }
  } else {
    // The list is to show the client under its name.
    if (plan.way == ClientsPlan::Way::kList && !pin_->kept()) {
      name_pin();
      pin_->soil();
    }
    std::string bytes;
    const std::vector<std::string_view> words(plan.args.begin(), plan.args.end());
    resp::append_command(bytes, words);
    const SlotTag tag = session_.open_reply(CommandClass::kPinned);
    if (plan.way == ClientsPlan::Way::kList) {
      pin_->send_list(bytes, tag, plan.more);
    } else {
      pin_->send(bytes, tag, PinEffect::kNone);
    }
  }
  session_.end_command(raw.size());
  return true;
}

/// What is answered here for others, for a client that has its own connection now: inside MULTI by the server alone
/// (R16), else here, as what the gateway knows is still true.
bool Router::local_while_pinned(std::span<const std::string_view> args, std::string_view raw) {
  const bool connection_only =
      equals_upper(args[0], "PING") || equals_upper(args[0], "RESET") || equals_upper(args[0], "HELLO");
  if (pin_->in_transaction() || connection_only) {
    if (pin_->in_transaction() && !equals_upper(args[0], "PING") && !equals_upper(args[0], "RESET")) pin_->keep();
    send_pinned(Route::kLocal, args, raw);
  } else {
    const SlotTag tag = session_.open_reply(CommandClass::kLocal);
    run_local(session_, args, tag);
    // The connection stands for the client: it takes the client's name, too.
    if (pin_->kept() && equals_upper(args[0], "CLIENT")) tell_pin(args);
  }
  session_.end_command(raw.size());
  return true;
}

/// False: it was refused, the quota of what may wait long being used up.
bool Router::promote_or_refuse(Route route) {
  const bool long_one = route == Route::kBlocking || route == Route::kOwn || route == Route::kRaw;
  if (long_one && !pin_->promote()) {
    refuse("ERR keyferry: no connection of a client's own is free for what may wait long, see limits.pinned_long");
    return false;
  }
  if (route == Route::kOwn || route == Route::kRaw) keep_pin();
  return true;
}

/// From here on the connection stands for the client, so it gets its name.
void Router::keep_pin() {
  if (pin_->kept()) return;
  pin_->keep();
  if (!dedicated_ && !pin_->in_transaction()) name_pin();
}

void Router::name_pin() {
  const Session::ClientState& client = session_.client();
  if (!client.name.empty()) tell_pin(std::array<std::string_view, 3>{"CLIENT", "SETNAME", client.name});
  if (!client.library_name.empty())
    tell_pin(std::array<std::string_view, 4>{"CLIENT", "SETINFO", "LIB-NAME", client.library_name});
  if (!client.library_version.empty())
    tell_pin(std::array<std::string_view, 4>{"CLIENT", "SETINFO", "LIB-VER", client.library_version});
}

/// A command of the gateway's: the client does not see its reply.
void Router::tell_pin(std::span<const std::string_view> args) {
  std::string bytes;
  resp::append_command(bytes, args);
  pin_->send(bytes, 0, PinEffect::kSilent);
}

void Router::send_pinned(Route route, std::span<const std::string_view> args, std::string_view raw) {
  Plan todo = plan(route, args);
  // The server waits for what was written before this connection's previous command, by whomever: all that this client
  // wrote is among it.
  if (args[0].size() >= 4 && equals_upper(args[0].substr(0, 4), "WAIT") && !dedicated_ && !pin_->in_transaction())
    tell_pin(std::array<std::string_view, 1>{"PING"});
  const SlotTag tag = session_.open_reply(route == Route::kBlocking ? CommandClass::kBlocking : CommandClass::kPinned);
  if (!parser_.is_inline()) return pin_->send(raw, tag, todo.effect, std::move(todo.then));
  std::string bytes;
  resp::append_command(bytes, args);
  pin_->send(bytes, tag, todo.effect, std::move(todo.then));
}

/// The command that the parser has just given stays in the input: the pipe takes it from there.
bool Router::start_raw() {
  if (!pin_->settled()) return false;
  upstream::LendingPool* pool = nullptr;
  std::unique_ptr<upstream::Connection> connection = pin_->take(pool);
  pin_.reset();
  start_operation(std::make_shared<RawPipe>(session_, std::move(connection), *pool), true);
  return true;
}

bool Router::release_pin() {
  if (dedicated_) return false;
  pin_->release();
  pin_.reset();
  session_.process();
  return true;
}

void Router::pin_lost() {
  pin_.reset();
  session_.process();
}

/// What a command on the client's own connection changes, as its reply tells.
Router::Plan Router::plan(Route route, std::span<const std::string_view> args) {
  switch (route) {
    case Route::kBlocking:
      return {PinEffect::kBlocking, {}};
    case Route::kAlone:
      // Among them subcommands that the table does not know.
      return {equals_upper(args[0], "CLIENT") ? PinEffect::kChanges : PinEffect::kNone, {}};
    case Route::kTransaction:
      return {equals_upper(args[0], "MULTI") ? PinEffect::kMulti : PinEffect::kWatch, {}};
    case Route::kEndsTransaction:
      if (equals_upper(args[0], "EXEC")) return {PinEffect::kExec, {}};
      return {equals_upper(args[0], "DISCARD") ? PinEffect::kDiscard : PinEffect::kUnwatch, {}};
    case Route::kIdentity:
      return {PinEffect::kChanges, equals_upper(args[0], "HELLO") ? greeting(args) : identity_change(args)};
    case Route::kLocal:
      if (equals_upper(args[0], "HELLO")) return {PinEffect::kChanges, greeting(args)};
      if (equals_upper(args[0], "RESET")) return {PinEffect::kReset, [this] { reset_client(session_); }};
      return {equals_upper(args[0], "PING") ? PinEffect::kNone : PinEffect::kChanges, {}};
    default:
      return {};
  }
}

/// SELECT and AUTH: the server has judged them when this runs (R54).
base::Task Router::identity_change(std::span<const std::string_view> args) {
  if (equals_upper(args[0], "SELECT")) {
    if (args.size() != 2) return {};
    return [this, number = std::string(args[1])] {
      std::from_chars(number.data(), number.data() + number.size(), session_.client().identity.database);
      session_.tell_directory();
    };
  }
  if (args.size() < 2) return {};
  return [this, user = std::string(args.size() == 2 ? "default" : args[1]), password = std::string(args.back())] {
    session_.client().identity.user = user;
    session_.client().identity.password = password;
    session_.tell_directory();
  };
}

base::Task Router::greeting(std::span<const std::string_view> args) {
  return [this, options = std::vector<std::string>(args.begin() + 1, args.end())] {
    Session::ClientState& client = session_.client();
    if (options.empty()) return;
    client.protocol = options[0] == "3" ? resp::Protocol::kResp3 : resp::Protocol::kResp2;
    for (std::size_t i = 1; i < options.size(); ++i) {
      if (equals_upper(options[i], "AUTH") && i + 2 < options.size()) {
        client.identity.user = options[i + 1];
        client.identity.password = options[i + 2];
        i += 2;
      } else if (equals_upper(options[i], "SETNAME") && i + 1 < options.size()) {
        client.name = options[++i];
      }
    }
    session_.tell_directory();
  };
}

/// Lanes are the configured user's, on database 0; and a client that tracks keys, or is in a transaction, reads by its
/// own connection.
bool Router::may_transfer() const {
  return (!pin_ || (!pin_->in_transaction() && !pin_->kept())) && session_.client().identity.is_default();
}

/// What transfer.offload makes of an ordinary command; nothing for one that must go by the client's own connection.
Offloaded Router::offloaded_of(std::span<const std::string_view> args) const {
  return may_transfer() ? classify_offload(args, worker_.options.offload) : Offloaded{};
}

// --- large values, and what is too large for a shared channel
// ------------------------------------------------------------------------------

bool Router::start_blob(Route route, std::span<const std::string_view> args, std::string_view raw) {
  const bool own_identity = !session_.client().identity.is_default();
  if (own_identity) worker_.metrics.count_fallback("identity");
  const bool large = route == Route::kBlobGet && args.size() == 2 && !own_identity;
  // Small, or with arguments that the server will judge: as it is, on a connection of its own, because the module
  // blocks it meanwhile.
  if (!large) {
    // A value that becomes small goes the other way from now on.
    if (args.size() > 1) worker_.lengths.forget(args[1]);
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
  if (!ordinary_may_start()) return false;
  const SlotTag tag = session_.open_reply(CommandClass::kOrdinary);
  upstream::Channel& to = *channel();
  ++outstanding_;
  if (parser_.is_inline()) {
    std::string bytes;
    resp::append_command(bytes, args);
    worker_.metrics.server_out.add(bytes.size());
    to.send(bytes, *this, tag);
  } else {
    worker_.metrics.server_out.add(raw.size());
    to.send(raw, *this, tag);
  }
  session_.end_command(raw.size());
  return true;
}

bool Router::ordinary_may_start() const {
  if (!operations_.empty()) return false;
  if (outstanding_ == 0) return true;
  return channel_->accepts() && channel_protocol_ == session_.client().protocol &&
         channel_identity_ == session_.client().identity;
}

bool Router::operation_may_start(bool get) const {
  if (outstanding_ != 0 || (pin_ && pin_->owed() != 0)) return false;
  if (operations_.empty()) return true;
  return get && operations_.size() < kMostOverlappingGets &&
         std::all_of(operations_.begin(), operations_.end(), [](const auto& operation) { return operation->is_get(); });
}

bool Router::take_body() {
  const std::span<const std::string_view> args = parser_.args(session_.input());
  const Route route = args.empty() ? Route::kOrdinary : classify(args);
  if (route == Route::kHangUp) {
    session_.close("it sent a line of HTTP");
    return false;
  }
  if (route == Route::kRdma) {
    refuse_large(refusal_of(route));
    return true;
  }
  if (pin_) return take_body_pinned(route, args);
  return dedicated_ ? want_pin(Pin::Kind::kLong) : take_body_shared(route, args);
}

bool Router::take_body_shared(Route route, std::span<const std::string_view> args) {
  switch (route) {
    case Route::kClients:
      refuse_large(refusal_of(route));
      return true;
    case Route::kLocal:
      refuse_large("ERR keyferry: an argument of this command is too long");
      return true;
    case Route::kAlone:
    case Route::kIdentity:
    case Route::kTransaction:
      return want_pin(Pin::Kind::kShort);
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
    if (args.size() > 1) worker_.lengths.forget(args[1]);
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

bool Router::take_body_pinned(Route route, std::span<const std::string_view> args) {
  if (pin_->state() == Pin::State::kFailed) {
    const std::string text = "ERR keyferry: " + pin_->failure() + "; the command was not sent";
    pin_.reset();
    refuse_large(text);
    return true;
  }
  bool failed = false;
  if (!pin_ready(failed)) return false;
  if (route == Route::kBlobSet || route == Route::kRaw || route == Route::kLocal) {
    if (pin_->owed() != 0) return false;
  }
  if (route == Route::kBlobSet && may_transfer() && start_large_set()) return true;
  if (route == Route::kOrdinary && !worker_.options.offload.empty() && may_transfer()) {
    if (pin_->owed() != 0) return false;
    if (start_offloaded_body(args)) return true;
  }
  if (!promote_or_refuse(route)) {
    start_operation(DropInput::whole_command(session_), true);
    return true;
  }
  if (route == Route::kRaw) return start_raw();
  Plan todo = plan(route, args);
  const SlotTag tag = session_.open_reply(route == Route::kBlocking ? CommandClass::kBlocking : CommandClass::kPinned);
  start_operation(std::make_shared<PinUpload>(session_, pin_, tag, todo.effect, std::move(todo.then)), true);
  return true;
}

/// False: the value goes as BLOB.TCP_SET, which was counted with its reason where it might have gone by the fabric.
bool Router::start_large_set() {
  if (parser_.argc() != 3 || parser_.body_index() != 2 || parser_.body_length() < worker_.options.threshold)
    return false;
  if (!session_.client().identity.is_default()) {
    worker_.metrics.count_fallback("identity");
    return false;
  }
  if (!worker_.engine.available()) {
    worker_.metrics.count_fallback(worker_.engine.unavailable_reason());
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

void Router::start_operation(std::shared_ptr<Operation> operation, bool owns_input) {
  operations_.push_back(operation);
  if (owns_input) session_.give_input_to(operation.get());
  operation->start();
}

void Router::refuse(std::string_view text) {
  const SlotTag tag = session_.open_reply(CommandClass::kLocal);
  session_.reply_error(tag, text);
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

void Router::client_gone() {
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

const std::shared_ptr<upstream::Channel>& Router::channel() {
  const Session::ClientState& client = session_.client();
  if (!channel_ || (outstanding_ == 0 && (!channel_->accepts() || channel_protocol_ != client.protocol ||
                                          channel_identity_ != client.identity || channel_->pending() != 0))) {
    channel_ = worker_.channels.pick(client.identity, client.protocol);
    channel_protocol_ = client.protocol;
    channel_identity_ = client.identity;
  }
  return channel_;
}

bool Router::on_reply(std::uint64_t tag, std::string_view bytes, bool last) {
  worker_.metrics.server_in.add(bytes.size());
  if (last) --outstanding_;
  if (session_.closed()) return true;
  session_.reply(tag, bytes);
  if (last) session_.finish_reply(tag);
  // A client that is idle must not keep another identity's connections from being given up.
  if (last && outstanding_ == 0 && !channel_identity_.is_default()) {
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
  channel_paused_ = false;
  if (session_.closed()) return;
  if (begun && !session_.retract_reply(tag)) {
    // Half a reply has left: nothing that could follow would be understood (promise 1).
    return session_.close("the rest of a reply was lost: " + std::string(reason));
  }
  std::string text = "ERR keyferry: " + std::string(reason);
  text += lost == upstream::Lost::kNotSent ? "; the command was not sent" : "; the command may have run";
  session_.reply_error(tag, text);
}

}  // namespace keyferry::gateway
