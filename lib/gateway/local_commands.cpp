#include "gateway/local_commands.h"

#include <charconv>
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

void ping(Session& session, Args args, SlotTag tag) {
  if (args.size() > 2) return session.reply_error(tag, wrong_arity("ping"));
  std::string bytes;
  if (args.size() == 2) {
    resp::append_bulk(bytes, args[1]);
  } else {
    bytes = "+PONG\r\n";
  }
  answer(session, tag, bytes);
}

void hello_reply(Session& session, SlotTag tag) {
  const Session::ClientState& client = session.client();
  std::string bytes;
  resp::append_map_header(bytes, client.protocol, 7);
  resp::append_bulk(bytes, "server");
  resp::append_bulk(bytes, "valkey");
  resp::append_bulk(bytes, "version");
  resp::append_bulk(bytes, session.worker().server_version);
  resp::append_bulk(bytes, "proto");
  resp::append_integer(bytes, static_cast<int>(client.protocol));
  resp::append_bulk(bytes, "id");
  resp::append_integer(bytes, static_cast<std::int64_t>(client.id));
  resp::append_bulk(bytes, "mode");
  resp::append_bulk(bytes, "standalone");
  resp::append_bulk(bytes, "role");
  resp::append_bulk(bytes, "master");
  resp::append_bulk(bytes, "modules");
  resp::append_array_header(bytes, 0);
  answer(session, tag, bytes);
}

/// All options are judged before anything changes, as the server does (R6).
void hello(Session& session, Args args, SlotTag tag) {
  Session::ClientState& client = session.client();
  resp::Protocol protocol = client.protocol;
  if (args.size() > 1) {
    int version = 0;
    const auto parsed = std::from_chars(args[1].data(), args[1].data() + args[1].size(), version);
    if (parsed.ec != std::errc() || parsed.ptr != args[1].data() + args[1].size()) {
      return session.reply_error(tag, "ERR Protocol version is not an integer or out of range");
    }
    if (version != 2 && version != 3) return session.reply_error(tag, "NOPROTO unsupported protocol version");
    protocol = static_cast<resp::Protocol>(version);
  }
  std::string_view name = client.name;
  for (std::size_t i = 2; i < args.size();) {
    if (equals_upper(args[i], "SETNAME") && i + 1 < args.size()) {
      name = args[i + 1];
      if (!is_clean_name(name)) return session.reply_error(tag, kDirtyName);
      i += 2;
    } else {
      return session.reply_error(tag, "ERR Syntax error in HELLO option '" + std::string(args[i]) + "'");
    }
  }
  client.protocol = protocol;
  client.name.assign(name);
  hello_reply(session, tag);
}

void client_setinfo(Session& session, Args args, SlotTag tag) {
  if (args.size() != 4) return session.reply_error(tag, wrong_arity("client|setinfo"));
  const bool library_name = equals_upper(args[2], "LIB-NAME");
  if (!library_name && !equals_upper(args[2], "LIB-VER")) {
    return session.reply_error(tag, "ERR Unrecognized option '" + std::string(args[2]) + "'");
  }
  if (!is_clean_name(args[3])) {
    return session.reply_error(tag, "ERR " + std::string(library_name ? "lib-name" : "lib-ver") +
                                        " cannot contain spaces, newlines or special characters.");
  }
  (library_name ? session.client().library_name : session.client().library_version).assign(args[3]);
  answer_ok(session, tag);
}

void client_getname(Session& session, SlotTag tag) {
  std::string bytes;
  if (session.client().name.empty()) {
    resp::append_null(bytes, session.client().protocol);
  } else {
    resp::append_bulk(bytes, session.client().name);
  }
  answer(session, tag, bytes);
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
    return client_getname(session, tag);
  }
  // ID: the one left in the table.
  if (args.size() != 2) return session.reply_error(tag, wrong_arity("client|id"));
  std::string bytes;
  resp::append_integer(bytes, static_cast<std::int64_t>(session.client().id));
  answer(session, tag, bytes);
}

}  // namespace

void reset_client(Session& session) {
  session.client().protocol = resp::Protocol::kResp2;
  session.client().identity = {};
  session.client().name.clear();
}

void run_local(Session& session, Args args, SlotTag tag) {
  const std::string_view name = args.front();
  if (equals_upper(name, "PING")) return ping(session, args, tag);
  if (equals_upper(name, "HELLO")) return hello(session, args, tag);
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
