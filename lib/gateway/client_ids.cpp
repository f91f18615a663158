#include "gateway/client_ids.h"

#include <algorithm>
#include <charconv>

#include "gateway/command_table.h"

namespace keyferry::gateway {

namespace {

// The server knows no such connection.
constexpr std::string_view kNobody = "9223372036854775807";

/// Appends the ids of all connections that local clients have for themselves.
void name_all(std::vector<std::string>& words, const ClientDirectory& directory) {
  words.emplace_back(kNobody);
  for (const ListedClient& client : directory.all()) {
    if (client.server_id != 0) words.push_back(std::to_string(client.server_id));
  }
}

/// On a dedicated listener the address is that of a connection, else that of a client.
std::vector<std::string> confined_old_kill(std::string_view address, const ClientDirectory& directory, bool dedicated) {
  std::vector<std::string> words{"CLIENT", "KILL", "SKIPME", "no"};
  if (dedicated) words.insert(words.end(), {"ADDR", std::string(address)});
  words.emplace_back("ID");
  if (dedicated) {
    name_all(words, directory);
    return words;
  }
  const std::size_t without = words.size();
  for (const ListedClient& client : directory.all()) {
    if (client.facts.address() == address && client.server_id != 0) words.push_back(std::to_string(client.server_id));
  }
  // The server's own answer to that.
  if (words.size() == without) return {"CLIENT", "KILL", "0:0"};
  return words;
}

/// The new form.
std::vector<std::string> confined_kill(std::span<const std::string_view> args, const ClientDirectory& directory,
                                       bool dedicated) {
  std::vector<std::string> confined(args.begin(), args.end());
  bool named = false;
  for (std::size_t i = 2; i < args.size(); ++i) {
    const bool spared = equals_upper(args[i], "NOT-ID");
    if (!spared && !equals_upper(args[i], "ID")) {
      ++i;
      continue;
    }
    if (!spared) named = true;
    while (i + 1 < args.size() && id_of(args[i + 1])) {
      ++i;
      if (!dedicated) {
        confined[i] = server_id_text(args[i], directory);
      } else if (!spared && args[i] != "0" && directory.client_of(*id_of(args[i])) == 0) {
        confined[i] = kNobody;
      }
    }
  }
  if (named) return confined;
  confined.emplace_back("ID");
  name_all(confined, directory);
  return confined;
}

}  // namespace

std::optional<std::uint64_t> id_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string server_id_text(std::string_view text, const ClientDirectory& directory) {
  const auto id = id_of(text);
  if (!id || *id == 0) return std::string(text);
  const std::uint64_t server_id = directory.server_id(*id).value_or(0);
  return server_id == 0 ? std::string(kNobody) : std::to_string(server_id);
}

std::optional<std::size_t> redirect_place(std::span<const std::string_view> args) {
  if (args.size() < 5 || !equals_upper(args[0], "CLIENT") || !equals_upper(args[1], "TRACKING")) return std::nullopt;
  for (std::size_t i = 3; i + 1 < args.size(); ++i) {
    // A prefix may be called anything.
    if (equals_upper(args[i], "PREFIX")) {
      ++i;
    } else if (equals_upper(args[i], "REDIRECT")) {
      return i + 1;
    }
  }
  return std::nullopt;
}

bool is_old_kill(std::span<const std::string_view> args) {
  return args.size() == 3 && equals_upper(args[0], "CLIENT") && equals_upper(args[1], "KILL");
}

std::string old_kill_reply(std::string reply) {
  if (!reply.starts_with(':')) return reply;
  return reply == ":0\r\n" ? "-ERR No such client\r\n" : "+OK\r\n";
}

std::optional<std::vector<std::string>> in_server_words(std::span<const std::string_view> args,
                                                        const ClientDirectory& directory, bool dedicated) {
  if (args.size() < 3 || !equals_upper(args[0], "CLIENT")) return std::nullopt;
  if (is_old_kill(args)) return confined_old_kill(args[2], directory, dedicated);
  if (equals_upper(args[1], "KILL")) return confined_kill(args, directory, dedicated);
  const auto place = equals_upper(args[1], "UNBLOCK") ? std::optional<std::size_t>(2) : redirect_place(args);
  if (dedicated || !place) return std::nullopt;
  std::vector<std::string> words(args.begin(), args.end());
  words[*place] = server_id_text(args[*place], directory);
  return words;
}

std::string with_id(std::string bytes, std::string_view mark, std::uint64_t id) {
  const std::size_t at = id == 0 ? std::string::npos : bytes.find(mark);
  if (at == std::string::npos) return bytes;
  const std::size_t begin = at + mark.size();
  const std::size_t end = bytes.find('\r', begin);
  if (end == std::string::npos) return bytes;
  const auto number = id_of(std::string_view(bytes).substr(begin, end - begin));
  if (number && *number != 0) bytes.replace(begin, end - begin, std::to_string(id));
  return bytes;
}

}  // namespace keyferry::gateway
