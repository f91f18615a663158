// What Router answers on a shared listener without a connection of the client's own, with the server's leave: HELLO
// without AUTH and CLIENT SETNAME, SETINFO, GETNAME, ID.
#include <string>
#include <utility>

#include "gateway/client_ids.h"
#include "gateway/local_commands.h"
#include "gateway/router.h"
#include "gateway/session.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {
constexpr std::size_t kMostKeptBehind = 1024;
}  // namespace

/// CLIENT SETNAME, SETINFO, GETNAME, ID: what they speak of is the gateway's, but whether this user may say so, and the
/// number of arguments, are the server's to judge. It is asked by the same command, with arguments that change nothing
/// on a shared connection.
bool Router::ask_leave(std::span<const std::string_view> args, std::string_view raw) {
  constexpr upstream::Access kAccess = upstream::Access::kReads;
  if (!ordinary_may_start(kAccess)) return false;
  // One that is long waits for those before it: what is kept here is in no account.
  if (raw.size() > kMostKeptBehind && !leaves_.empty()) return false;
  if (raw.size() > kMostShared) {
    refuse("ERR keyferry: an argument of this command is too long");
    session_.end_command(raw.size());
    return true;
  }
  std::string command;
  if (args.size() == 3 && equals_upper(args[1], "SETNAME")) {
    resp::append_command(command, {"CLIENT", "SETNAME", ""});
  } else if (args.size() == 4 && equals_upper(args[1], "SETINFO")) {
    resp::append_command(command, {"CLIENT", "SETINFO", "LIB-NAME", "keyferry"});
  } else {
    resp::append_command(command, args);
  }
  const SlotTag tag = session_.open_reply(CommandClass::kLocal);
  leaves_.push_back({.tag = tag, .args = {args.begin(), args.end()}});
  upstream::Channel& to = *channel(kAccess);
  ++outstanding_;
  ++reads_behind_;
  to.send(command, *this, tag, kAccess);
  session_.end_command(raw.size());
  return true;
}

void Router::answered_leave(std::string_view bytes, bool last) {
  Leave& leave = leaves_.front();
  if (!std::exchange(leave.begun, true)) leave.refused = bytes.starts_with('-') || bytes.starts_with('!');
  if (leave.refused) session_.reply(leave.tag, bytes);
  if (!last) return;
  const Leave granted = std::move(leave);
  const SlotTag tag = granted.tag;
  leaves_.pop_front();
  session_.asked(tag, channel_->asked_at());
  if (granted.refused) return session_.finish_reply(tag);
  run_local(session_, std::vector<std::string_view>(granted.args.begin(), granted.args.end()), tag);
  session_.tell_directory();
}

/// HELLO without AUTH: its options are judged here, before anything changes (R6); what it tells of the server is asked
/// on a channel of the protocol that it chooses. What comes behind waits, as it may have another protocol.
bool Router::greet(std::span<const std::string_view> args, std::size_t bytes) {
  if (!operation_may_start(false)) return false;
  const Hello hello = judge_hello(session_.client(), args);
  const SlotTag tag = session_.open_reply(CommandClass::kOrdinary);
  session_.end_command(bytes);
  if (!hello.refusal.empty()) {
    session_.reply_error(tag, hello.refusal);
    return true;
  }
  greeting_ = std::make_unique<Greeting>(Greeting{tag, hello.protocol, hello.name, {}});
  channel_ = worker_.channels.pick(session_.client().identity, hello.protocol);
  ++outstanding_;
  std::string command;
  resp::append_command(command, {"HELLO", hello.protocol == resp::Protocol::kResp3 ? "3" : "2"});
  channel_->send(command, *this, tag);
  return true;
}

void Router::greeted(std::string_view bytes, bool last) {
  greeting_->reply.append(bytes);
  if (!last) return;
  const auto greeting = std::exchange(greeting_, nullptr);
  if (!greeting->reply.starts_with('-')) {
    Session::ClientState& client = session_.client();
    client.protocol = greeting->protocol;
    client.name = std::move(greeting->name);
    session_.tell_directory();
  }
  session_.reply(greeting->tag, with_id(std::move(greeting->reply), kHelloId, session_.client().id));
  session_.finish_reply(greeting->tag);
}

}  // namespace keyferry::gateway
