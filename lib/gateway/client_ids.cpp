#include "gateway/client_ids.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "gateway/command_table.h"
#include "resp/decode.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

// The server knows no such connection.
constexpr std::string_view kNobody = "9223372036854775807";

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The server's id in place of the gateway's. What is no number stays for the server to refuse.
std::string server_id_text(std::string_view text, const ClientDirectory& directory) {
  const auto id = number(text);
  if (!id || *id == 0) return std::string(text);
  const std::uint64_t server_id = directory.server_id(*id).value_or(0);
  return server_id == 0 ? std::string(kNobody) : std::to_string(server_id);
}

std::string line_of(const ClientFacts& client) {
  const auto age = static_cast<long long>(base::seconds(base::Clock::steady().now() - client.since));
  std::string line =
      "id=" + std::to_string(client.id) + " addr=" + client.address + " laddr= fd=-1 name=" + client.name +
      " age=" + std::to_string(age) + " idle=0 flags=N capa= db=" + std::to_string(client.database) +
      " sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0"
      " oll=0 omem=0 tot-mem=0 events=r cmd=NULL user=" +
      client.user + " redir=-1 resp=" + std::to_string(client.protocol) + " lib-name=" + client.library_name +
      " lib-ver=" + client.library_version + " tot-net-in=0 tot-net-out=0 tot-cmds=0\n";
  return line;
}

ClientsPlan plan_list(std::span<const std::string_view> args, const ClientDirectory& directory, std::uint64_t self) {
  ClientsPlan plan;
  plan.args.assign(args.begin(), args.end());
  const bool by_id = args.size() > 3 && equals_upper(args[2], "ID");
  const bool normal = args.size() == 4 && equals_upper(args[2], "TYPE") && equals_upper(args[3], "NORMAL");
  const bool other_type = args.size() == 4 && equals_upper(args[2], "TYPE") && !normal;
  if (args.size() != 2 && !by_id && !normal && !other_type) return plan;
  plan.way = ClientsPlan::Way::kList;
  if (by_id) {
    for (std::size_t i = 3; i < args.size(); ++i) plan.args[i] = server_id_text(args[i], directory);
  }
  if (other_type) return plan;
  for (const ClientFacts& client : directory.without_connection()) {
    const std::string id = std::to_string(client.id);
    if (client.id != self && (!by_id || std::find(args.begin() + 3, args.end(), id) != args.end()))
      plan.more += line_of(client);
  }
  return plan;
}

ClientsPlan plan_kill(std::span<const std::string_view> args, const ClientDirectory& directory, std::uint64_t self) {
  ClientsPlan plan;
  if (args.size() != 4 || !equals_upper(args[2], "ID")) return plan;
  plan.args.assign(args.begin(), args.end());
  plan.args[3] = server_id_text(args[3], directory);
  const auto id = number(args[3]);
  const auto server_id = id ? directory.server_id(*id) : std::nullopt;
  plan.way = server_id && *server_id == 0 && *id != self ? ClientsPlan::Way::kKillHere : ClientsPlan::Way::kForward;
  plan.id = id.value_or(0);
  return plan;
}

/// The number behind `name` in a line becomes the gateway's. False: it is no client's.
bool translate(std::string& line, std::string_view name, const ClientDirectory& directory) {
  const std::size_t at = line.find(name);
  if (at == std::string::npos) return false;
  const std::size_t begin = at + name.size();
  const std::size_t end = line.find(' ', begin);
  const auto server_id = number(std::string_view(line).substr(begin, end - begin));
  const std::uint64_t id = server_id ? directory.client_of(*server_id) : 0;
  if (id == 0) return false;
  line.replace(begin, end - begin, std::to_string(id));
  return true;
}

}  // namespace

ClientsPlan plan_clients(std::span<const std::string_view> args, const ClientDirectory& directory, std::uint64_t self) {
  if (equals_upper(args[1], "LIST")) return plan_list(args, directory, self);
  if (equals_upper(args[1], "KILL")) return plan_kill(args, directory, self);
  ClientsPlan plan;
  plan.args.assign(args.begin(), args.end());
  plan.way = equals_upper(args[1], "INFO") ? ClientsPlan::Way::kList : ClientsPlan::Way::kForward;
  if (equals_upper(args[1], "UNBLOCK") && args.size() > 2) plan.args[2] = server_id_text(args[2], directory);
  return plan;
}

std::vector<std::string> redirect_args(std::span<const std::string_view> args, const ClientDirectory& directory) {
  if (args.size() < 5 || !equals_upper(args[0], "CLIENT") || !equals_upper(args[1], "TRACKING")) return {};
  std::vector<std::string> wanted(args.begin(), args.end());
  for (std::size_t i = 3; i + 1 < args.size(); ++i) {
    // A prefix may be called anything.
    if (equals_upper(args[i], "PREFIX")) {
      ++i;
    } else if (equals_upper(args[i], "REDIRECT")) {
      wanted[i + 1] = server_id_text(args[i + 1], directory);
      return wanted;
    }
  }
  return {};
}

std::string translate_client_list(std::string_view reply, std::string_view more, const ClientDirectory& directory,
                                  resp::Protocol protocol) {
  const resp::DecodeResult decoded = resp::decode(reply);
  if (!decoded.ok() || decoded.value.is_error()) return std::string(reply);
  std::string text;
  std::string_view rest = decoded.value.text;
  while (!rest.empty()) {
    const std::size_t length = std::min(rest.find('\n'), rest.size() - 1) + 1;
    std::string line(rest.substr(0, length));
    rest.remove_prefix(length);
    const bool ours = translate(line, "id=", directory);
    if (!ours && line.find(" lib-name=keyferry ") != std::string::npos) continue;
    translate(line, " redir=", directory);
    text += line;
  }
  text += more;
  std::string bytes;
  resp::append_verbatim(bytes, protocol, "txt", text);
  return bytes;
}

}  // namespace keyferry::gateway
