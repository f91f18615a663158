// What Router does behind CLIENT REPLY OFF and SKIP on a shared listener: commands have no replies, so that each has an
// empty one here (R10).
#include <string>

#include "gateway/client_query.h"
#include "gateway/router.h"
#include "gateway/session.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

bool is_client_command(std::span<const std::string_view> args, std::string_view what) {
  return args.size() > 1 && equals_upper(args[0], "CLIENT") && equals_upper(args[1], what);
}

}  // namespace

/// CLIENT REPLY that changes nothing but what replies come: with another argument, or none, it is the server's error.
bool Router::speaks(std::span<const std::string_view> args) {
  return is_client_command(args, "REPLY") &&
         (args.size() != 3 || (!equals_upper(args[2], "OFF") && !equals_upper(args[2], "SKIP")));
}

/// CLIENT REPLY OFF or SKIP of a client that gets replies. Nothing tells whether the server has agreed, so it is asked
/// with ON first: the same command to its ACL, and one that changes nothing.
void Router::ask_to_be_silent(std::span<const std::string_view> args) {
  const SlotTag tag = session_.open_reply(CommandClass::kPinned);
  const Pin::Silence silence = equals_upper(args[2], "OFF") ? Pin::Silence::kAll : Pin::Silence::kNext;
  std::string ask;
  resp::append_command(ask, {"CLIENT", "REPLY", "ON"});
  std::string command;
  resp::append_command(command, args);
  pin_->send(ask, tag,
             {.effect = PinEffect::kSilences,
              .answer = [this, tag, silence, command = std::move(command)](const std::string& reply) {
                if (reply.starts_with('+')) {
                  pin_->append(command);
                  pin_->be_silent(silence);
                } else {
                  session_.reply(tag, reply);
                }
                session_.finish_reply(tag);
              }});
}

/// Whether the command changes nothing that its reply would have to tell.
bool Router::may_be_silent(Route route, std::span<const std::string_view> args) {
  switch (route) {
    case Route::kOrdinary:
    case Route::kControl:
    case Route::kClients:
      return true;
    case Route::kAlone:
      return !equals_upper(args[0], "CLIENT");
    case Route::kLocal:
      return is_client_command(args, "ID") || is_client_command(args, "GETNAME");
    default:
      return false;
  }
}

/// False: it can't be sent now. What would change the connection unseen makes the client byte for byte.
bool Router::dispatch_silent(Route route, std::span<const std::string_view> args, std::string_view raw) {
  const bool all = pin_->silence() == Pin::Silence::kAll;
  if (equals_upper(args[0], "QUIT")) {
    // The server, which has no reply to close behind, would keep the connection.
    if (pin_->has_unsent()) return false;
    session_.end_command(raw.size());
    session_.close_after_output();
    return true;
  }
  if (all && args.size() == 1 && equals_upper(args[0], "RESET")) {
    send_pinned(route, args, raw);
  } else if (is_client_command(args, "REPLY")) {
    dispatch_reply(args, raw);
  } else if (is_client_command(args, "KILL")) {
    kill_silently(args);
  } else if (may_be_silent(route, args)) {
    if (!all) pin_->be_silent(Pin::Silence::kNone);
    send_silently(route, args, raw);
  } else {
    return pin_->owed() == 0 && start_raw(false);
  }
  session_.end_command(raw.size());
  return true;
}

/// CLIENT REPLY.
void Router::dispatch_reply(std::span<const std::string_view> args, std::string_view raw) {
  const std::string_view how = args.size() == 3 ? args[2] : std::string_view();
  if (equals_upper(how, "ON")) return speak_again(args);
  if (equals_upper(how, "OFF")) {
    pin_->be_silent(Pin::Silence::kAll);
  } else if (!equals_upper(how, "SKIP") && pin_->silence() == Pin::Silence::kNext) {
    // An error that nobody hears.
    pin_->be_silent(Pin::Silence::kNone);
  }
  send_silently(Route::kRaw, args, raw);
}

void Router::send_silently(Route route, std::span<const std::string_view> args, std::string_view raw) {
  const SlotTag tag = session_.open_reply(route == Route::kOrdinary ? CommandClass::kOrdinary : CommandClass::kPinned);
  std::string bytes;
  pin_->append(as_sent(args, raw, bytes));
  session_.finish_reply(tag);
}

/// To the server it is what CLIENT REPLY SKIP was for.
bool Router::pass_nothing() {
  if (pin_ && pin_->holds_up()) return false;
  if (is_silent()) stay_silent();
  return true;
}

/// A command was refused here that would have had no reply.
void Router::stay_silent() {
  if (pin_->silence() == Pin::Silence::kAll) return;
  // The server is to be silent about this one in its place.
  std::string command;
  resp::append_command(command, {"ECHO"});
  pin_->append(command);
  pin_->be_silent(Pin::Silence::kNone);
}

/// Whom it means is found out by replies, which come for so long.
void Router::kill_silently(std::span<const std::string_view> args) {
  const bool all = pin_->silence() == Pin::Silence::kAll;
  pin_->be_silent(Pin::Silence::kNone);
  std::string speak;
  resp::append_command(speak, {"CLIENT", "REPLY", "ON"});
  pin_->send(speak, 0, {.effect = PinEffect::kSpeaks, .answer = [](const std::string&) {}});
  query_ = std::make_shared<ClientQuery>(session_, session_.open_reply(CommandClass::kPinned), args, true);
  query_->ask(*pin_);
  if (!all) return;
  std::string command;
  resp::append_command(command, {"CLIENT", "REPLY", "OFF"});
  pin_->append(command);
  pin_->be_silent(Pin::Silence::kAll);
}

/// The reply to ON tells that all before it has run, of which nothing was heard.
void Router::speak_again(std::span<const std::string_view> args) {
  std::string command;
  resp::append_command(command, args);
  pin_->be_silent(Pin::Silence::kNone);
  pin_->send(command, session_.open_reply(CommandClass::kPinned),
             {.effect = PinEffect::kSpeaks, .then = [this] {
                worker_.login_changes.count();
                if (worker_.engine.writes().any_immutable())
                  worker_.engine.writes().touch(transfer::WriteMarks::Mark::kEverything);
              }});
}

}  // namespace keyferry::gateway
