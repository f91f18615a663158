#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "gateway/client_ids.h"
#include "gateway/client_query.h"
#include "gateway/drop_input.h"
#include "gateway/local_commands.h"
#include "gateway/pin_upload.h"
#include "gateway/raw_pipe.h"
#include "gateway/router.h"
#include "gateway/session.h"
#include "resp/writer.h"

// The part of the Router for clients that have a connection of their own.

namespace keyferry::gateway {

/// False: the command is dispatched again when there is one, and everything behind it waits (R14).
bool Router::want_pin(Pin::Kind kind) {
  if (!operation_may_start(false)) return false;
  alone_ = true;
  pin_ = std::make_shared<Pin>(session_, kind);
  pin_->acquire();
  return false;
}

/// False: nothing can be sent on it now. `failed`: there is none; the command is to be answered with an error.
bool Router::pin_ready(bool& failed) {
  failed = pin_->state() == Pin::State::kFailed;
  if (failed) {
    answer_pin_failure();
    return false;
  }
  return pin_->state() == Pin::State::kReady && operations_.empty() && pin_->room();
}

void Router::answer_pin_failure() {
  const std::shared_ptr<Pin> failed = std::exchange(pin_, nullptr);
  refuse("ERR keyferry: " + failed->failure() + "; the command was not sent");
  session_.end_of_login(failed->failure_code());
}

bool Router::dispatch_pinned(Route route, std::span<const std::string_view> args, std::string_view raw) {
  bool failed = false;
  if (!pin_ready(failed)) {
    if (failed) session_.end_command(raw.size());
    return failed;
  }
  // It is not for what comes behind.
  if (pin_->control() && !is_control(route, args)) return false;
  if (is_silent()) return dispatch_silent(route, args, raw);
  if (route == Route::kOwn && !redirect_ready(args)) return false;
  const bool answered = pin_->owed() == 0;
  // The connection is named for the client then, as the client is called when all before it has been answered.
  if (route == Route::kOwn && !pin_->kept() && !answered) return false;
  switch (route) {
    case Route::kRaw:
      return dispatch_uncounted(args, raw);
    case Route::kBlobGet:
    case Route::kBlobSet:
      if (!answered) return false;
      if (may_transfer()) return start_blob(route, args, raw);
      if (route == Route::kBlobGet) worker_.metrics.count_fallback("own_connection");
      send_pinned(route, args, raw);
      break;
    case Route::kLocal:
      if (session_.has_own_login() && args.size() == 1 && equals_upper(args[0], "RESET")) return reset_here(raw);
      // One that others may see (a subscription, a redirection) is gone when the server says so.
      if (!dedicated_ && !pin_->kept() && equals_upper(args[0], "QUIT")) {
        // The connection is not lent on as one that the server is about to close.
        if (!answered) return false;
        run_local(session_, args, session_.open_reply(CommandClass::kLocal));
        break;
      }
      send_pinned(route, args, raw);
      break;
    case Route::kClients:
      if (!dedicated_ && !answered) return false;
      if (!dedicated_ && (!pin_->in_transaction() || equals_upper(args[1], "UNBLOCK")))
        return dispatch_clients(args, raw);
      send_pinned(route, args, raw);
      break;
    default:
      if (const Offloaded offloaded = route == Route::kOrdinary ? offloaded_of(args) : Offloaded{};
          offloaded.route != OffloadRoute::kNone)
        return answered && start_offloaded(offloaded, args, raw);
      if (promote_or_refuse(route)) send_pinned(route, args, raw);
  }
  session_.end_command(raw.size());
  return true;
}

/// SUBSCRIBE and its like, MONITOR, CLIENT REPLY, SYNC ... False: not now, or they and all that follows are a
/// RawPipe's.
bool Router::dispatch_uncounted(std::span<const std::string_view> args, std::string_view raw) {
  const bool is_client = equals_upper(args[0], "CLIENT");
  // Who subscribes has what it takes already.
  const bool more = pin_->kept() && pin_->subscribes() && Subscriptions::wanted_by(args) && is_followed(args);
  if (more || unsubscribes_nothing(args) || speaks(args)) {
    send_pinned(Route::kRaw, args, raw);
  } else {
    if (pin_->owed() != 0) return false;
    if (!promote_or_refuse(Route::kRaw)) {
      session_.end_command(raw.size());
      return true;
    }
    if (!is_followed(args)) return start_raw(false);
    if (is_client) {
      ask_to_be_silent(args);
    } else if (pin_->monitors() && equals_upper(args[0], "MONITOR") && !may_only_listen()) {
      // To which the server says nothing the second time.
      send_silently(Route::kRaw, args, raw);
    } else {
      send_pinned(Route::kRaw, args, raw);
    }
  }
  session_.end_command(raw.size());
  return true;
}

/// CLIENT LIST, INFO, KILL, UNBLOCK: ids are the gateway's here, and the server's on the connection.
bool Router::dispatch_clients(std::span<const std::string_view> args, std::string_view raw) {
  if (equals_upper(args[1], "UNBLOCK")) {
    send_pinned(Route::kClients, args, raw);
  } else {
    query_ = std::make_shared<ClientQuery>(session_, session_.open_reply(CommandClass::kPinned), args, false);
    query_->ask(*pin_);
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
  if (!dedicated_ && !pin_->may_be_in_transaction()) name_pin();
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
  pin_->send(bytes, 0, {.effect = PinEffect::kSilent});
}

/// The server waits for what it has sent its replicas up to the connection's own last write, and this client wrote by
/// others: a database swapped with itself changes nothing, but counts as a write, and all others came before it.
void Router::mark_for_wait(PinPlan& wait) {
  const std::string database = std::to_string(session_.client().identity.database);
  std::string bytes;
  resp::append_command(bytes, {"SWAPDB", database, database});
  const auto refusal = std::make_shared<std::string>();
  pin_->send(bytes, 0, {.effect = PinEffect::kSilent, .answer = [refusal](const std::string& reply) {
                          // A replica refuses WAIT, too, and says why.
                          if (reply.starts_with('-') && !reply.starts_with("-READONLY")) *refusal = reply.substr(1);
                        }});
  wait.rewrite = [refusal](std::string reply) {
    // A user who may not WAIT hears that, and so does a subscriber, who may do nothing else in RESP2.
    if (refusal->empty() || reply.starts_with('-')) return reply;
    return "-ERR keyferry: nothing to wait for: on a shared listener WAIT needs SWAPDB, and the server said " +
           *refusal;
  };
}

/// The command as the server is to get it; `bytes` holds what is not `raw`.
std::string_view Router::as_sent(std::span<const std::string_view> args, std::string_view raw,
                                 std::string& bytes) const {
  if (const auto words = in_server_words(args, worker_.directory, dedicated_)) {
    resp::append_command(bytes, std::vector<std::string_view>(words->begin(), words->end()));
    return bytes;
  }
  if (!parser_.is_inline()) return raw;
  resp::append_command(bytes, args);
  return bytes;
}

void Router::send_pinned(Route route, std::span<const std::string_view> args, std::string_view raw) {
  PinPlan todo = plan(route, args);
  if ((equals_upper(args[0], "WAIT") || equals_upper(args[0], "WAITAOF")) && !dedicated_ &&
      !pin_->may_be_in_transaction() && !pin_->monitors())
    mark_for_wait(todo);
  const CommandClass command_class = route == Route::kBlocking ? CommandClass::kBlocking : CommandClass::kPinned;
  std::string bytes;
  pin_->send(as_sent(args, raw, bytes), session_.open_reply(command_class), std::move(todo));
}

/// The client that a redirection names is given a connection of its own first. False: that is under way.
bool Router::redirect_ready(std::span<const std::string_view> args) {
  const auto place = dedicated_ ? std::nullopt : redirect_place(args);
  const std::uint64_t id = place ? id_of(args[*place]).value_or(0) : 0;
  if (id == 0 || worker_.directory.server_id(id) != 0 || redirect_tried_ == id) {
    redirect_tried_ = 0;
    return true;
  }
  if (redirect_waits_ == id) return false;
  redirect_waits_ = id;
  return !worker_.directory.attach(id, [&loop = worker_.loop, weak = session_.weak_from_this(), this, id] {
    loop.post([weak, this, id] {
      const auto session = weak.lock();
      if (!session) return;
      redirect_waits_ = 0;
      redirect_tried_ = id;
      session->process();
    });
  });
}

void Router::attach(std::function<void()> done) {
  attaching_.push_back(std::move(done));
  session_.process();
}

void Router::advance_attach() {
  if (attaching_.empty()) return;
  if (!pin_) {
    if (!greeting_) want_pin(Pin::Kind::kLong);
    return;
  }
  if (pin_->state() == Pin::State::kWaiting || pin_->control()) return;
  if (pin_->state() == Pin::State::kFailed) {
    pin_.reset();
  } else if (pin_->state() == Pin::State::kReady && pin_->promote()) {
    keep_pin();
  }
  for (const auto& one : std::exchange(attaching_, {})) one();
}

/// What a subscriber, a monitor and a client that gets no replies send goes on as it did: replies can be told from what
/// nobody asked for, and are counted.
bool Router::is_followed(std::span<const std::string_view> args) const {
  return !dedicated_ && !pin_->may_be_in_transaction() &&
         (Subscriptions::wanted_by(args).has_value() || equals_upper(args[0], "MONITOR") ||
          equals_upper(args[0], "CLIENT"));
}

/// A subscriber of RESP2 is refused most commands.
bool Router::may_only_listen() const {
  return pin_ && pin_->subscribes() && session_.client().protocol == resp::Protocol::kResp2;
}

/// UNSUBSCRIBE and its like in RESP2 without a subscription and with one channel at most have one reply, as any
/// command: no reason for the client to keep a connection from then on.
bool Router::unsubscribes_nothing(std::span<const std::string_view> args) const {
  return args.size() <= 2 && row_ != nullptr && row_->name.ends_with("UNSUBSCRIBE") &&
         session_.client().protocol == resp::Protocol::kResp2 &&
         (!pin_ || (!pin_->subscribes() && !pin_->may_be_in_transaction()));
}

/// The command that the parser has just given stays in the input: the pipe takes it from there.
bool Router::start_raw(bool body_offered) {
  if (!pin_->settled()) return false;
  upstream::LendingPool* pool = nullptr;
  const RawPipe::Begin begin{.body_offered = body_offered, .after_skip = pin_->silence() == Pin::Silence::kNext};
  std::unique_ptr<upstream::Connection> connection = pin_->take(pool);
  pin_.reset();
  start_operation(std::make_shared<RawPipe>(session_, std::move(connection), *pool, begin), true);
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
  // What was asked by it is answered.
  query_.reset();
  pin_.reset();
  session_.process();
}

/// What a command on the client's own connection changes, as its reply tells, and what of its reply is the gateway's.
PinPlan Router::plan(Route route, std::span<const std::string_view> args) {
  switch (route) {
    case Route::kBlocking:
      return {.effect = PinEffect::kBlocking};
    case Route::kRaw:
      if (const auto wanted = Subscriptions::wanted_by(args))
        return {.effect = PinEffect::kSubscribes, .subscribes = *wanted};
      return {.effect = equals_upper(args[0], "MONITOR") ? PinEffect::kMonitors : PinEffect::kNone};
    case Route::kAlone:
      // Among them subcommands that the table does not know.
      return {.effect = equals_upper(args[0], "CLIENT") ? PinEffect::kChanges : PinEffect::kNone};
    case Route::kTransaction:
      return {.effect = equals_upper(args[0], "MULTI") ? PinEffect::kMulti : PinEffect::kWatch};
    case Route::kEndsTransaction:
      if (equals_upper(args[0], "EXEC")) return {.effect = PinEffect::kExec};
      return {.effect = equals_upper(args[0], "DISCARD") ? PinEffect::kDiscard : PinEffect::kUnwatch};
    case Route::kIdentity:
      if (equals_upper(args[0], "HELLO")) return greeting(args);
      return {.effect = PinEffect::kChanges, .then = identity_change(args)};
    case Route::kLocal:
      if (equals_upper(args[0], "HELLO")) return greeting(args);
      if (equals_upper(args[0], "RESET"))
        return {.effect = PinEffect::kReset, .then = [this] { reset_client(session_); }};
      return plan_client(args);
    default:
      return plan_client(args);
  }
}

/// CLIENT with a subcommand that speaks of the client itself: on a shared listener ids and names are the gateway's.
PinPlan Router::plan_client(std::span<const std::string_view> args) {
  if (is_old_kill(args)) return {.rewrite = &old_kill_reply};
  if (dedicated_ || args.size() < 2 || !equals_upper(args[0], "CLIENT")) return {};
  const auto put_id = [this](std::string_view mark) {
    return [this, mark](std::string reply) { return with_id(std::move(reply), mark, session_.client().redirect); };
  };
  const std::string_view what = args[1];
  if (equals_upper(what, "CAPA")) return {.effect = PinEffect::kSpoils};
  if (equals_upper(what, "GETREDIR")) return {.rewrite = put_id(kGetRedirId)};
  if (equals_upper(what, "TRACKINGINFO")) return {.rewrite = put_id(kTrackingInfoId)};
  if (const auto place = redirect_place(args)) {
    return {.then = [this, id = id_of(args[*place]).value_or(0)] {
      session_.client().redirect = id;
      session_.tell_directory();
    }};
  }
  if (equals_upper(what, "ID")) {
    return {.rewrite = [this](std::string reply) { return with_id(std::move(reply), ":", session_.client().id); }};
  }
  if (equals_upper(what, "GETNAME")) {
    return {.rewrite = [this](std::string reply) { return reply.starts_with('-') ? reply : name_reply(session_); }};
  }
  if (args.size() == 3 && equals_upper(what, "SETNAME")) {
    return {.effect = PinEffect::kChanges, .then = [this, name = std::string(args[2])] {
              session_.client().name = name;
              session_.tell_directory();
            }};
  }
  if (args.size() == 4 && equals_upper(what, "SETINFO")) {
    return {.effect = PinEffect::kChanges,
            .then = [this, is_name = equals_upper(args[2], "LIB-NAME"), value = std::string(args[3])] {
              (is_name ? session_.client().library_name : session_.client().library_version) = value;
              session_.tell_directory();
            }};
  }
  return {};
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
    session_.logged_in_as(user, password);
    session_.tell_directory();
  };
}

PinPlan Router::greeting(std::span<const std::string_view> args) {
  PinPlan todo{.effect = PinEffect::kGreets};
  if (!dedicated_) {
    todo.rewrite = [this](std::string reply) {
      return reply.starts_with('-') ? reply : with_id(std::move(reply), kHelloId, session_.client().id);
    };
  }
  todo.then = [this, options = std::vector<std::string>(args.begin() + 1, args.end())] {
    Session::ClientState& client = session_.client();
    if (options.empty()) return;
    client.protocol = options[0] == "3" ? resp::Protocol::kResp3 : resp::Protocol::kResp2;
    for (std::size_t i = 1; i < options.size(); ++i) {
      if (equals_upper(options[i], "AUTH") && i + 2 < options.size()) {
        session_.logged_in_as(options[i + 1], options[i + 2]);
        i += 2;
      } else if (equals_upper(options[i], "SETNAME") && i + 1 < options.size()) {
        client.name = options[++i];
      }
    }
    session_.tell_directory();
  };
  return todo;
}

/// A client that tracks keys, or is in a transaction, reads by its own connection.
bool Router::may_transfer() const {
  return !pin_ || (!pin_->in_transaction() && !pin_->kept());
}

/// What transfer.offload makes of an ordinary command; nothing for one that must go by the client's own connection.
Offloaded Router::offloaded_of(std::span<const std::string_view> args) const {
  return may_transfer() ? classify_offload(args, worker_.options.offload) : Offloaded{};
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
  // Its ids have to be looked at (R7).
  if (route == Route::kClients) {
    refuse_large("ERR keyferry: an argument of this command is too long");
    return true;
  }
  if (is_silent() && !may_be_silent(route, args)) return pin_->owed() == 0 && start_raw(true);
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
  if (route == Route::kRaw) return start_raw(true);
  if (route == Route::kBlobSet && !may_transfer() && parser_.body_length() >= worker_.options.threshold)
    worker_.metrics.count_fallback("own_connection");
  PinPlan todo = plan(route, args);
  const SlotTag tag = session_.open_reply(route == Route::kBlocking ? CommandClass::kBlocking : CommandClass::kPinned);
  start_operation(std::make_shared<PinUpload>(session_, pin_, tag, std::move(todo)), true);
  return true;
}

}  // namespace keyferry::gateway
