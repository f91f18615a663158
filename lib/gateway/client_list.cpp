#include "gateway/client_list.h"

#include <algorithm>
#include <array>
#include <map>

#include "gateway/client_ids.h"
#include "gateway/command_table.h"

namespace keyferry::gateway {

namespace {

/// A filter with a value that the line either has or has not.
struct Criterion {
  std::string_view name;
  /// The field that is equal to the value, if no function decides.
  std::string_view key;
  bool (*decides)(const ClientLine& client, std::string_view value) = nullptr;
};

/// By the letters of flags=: a monitor is a replica in the server's eyes, but of type normal.
bool is_type(const ClientLine& client, std::string_view value) {
  const std::string_view flags = client.get("flags");
  const auto has = [&](char flag) { return flags.find(flag) != std::string_view::npos; };
  if (equals_upper(value, "MASTER") || equals_upper(value, "PRIMARY")) return has('M');
  if (equals_upper(value, "REPLICA") || equals_upper(value, "SLAVE")) return has('S') && !has('M');
  const bool link = has('M') || has('S');
  return equals_upper(value, "PUBSUB") ? has('P') && !link : !has('P') && !link;
}

bool has_flags(const ClientLine& client, std::string_view value) {
  const std::string_view flags = client.get("flags");
  return std::all_of(value.begin(), value.end(), [&](char flag) {
    return flags.find(flag) != std::string_view::npos || (flag == 'S' && flags.find('O') != std::string_view::npos);
  });
}

bool has_capabilities(const ClientLine& client, std::string_view value) {
  const std::string_view capa = client.get("capa");
  return std::all_of(value.begin(), value.end(), [&](char one) { return capa.find(one) != std::string_view::npos; });
}

bool is_from(const ClientLine& client, std::string_view value) {
  std::string_view address = client.get("addr");
  const std::size_t port = address.rfind(':');
  if (port == std::string_view::npos || address.substr(port + 1).starts_with('0')) return false;
  address = address.substr(0, port);
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  return address == value;
}

constexpr std::array kCriteria{
    Criterion{"ADDR", "addr"},
    Criterion{"LADDR", "laddr"},
    Criterion{"TYPE", "", is_type},
    Criterion{"USER", "user"},
    Criterion{"FLAGS", "", has_flags},
    Criterion{"NAME", "name"},
    Criterion{"LIB-NAME", "lib-name"},
    Criterion{"LIB-VER", "lib-ver"},
    Criterion{"DB", "db"},
    Criterion{"CAPA", "", has_capabilities},
    Criterion{"IP", "", is_from},
};

bool holds(const ClientLine& client, std::string_view name, std::string_view value) {
  const auto* found =
      std::find_if(kCriteria.begin(), kCriteria.end(), [&](const Criterion& one) { return one.name == name; });
  if (found->decides != nullptr) return found->decides(client, value);
  return !value.empty() && client.get(found->key) == value;
}

/// Adds to a number of the line.
void add(ClientLine& line, std::string_view key, std::uint64_t more) {
  line.set(key, std::to_string(id_of(line.get(key)).value_or(0) + more));
}

std::string seconds_since(base::TimePoint then, base::TimePoint now) {
  return std::to_string(std::max<long long>(0, static_cast<long long>(base::seconds(now - then))));
}

std::string lower(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

/// A client without a connection of its own.
ClientLine plain_line(const ClientFacts& client) {
  ClientLine line(
      "id= addr= laddr= fd=-1 name= age= idle= flags=N capa= db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=0 "
      "qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=NULL user= redir=-1 "
      "resp=2 lib-name= lib-ver= tot-net-in=0 tot-net-out=0 tot-cmds=0");
  if (client.unix_socket) line.set("flags", "U");
  line.set("db", std::to_string(client.database));
  line.set("user", client.user);
  line.set("resp", std::to_string(client.protocol));
  const CommandRow* command = client.activity ? client.activity->command.load(std::memory_order_relaxed) : nullptr;
  if (command != nullptr) line.set("cmd", lower(command->name));
  return line;
}

}  // namespace

ClientLine::ClientLine(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view field = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    const std::size_t equals = field.find('=');
    if (equals != std::string_view::npos) fields_.emplace_back(field.substr(0, equals), field.substr(equals + 1));
  }
}

std::string_view ClientLine::get(std::string_view key) const {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const auto& field) { return field.first == key; });
  return found == fields_.end() ? std::string_view() : found->second;
}

void ClientLine::set(std::string_view key, std::string value) {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const auto& field) { return field.first == key; });
  if (found != fields_.end()) found->second = std::move(value);
}

std::string ClientLine::text() const {
  std::string text;
  for (const auto& [key, value] : fields_) {
    if (!text.empty()) text += ' ';
    text.append(key).append("=").append(value);
  }
  return text + '\n';
}

ClientLine line_of(const ClientFacts& client, const ClientLine* server, base::TimePoint now) {
  ClientLine line = server != nullptr ? *server : plain_line(client);
  if (!client.dedicated) line.set("id", std::to_string(client.id));
  line.set("addr", client.address());
  line.set("laddr", *client.local_address);
  // A client whose bytes pass as they are may have told the server alone.
  if (line.get("name").empty()) line.set("name", client.name);
  if (line.get("lib-name").empty()) line.set("lib-name", client.library_name);
  if (line.get("lib-ver").empty()) line.set("lib-ver", client.library_version);
  if (const auto redirect = id_of(line.get("redir")); redirect && *redirect != 0 && client.redirect != 0)
    line.set("redir", std::to_string(client.redirect));
  line.set("age", seconds_since(client.since, now));
  if (!client.activity) return line;
  const ClientActivity& activity = *client.activity;
  line.set("idle", seconds_since(activity.last.load(std::memory_order_relaxed), now));
  line.set("tot-net-in", std::to_string(activity.bytes_in.load(std::memory_order_relaxed)));
  line.set("tot-net-out", std::to_string(activity.bytes_out.load(std::memory_order_relaxed)));
  line.set("tot-cmds", std::to_string(activity.commands.load(std::memory_order_relaxed)));
  const std::uint64_t output = activity.output.load(std::memory_order_relaxed);
  add(line, "omem", output);
  add(line, "tot-mem", output);
  return line;
}

std::vector<LocalClient> local_clients(const ClientDirectory& directory, std::string_view server_list,
                                       base::TimePoint asked, base::TimePoint now) {
  std::map<std::uint64_t, ClientLine> known;
  while (!server_list.empty()) {
    const std::size_t end = std::min(server_list.find('\n'), server_list.size());
    ClientLine line(server_list.substr(0, end));
    server_list.remove_prefix(std::min(server_list.size(), end + 1));
    if (const auto id = id_of(line.get("id"))) known.emplace(*id, std::move(line));
  }
  std::vector<LocalClient> clients;
  for (const ListedClient& client : directory.all()) {
    const auto found = client.server_id == 0 ? known.end() : known.find(client.server_id);
    // The server had closed it already, though the client has not come to the end of what was read before.
    const bool closed = client.server_id != 0 && found == known.end() && client.pinned_at < asked;
    if (closed && !known.empty()) continue;
    clients.push_back({client.facts.id, line_of(client.facts, found == known.end() ? nullptr : &found->second, now)});
  }
  return clients;
}

ClientFilter::ClientFilter(std::span<const std::string_view> options, bool skip_me) : skip_me_(skip_me) {
  constexpr std::string_view kNot = "NOT-";
  for (std::size_t i = 0; i < options.size(); ++i) {
    std::string_view name = options[i];
    const bool inverted = name.size() > kNot.size() && equals_upper(name.substr(0, kNot.size()), kNot);
    if (inverted) name.remove_prefix(kNot.size());
    Values& values = inverted ? unwanted_ : wanted_;
    if (equals_upper(name, "ID")) {
      while (i + 1 < options.size() && id_of(options[i + 1])) values.ids.emplace(options[++i]);
      continue;
    }
    if (++i == options.size()) return;
    const std::string_view value = options[i];
    if (equals_upper(name, "SKIPME")) {
      skip_me_ = equals_upper(value, "YES");
    } else if (equals_upper(name, "MAXAGE")) {
      max_age_ = id_of(value).value_or(0);
    } else if (equals_upper(name, "IDLE")) {
      idle_ = id_of(value).value_or(0);
    }
    for (const Criterion& one : kCriteria) {
      if (!equals_upper(name, one.name)) continue;
      std::erase_if(values.others, [&](const auto& other) { return other.first == one.name; });
      values.others.emplace_back(one.name, value);
    }
  }
}

bool ClientFilter::matches(const ClientLine& client, std::string_view self) const {
  const std::string_view id = client.get("id");
  if (skip_me_ && id == self) return false;
  if (!wanted_.ids.empty() && !wanted_.ids.contains(id)) return false;
  if (unwanted_.ids.contains(id)) return false;
  if (id_of(client.get("age")).value_or(0) < max_age_ || id_of(client.get("idle")).value_or(0) < idle_) return false;
  const auto has = [&](const auto& one) { return holds(client, one.first, one.second); };
  return std::all_of(wanted_.others.begin(), wanted_.others.end(), has) &&
         std::none_of(unwanted_.others.begin(), unwanted_.others.end(), has);
}

}  // namespace keyferry::gateway
