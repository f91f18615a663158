#include "gateway/command_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace keyferry::gateway {

namespace {

using Row = CommandRow;

// Sorted by name: looked up by binary search.
constexpr std::array kTable{
#include "gateway/command_data.inc"
};

constexpr std::size_t kLongestName = 32;

static_assert(std::is_sorted(kTable.begin(), kTable.end(), [](const Row& a, const Row& b) { return a.name < b.name; }));
static_assert(std::all_of(kTable.begin(), kTable.end(),
                          [](const Row& row) { return row.name.size() <= kLongestName; }));

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

/// A name in upper case; nothing if it is longer than any in the table.
class Folded {
 public:
  bool append(std::string_view text) {
    if (size_ + text.size() > text_.size()) return false;
    std::transform(text.begin(), text.end(), text_.begin() + static_cast<std::ptrdiff_t>(size_), upper);
    size_ += text.size();
    return true;
  }
  std::string_view view() const { return {text_.data(), size_}; }

 private:
  std::array<char, kLongestName> text_{};
  std::size_t size_ = 0;
};

const Row* find(std::string_view name) {
  const auto* row =
      std::lower_bound(kTable.begin(), kTable.end(), name, [](const Row& a, std::string_view b) { return a.name < b; });
  return row != kTable.end() && row->name == name ? row : nullptr;
}

bool has_subcommands(const Row* row) {
  const Row* next = row + 1;
  return next != kTable.end() && next->name.size() > row->name.size() && next->name.starts_with(row->name) &&
         next->name[row->name.size()] == '|';
}

// Whether the command blocks is in its arguments: the option stands before the keys, which STREAMS begins.
bool reads_blocking(std::span<const std::string_view> args) {
  for (std::size_t i = 1; i < args.size(); ++i) {
    if (equals_upper(args[i], "STREAMS")) return false;
    if (equals_upper(args[i], "BLOCK")) return true;
    // The names of group and consumer are anything, "block" too.
    if (equals_upper(args[i], "GROUP")) i += 2;
  }
  return false;
}

// The option stands behind the version, in any order with SETNAME, whose name is anything.
bool greets_with_auth(std::span<const std::string_view> args) {
  for (std::size_t i = 2; i < args.size(); ++i) {
    if (equals_upper(args[i], "AUTH")) return true;
    if (equals_upper(args[i], "SETNAME")) ++i;
  }
  return false;
}

std::optional<std::size_t> number(std::string_view text) {
  std::size_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool equals_upper(std::string_view text, std::string_view wanted) {
  return text.size() == wanted.size() &&
         std::equal(text.begin(), text.end(), wanted.begin(), [](char a, char b) { return upper(a) == b; });
}

const CommandRow* find_command(std::span<const std::string_view> args) {
  Folded name;
  if (args.empty() || !name.append(args[0])) return nullptr;
  const Row* row = find(name.view());
  if (row == nullptr || args.size() < 2 || !has_subcommands(row)) return row;
  if (!name.append("|") || !name.append(args[1])) return row;
  const Row* subcommand = find(name.view());
  return subcommand != nullptr ? subcommand : row;
}

upstream::Access access_of(const CommandRow* row) {
  // No writes, but they go to replicas, which the server's COMMAND does not tell. So do scripts, whose connections
  // nobody else waits for.
  constexpr std::array<std::string_view, 3> kReplicated{"PFCOUNT", "PUBLISH", "SPUBLISH"};
  const bool reads =
      row != nullptr && (row->flags & kWrite) == 0 && std::ranges::find(kReplicated, row->name) == kReplicated.end();
  return reads ? upstream::Access::kReads : upstream::Access::kWrites;
}

bool may_change_logins(const CommandRow& row) {
  constexpr std::array<std::string_view, 4> kThese{"ACL|SETUSER", "ACL|DELUSER", "ACL|LOAD", "CONFIG|SET"};
  return std::ranges::find(kThese, row.name) != kThese.end();
}

std::vector<std::string_view> keys_of(const CommandRow& row, std::span<const std::string_view> args) {
  std::vector<std::string_view> keys;
  const auto count = static_cast<int>(args.size());
  if (row.first_key > 0 && row.key_step > 0) {
    const int last = row.last_key < 0 ? count + row.last_key : std::min(row.last_key, count - 1);
    for (int at = row.first_key; at <= last; at += row.key_step) keys.push_back(args[static_cast<std::size_t>(at)]);
  }
  if (row.numkeys > 0 && row.numkeys < count) {
    const auto at = static_cast<std::size_t>(row.numkeys);
    const std::size_t behind = args.size() - at - 1;
    const std::span<const std::string_view> named =
        args.subspan(at + 1, std::min(number(args[at]).value_or(0), behind));
    keys.insert(keys.end(), named.begin(), named.end());
  }
  return keys;
}

Route classify(std::span<const std::string_view> args) {
  return classify(find_command(args), args);
}

Route classify(const Row* row, std::span<const std::string_view> args) {
  if (row == nullptr) return Route::kOrdinary;
  if (row->name == "XREAD" || row->name == "XREADGROUP")
    return reads_blocking(args) ? Route::kBlocking : Route::kOrdinary;
  if (row->name == "HELLO") return greets_with_auth(args) ? Route::kIdentity : Route::kLocal;
  // A subcommand that this table's server does not have: an error, or something new for its connection.
  if (row->name == "CLIENT" && args.size() > 1) return Route::kAlone;
  return row->route;
}

bool is_control(Route route, std::span<const std::string_view> args) {
  if (route == Route::kControl) return true;
  return route == Route::kClients && args.size() > 1 &&
         (equals_upper(args[1], "KILL") || equals_upper(args[1], "UNBLOCK"));
}

}  // namespace keyferry::gateway
