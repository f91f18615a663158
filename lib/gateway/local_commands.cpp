#include "gateway/local_commands.h"

#include <charconv>
#include <cstdint>
#include <string>

#include "gateway/command_table.h"
#include "gateway/session.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

using Args = std::span<const std::string_view>;

void answer(Session& session, SlotTag tag, const std::string& bytes) {
  session.reply(tag, bytes);
  session.finish_reply(tag);
}

void answer_ok(Session& session, SlotTag tag) {
  answer(session, tag, "+OK\r\n");
}

std::string wrong_arity(std::string_view command) {
  return "ERR wrong number of arguments for '" + std::string(command) + "' command";
}

/// Names are what the server allows in CLIENT SETNAME: printable ASCII without blanks.
bool is_clean_name(std::string_view name) {
  for (const char c : name) {
    if (c < '!' || c > '~') return false;
  }
  return true;
}

constexpr std::string_view kDirtyName = "ERR Client names cannot contain spaces, newlines or special characters.";

void client_setinfo(Session& session, Args args, SlotTag tag) {
  if (args.size() != 4) return session.reply_error(tag, wrong_arity("client|setinfo"));
  const bool library_name = equals_upper(args[2], "LIB-NAME");
  if (!library_name && !equals_upper(args[2], "LIB-VER")) {
    return session.reply_error(tag, "ERR Unrecognized option '" + std::string(args[2]) + "'");
  }
  if (!is_clean_name(args[3])) {
    return session.reply_error(
        tag, "ERR " + std::string(args[2]) + " cannot contain spaces, newlines or special characters.");
  }
  (library_name ? session.client().library_name : session.client().library_version).assign(args[3]);
  answer_ok(session, tag);
}

void client_command(Session& session, Args args, SlotTag tag) {
  const std::string_view sub = args[1];
  if (equals_upper(sub, "SETINFO")) return client_setinfo(session, args, tag);
  if (equals_upper(sub, "SETNAME")) {
    if (args.size() != 3) return session.reply_error(tag, wrong_arity("client|setname"));
    if (!is_clean_name(args[2])) return session.reply_error(tag, kDirtyName);
    session.client().name.assign(args[2]);
    return answer_ok(session, tag);
  }
  if (equals_upper(sub, "GETNAME")) {
    if (args.size() != 2) return session.reply_error(tag, wrong_arity("client|getname"));
    return answer(session, tag, name_reply(session));
  }
  // ID: the one left in the table.
  if (args.size() != 2) return session.reply_error(tag, wrong_arity("client|id"));
  std::string bytes;
  resp::append_integer(bytes, static_cast<std::int64_t>(session.client().id));
  answer(session, tag, bytes);
}

}  // namespace

Hello judge_hello(const Session::ClientState& client, Args args) {
  Hello hello{.refusal = {}, .protocol = client.protocol, .name = client.name};
  if (args.size() > 1) {
    std::int64_t version = 0;
    std::from_chars(args[1].data(), args[1].data() + args[1].size(), version);
    // The server's numbers have one spelling: no 03, no +3.
    if (args[1] != std::to_string(version)) {
      hello.refusal = "ERR Protocol version is not an integer or out of range";
      return hello;
    }
    if (version != 2 && version != 3) {
      hello.refusal = "NOPROTO unsupported protocol version";
      return hello;
    }
    hello.protocol = static_cast<resp::Protocol>(version);
  }
  for (std::size_t i = 2; i < args.size(); i += 2) {
    if (!equals_upper(args[i], "SETNAME") || i + 1 == args.size()) {
      hello.refusal = "ERR Syntax error in HELLO option '" + std::string(args[i]) + "'";
      return hello;
    }
    hello.name = args[i + 1];
    if (!is_clean_name(hello.name)) {
      hello.refusal = kDirtyName;
      return hello;
    }
  }
  return hello;
}

std::string name_reply(Session& session) {
  std::string bytes;
  if (session.client().name.empty()) {
    resp::append_null(bytes, session.client().protocol);
  } else {
    resp::append_bulk(bytes, session.client().name);
  }
  return bytes;
}

void reset_client(Session& session) {
  session.client().protocol = session.rules().protocol;
  session.forget_login();
  session.client().name.clear();
}

void run_local(Session& session, Args args, SlotTag tag) {
  const std::string_view name = args.front();
  if (equals_upper(name, "CLIENT")) return client_command(session, args, tag);
  if (equals_upper(name, "RESET")) {
    if (args.size() != 1) return session.reply_error(tag, wrong_arity("reset"));
    reset_client(session);
    return answer(session, tag, "+RESET\r\n");
  }
  // QUIT: the one left in the table.
  answer_ok(session, tag);
  session.close_after_output();
}

}  // namespace keyferry::gateway
