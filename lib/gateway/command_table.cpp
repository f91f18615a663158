#include "gateway/command_table.h"

#include <algorithm>
#include <array>

namespace keyferry::gateway {

namespace {

// This version multiplexes all clients of one protocol over shared connections, so what would change or hold such a
// connection for the others is refused by name. The texts say what to do instead.
constexpr std::string_view kChangesConnection =
    "ERR keyferry: this command changes or holds the connection it runs on, and this version shares its connections "
    "between clients; send it to "
    "the server directly";
constexpr std::string_view kBlocks =
    "ERR keyferry: blocking commands hold the connection they run on, and this version shares its connections between "
    "clients; send it to the "
    "server directly";
constexpr std::string_view kRdmaFromSocket =
    "ERR keyferry: BLOB.RDMA_* names memory of the caller, which a socket client has not registered here; use "
    "BLOB.TCP_SET and BLOB.TCP_GET, large "
    "values then travel by RDMA from the gateway's pool";
constexpr std::string_view kIdentity =
    "ERR keyferry: this version connects to the server as the one user of its configuration; AUTH is not available to "
    "local clients";

struct Row {
  std::string_view name;
  Route route;
  std::string_view refusal = {};
};

// Sorted by name: looked up by binary search, and a test checks the order.
constexpr std::array kTable{
    Row{"ASKING", Route::kRefused, kChangesConnection},
    Row{"AUTH", Route::kRefused, kIdentity},
    Row{"BLMOVE", Route::kRefused, kBlocks},
    Row{"BLMPOP", Route::kRefused, kBlocks},
    Row{"BLOB.RDMA_GET", Route::kRefused, kRdmaFromSocket},
    Row{"BLOB.RDMA_HELLO", Route::kRefused, kRdmaFromSocket},
    Row{"BLOB.RDMA_SET", Route::kRefused, kRdmaFromSocket},
    Row{"BLOB.TCP_GET", Route::kBlobGet},
    Row{"BLOB.TCP_SET", Route::kBlobSet},
    Row{"BLPOP", Route::kRefused, kBlocks},
    Row{"BRPOP", Route::kRefused, kBlocks},
    Row{"BRPOPLPUSH", Route::kRefused, kBlocks},
    Row{"BZMPOP", Route::kRefused, kBlocks},
    Row{"BZPOPMAX", Route::kRefused, kBlocks},
    Row{"BZPOPMIN", Route::kRefused, kBlocks},
    Row{"CLIENT", Route::kLocal},
    Row{"DISCARD", Route::kRefused, kChangesConnection},
    Row{"EXEC", Route::kRefused, kChangesConnection},
    Row{"HELLO", Route::kLocal},
    Row{"HOST:", Route::kHangUp},
    Row{"MONITOR", Route::kRefused, kChangesConnection},
    Row{"MULTI", Route::kRefused, kChangesConnection},
    Row{"PING", Route::kLocal},
    Row{"POST", Route::kHangUp},
    Row{"PSUBSCRIBE", Route::kRefused, kChangesConnection},
    Row{"PSYNC", Route::kRefused, kChangesConnection},
    Row{"PUNSUBSCRIBE", Route::kRefused, kChangesConnection},
    Row{"QUIT", Route::kLocal},
    Row{"READONLY", Route::kRefused, kChangesConnection},
    Row{"READWRITE", Route::kRefused, kChangesConnection},
    Row{"REPLCONF", Route::kRefused, kChangesConnection},
    Row{"RESET", Route::kLocal},
    Row{"SELECT", Route::kLocal},
    Row{"SSUBSCRIBE", Route::kRefused, kChangesConnection},
    Row{"SUBSCRIBE", Route::kRefused, kChangesConnection},
    Row{"SUNSUBSCRIBE", Route::kRefused, kChangesConnection},
    Row{"SYNC", Route::kRefused, kChangesConnection},
    Row{"UNSUBSCRIBE", Route::kRefused, kChangesConnection},
    Row{"UNWATCH", Route::kRefused, kChangesConnection},
    Row{"WAIT", Route::kRefused, kBlocks},
    Row{"WAITAOF", Route::kRefused, kBlocks},
    Row{"WATCH", Route::kRefused, kChangesConnection},
};

constexpr std::size_t kLongestName = 15;

static_assert(std::is_sorted(kTable.begin(), kTable.end(), [](const Row& a, const Row& b) { return a.name < b.name; }));
static_assert(std::all_of(kTable.begin(), kTable.end(),
                          [](const Row& row) { return row.name.size() <= kLongestName; }));

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool has_option(std::span<const std::string_view> args, std::string_view option) {
  return std::any_of(args.begin() + 1, args.end(),
                     [option](std::string_view arg) { return equals_upper(arg, option); });
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

}  // namespace

bool equals_upper(std::string_view text, std::string_view wanted) {
  return text.size() == wanted.size() &&
         std::equal(text.begin(), text.end(), wanted.begin(), [](char a, char b) { return upper(a) == b; });
}

Classified classify(std::span<const std::string_view> args) {
  const std::string_view name = args.front();
  if (equals_upper(name, "XREAD") || equals_upper(name, "XREADGROUP")) {
    return reads_blocking(args) ? Classified{Route::kRefused, kBlocks} : Classified{};
  }
  if (equals_upper(name, "SCRIPT")) {
    return has_option(args.first(std::min<std::size_t>(args.size(), 2)), "DEBUG")
               ? Classified{Route::kRefused, kChangesConnection}
               : Classified{};
  }
  if (name.size() > kLongestName) return {};
  std::array<char, kLongestName> folded{};
  std::transform(name.begin(), name.end(), folded.begin(), upper);
  const std::string_view key(folded.data(), name.size());
  const auto* row =
      std::lower_bound(kTable.begin(), kTable.end(), key, [](const Row& a, std::string_view b) { return a.name < b; });
  if (row == kTable.end() || row->name != key) return {};
  return {row->route, row->refusal};
}

}  // namespace keyferry::gateway
