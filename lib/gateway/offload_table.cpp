#include "gateway/offload_table.h"

#include <algorithm>
#include <array>

#include "gateway/command_table.h"

namespace keyferry::gateway {

namespace {

constexpr std::string_view kNotCarriedOut =
    "ERR keyferry: the key holds a large object (transfer.offload), on which this command is not carried out; GET it, "
    "or store it anew by SET";
constexpr std::string_view kNoOldValue =
    "ERR keyferry: the key holds a large object (transfer.offload), which can't be compared with or returned while it "
    "is replaced; nothing was changed";
constexpr std::string_view kNoPayload =
    "ERR keyferry: the key holds a large object (transfer.offload), which the server can't serialise";
// What the server says of a string that is no number, as none of that length is.
constexpr std::string_view kNoInteger = "ERR value is not an integer or out of range";
constexpr std::string_view kNoFloat = "ERR value is not a valid float";

struct Row {
  std::string_view name;
  OffloadRoute route;
  std::string_view object_error = {};
  /// Where its keys stand; `last` 0: to the end.
  std::size_t first = 1;
  std::size_t last = 1;
};

using enum OffloadRoute;

// By name. SET is not here: only its options decide (below).
constexpr std::array kTable{
    Row{"APPEND", kNotOnObject, kNotCarriedOut},
    Row{"BITCOUNT", kNotOnObject, kNotCarriedOut},
    Row{"BITFIELD", kNotOnObject, kNotCarriedOut},
    Row{"BITFIELD_RO", kNotOnObject, kNotCarriedOut},
    Row{"BITOP", kNotOnObject, kNotCarriedOut, 3, 0},
    Row{"BITPOS", kNotOnObject, kNotCarriedOut},
    Row{"DECR", kNotOnObject, kNoInteger},
    Row{"DECRBY", kNotOnObject, kNoInteger},
    Row{"DELIFEQ", kNotOnObject, kNoOldValue},
    Row{"DUMP", kNeverOnObject, kNoPayload},
    Row{"GET", kGet},
    Row{"GETBIT", kNotOnObject, kNotCarriedOut},
    Row{"GETDEL", kGetDel},
    Row{"GETEX", kGetEx},
    Row{"GETRANGE", kNotOnObject, kNotCarriedOut},
    Row{"GETSET", kNotOnObject, kNoOldValue},
    Row{"INCR", kNotOnObject, kNoInteger},
    Row{"INCRBY", kNotOnObject, kNoInteger},
    Row{"INCRBYFLOAT", kNotOnObject, kNoFloat},
    Row{"LCS", kNeverOnObject, kNotCarriedOut, 1, 2},
    Row{"MGET", kMget, {}, 1, 0},
    Row{"SETBIT", kNotOnObject, kNotCarriedOut},
    Row{"SETRANGE", kNotOnObject, kNotCarriedOut},
    Row{"STRLEN", kStrlen},
    Row{"SUBSTR", kNotOnObject, kNotCarriedOut},
};
static_assert(std::is_sorted(kTable.begin(), kTable.end(), [](const Row& a, const Row& b) { return a.name < b.name; }));

constexpr std::size_t kLongestName = 11;
static_assert(std::all_of(kTable.begin(), kTable.end(),
                          [](const Row& row) { return row.name.size() <= kLongestName; }));

constexpr Row kSetThatLooks{"SET", kNotOnObject, kNoOldValue};

/// A SET that looks at the old value, which the server does with a string only.
bool looks_at_old_value(std::span<const std::string_view> args) {
  return args.size() > 3 && std::any_of(args.begin() + 3, args.end(), [](std::string_view word) {
           return equals_upper(word, "GET") || equals_upper(word, "IFEQ");
         });
}

const Row* find(std::span<const std::string_view> args) {
  const std::string_view name = args.front();
  if (equals_upper(name, "SET")) return looks_at_old_value(args) ? &kSetThatLooks : nullptr;
  if (name.size() > kLongestName) return nullptr;
  const auto* row =
      std::find_if(kTable.begin(), kTable.end(), [name](const Row& one) { return equals_upper(name, one.name); });
  return row == kTable.end() ? nullptr : row;
}

/// Where the server would refuse the number of arguments it shall do so.
bool has_its_arguments(const Row& row, std::size_t count) {
  if (row.route == kGet || row.route == kGetDel || row.route == kStrlen) return count == 2;
  return count > row.first;
}

}  // namespace

bool is_offloaded(std::string_view key, std::span<const std::string> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [key](const std::string& prefix) { return key.starts_with(prefix); });
}

Offloaded classify_offload(std::span<const std::string_view> args, std::span<const std::string> prefixes) {
  if (prefixes.empty() || args.size() < 2) return {};
  const Row* row = find(args);
  if (row == nullptr || !has_its_arguments(*row, args.size())) return {};
  const std::size_t last = row->last == 0 ? args.size() - 1 : std::min(row->last, args.size() - 1);
  Offloaded found{row->route, {}, row->object_error};
  for (std::size_t i = row->first; i <= last; ++i) {
    if (is_offloaded(args[i], prefixes)) found.keys.push_back(args[i]);
  }
  return found.keys.empty() ? Offloaded{} : found;
}

bool is_offloaded_set(std::span<const std::string_view> args, std::span<const std::string> prefixes) {
  return args.size() == 2 && equals_upper(args[0], "SET") && is_offloaded(args[1], prefixes);
}

}  // namespace keyferry::gateway
