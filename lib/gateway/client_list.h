#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/client_directory.h"

namespace keyferry::gateway {

/// One client as CLIENT LIST writes it: key=value, in order, separated by blanks.
class ClientLine {
 public:
  ClientLine() = default;
  explicit ClientLine(std::string_view text);

  /// Empty if there is no such field.
  std::string_view get(std::string_view key) const;
  /// Of a field that is there.
  void set(std::string_view key, std::string value);
  /// With a line feed at the end.
  std::string text() const;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

/// A local client: what the server says of its connection (`server`, null without one) with the gateway's id and
/// addresses, else what the gateway knows. Output that waits at the gateway counts as the client's.
ClientLine line_of(const ClientFacts& client, const ClientLine* server, base::TimePoint now);

struct LocalClient {
  /// The gateway's.
  std::uint64_t id = 0;
  ClientLine line;
};

/// All local clients by id, `server_list` being the text of the server's CLIENT LIST (empty: not known), asked for at
/// `asked`. Connections that are no client's are not among them: those that clients share, lanes, and what others have
/// at the server (R7). Nor are clients whose own connection the server has closed.
std::vector<LocalClient> local_clients(const ClientDirectory& directory, std::string_view server_list,
                                       base::TimePoint asked, base::TimePoint now);

/// The filters of CLIENT LIST and CLIENT KILL, as Valkey 9.1 has them: each also with NOT- in front but SKIPME, MAXAGE
/// and IDLE; of two with the same name the last counts, but for ID, which adds up.
class ClientFilter {
 public:
  /// `options`: the arguments behind LIST or KILL, which the server has found right.
  ClientFilter(std::span<const std::string_view> options, bool skip_me);

  bool matches(const ClientLine& client, std::string_view self) const;

 private:
  struct Values {
    std::set<std::string, std::less<>> ids;
    /// By the name of the filter, in upper case.
    std::vector<std::pair<std::string_view, std::string>> others;
  };

  Values wanted_;
  Values unwanted_;
  bool skip_me_;
  std::uint64_t max_age_ = 0;
  std::uint64_t idle_ = 0;
};

}  // namespace keyferry::gateway
