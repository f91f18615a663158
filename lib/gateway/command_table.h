#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "upstream/channel.h"

namespace keyferry::gateway {

/// How the gateway carries a command of a client that has no connection of its own (Router).
enum class Route : std::uint8_t {
  /// Forwarded on a shared channel.
  kOrdinary,
  /// Answered here (gateway/local_commands.h).
  kLocal,
  /// BLOB.TCP_SET key value / BLOB.TCP_GET key: by the fabric from the threshold up, else on a bulk connection.
  kBlobSet,
  kBlobGet,
  /// On a connection of its own for this one command: it may run long, or must not wait behind what others wait for.
  kAlone,
  /// As kAlone, by a connection that is for such commands only and whatever the client's database is, as nothing may
  /// hold it up: SCRIPT KILL, FUNCTION KILL, CLIENT UNPAUSE.
  kControl,
  /// SELECT, AUTH, HELLO with AUTH: as kAlone, and from its reply on the client is served by another pool (R54).
  kIdentity,
  /// On a connection of its own until its reply, which may take for ever (R23).
  kBlocking,
  /// Begins what has to stay on one connection: MULTI, WATCH (R15, R17).
  kTransaction,
  /// Ends it. Without one begun it is ordinary: the server's error.
  kEndsTransaction,
  /// Changes its connection in a way that only the connection can keep: the client keeps one from here on.
  kOwn,
  /// As kOwn, and replies can't be counted from here on: bytes are passed through (SUBSCRIBE, MONITOR, SYNC ...; R10).
  kRaw,
  /// CLIENT LIST, INFO, KILL, UNBLOCK: they speak of connections, by ids that are the gateway's here.
  kClients,
  /// BLOB.RDMA_*: refused from a socket.
  kRdma,
  /// A line of HTTP: the client is closed without a reply, as the server does, lest a web page drive it (cross-protocol
  /// scripting). Never forwarded: it would end a connection that others share.
  kHangUp,
};

/// What the server says of a command, and our own column. From command_data.inc, which
/// tests/support/valkey/commands writes.
struct CommandRow {
  /// Upper case; a subcommand as COMMAND|SUBCOMMAND.
  std::string_view name;
  Route route;
  /// kWrite and so on.
  unsigned flags;
  /// Places of the keys among the arguments, as COMMAND says: first, last (negative: from the end), step. 0: none.
  int first_key, last_key, key_step;
  /// The place of the argument that says how many keys follow it; 0: none.
  int numkeys;
};

inline constexpr unsigned kWrite = 1;
inline constexpr unsigned kReadonly = 2;
/// Which arguments are keys depends on others.
inline constexpr unsigned kMovableKeys = 4;
inline constexpr unsigned kMayBlock = 8;

/// The row of a command, of its subcommand if it has one; null for what the server of the table does not know. args[0]
/// is the name, any case.
const CommandRow* find_command(std::span<const std::string_view> args);

/// kWrites where the server may hold the command back while it answers others; `row` null: it is not known, so it may.
upstream::Access access_of(const CommandRow* row);

/// Whether who has to log in, or who can, may be another once it has run.
bool may_change_logins(const CommandRow& row);

/// The keys that a command names, as the table can tell: none for unknown commands, and not those behind a keyword
/// (STREAMS, STORE, KEYS). For scripts those that are declared.
std::vector<std::string_view> keys_of(const CommandRow& row, std::span<const std::string_view> args);

/// Decides by name and arguments. What the table does not know is ordinary: arity, unknown commands and ACL are the
/// server's to judge. Only the arguments that are given are looked at, so the name alone is enough for most.
Route classify(std::span<const std::string_view> args);
/// The same for a row that find_command() gave.
Route classify(const CommandRow* row, std::span<const std::string_view> args);

/// What ends or wakes others and so may wait for nobody: Route::kControl, and of kClients CLIENT KILL and UNBLOCK.
bool is_control(Route route, std::span<const std::string_view> args);

/// For Route::kRdma: the whole error text, starting with its code.
inline constexpr std::string_view kRdmaRefusal =
    "ERR keyferry: BLOB.RDMA_* names memory of the caller, which a socket client has not registered here; use "
    "BLOB.TCP_SET and BLOB.TCP_GET, large values then travel by RDMA from the gateway's pool";

/// True if both are equal, ASCII letters in any case. `upper` must be upper case.
bool equals_upper(std::string_view text, std::string_view upper);

}  // namespace keyferry::gateway
