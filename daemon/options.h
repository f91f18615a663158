#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "transfer/trust.h"

namespace keyferry::daemon {

/// host:port; an IPv6 host stands without its brackets. Port 0 is "not given".
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
  /// host:port, [host]:port for IPv6; the host alone if there is no port.
  std::string text() const;
  bool operator==(const HostPort&) const = default;
};

/// TLS for local clients. `ca` empty: they need no certificate.
struct ListenTls {
  std::string cert;
  std::string key;
  std::string ca;
  bool operator==(const ListenTls&) const = default;
};

/// Shared: clients share connections to the server while nothing demands one's own. Dedicated: each has its own for
/// life.
enum class ListenUpstream : std::uint8_t { kShared, kDedicated };

/// One item of `listen`: `tcp` has a port, or `unix_path` is set; never both.
struct ListenOptions {
  HostPort tcp;
  std::string unix_path;
  /// Permission bits of the Unix socket.
  unsigned mode = 0;
  bool allow_unauthenticated = false;
  std::optional<ListenTls> tls = std::nullopt;
  ListenUpstream upstream = ListenUpstream::kShared;
  bool require_auth = false;
  /// Users and groups of this host, names or numbers; of a Unix socket's peers. Both empty: everybody.
  std::vector<std::string> allow_uids{};
  std::vector<std::string> allow_gids{};
  /// Whom clients act as; empty: upstream.user.
  std::string user{};
  std::string password_file{};
  /// "UID USER PASSWORD_FILE" each (config_ids.h).
  std::vector<std::string> user_by_uid{};
  /// "CONFIG", "CONFIG SET".
  std::vector<std::string> deny_commands{};
  /// 2 or 3.
  std::uint64_t protocol = 2;
  bool operator==(const ListenOptions&) const = default;
};

/// One item of `upstream.nodes`. At least one of the ports is set.
struct NodeOptions {
  std::string host;
  std::uint16_t port = 0;
  std::uint16_t tls_port = 0;
  std::uint16_t rdma_port = 0;
  bool operator==(const NodeOptions&) const = default;
};

/// Empty: the system's authorities, no client certificate, the node's host name.
struct TlsFiles {
  std::string ca;
  std::string cert;
  std::string key;
  std::string name;
  bool operator==(const TlsFiles&) const = default;
};

enum class Transport : std::uint8_t { kAuto, kRdma, kTls, kTcp };

struct UpstreamOptions {
  std::string mode;
  std::vector<NodeOptions> nodes;
  /// Mode sentinel: "host:port" each, and the name that they know the primary by.
  std::vector<std::string> sentinels{};
  std::string master{};
  std::string sentinel_user{};
  /// Empty: no password.
  std::string sentinel_password_file{};
  bool sentinel_tls = true;
  std::optional<TlsFiles> tls;
  Transport transport = Transport::kAuto;
  bool require = false;
  /// Bytes.
  std::uint64_t rdma_buffer = 0;
  std::size_t rdma_queue = 0;
  std::size_t rdma_vector = 0;
  std::size_t rdma_spin_us = 0;
  base::Duration rdma_resolve{};
  base::Duration rdma_connect{};
  /// Shared connections per node, worker and protocol.
  std::size_t connections = 0;
  bool retry_reads = false;
  std::string user;
  /// Both empty: no password.
  std::string password_file;
  std::vector<std::string> password_command{};
  base::Duration password_refresh{};
  bool operator==(const UpstreamOptions&) const = default;
};

enum class HugePages : std::uint8_t { kPrefer, kRequire, kNever };

/// Bytes.
struct PoolOptions {
  std::uint64_t size = 0;
  std::uint64_t region = 0;
  HugePages huge_pages = HugePages::kPrefer;
  bool operator==(const PoolOptions&) const = default;
};

/// `provider` as written: auto, efa-direct, software or off. Empty text or list: not given.
struct FabricOptions {
  std::string provider;
  std::vector<std::string> interfaces;
  std::string bind;
  std::string library;
  bool operator==(const FabricOptions&) const = default;
};

struct TransferOptions {
  /// Bytes.
  std::uint64_t threshold = 0;
  std::size_t lanes = 0;
  std::size_t warm = 0;
  /// Bytes per second; 0: no deadline.
  std::uint64_t min_rate = 0;
  base::Duration orphan_grace{};
  transfer::TrustErrorReplies trust_error_replies = transfer::TrustErrorReplies::kNever;
  /// Key prefixes.
  std::vector<std::string> immutable;
  std::vector<std::string> offload;
  bool operator==(const TransferOptions&) const = default;
};

/// Sizes in bytes.
struct LimitOptions {
  std::uint64_t value_max = 0;
  std::size_t clients = 0;
  std::uint64_t client_buffer = 0;
  std::uint64_t total_buffer = 0;
  base::Duration stall{};
  base::Duration pool_wait{};
  base::Duration upstream_wait{};
  std::size_t upstream_connections = 0;
  std::size_t pinned_long = 0;
  std::size_t pinned_short = 0;
  base::Duration pin_wait{};
  /// 0: never.
  base::Duration client_idle{};
  /// 0: off.
  base::Duration client_keepalive{};
  base::Duration drain{};
  bool operator==(const LimitOptions&) const = default;
};

/// Where threads run: auto, none, or a list of CPUs ("0-3,8").
struct PlacementOptions {
  std::string workers;
  bool operator==(const PlacementOptions&) const = default;
};

struct AdminOptions {
  /// Nothing: off.
  std::optional<HostPort> http;
  /// Local clients may be ended there.
  bool kill = true;
  /// Commands that took as long at least are kept, so many of them; 0: none.
  base::Duration slow{};
  std::size_t slow_kept = 0;
  bool operator==(const AdminOptions&) const = default;
};

/// `level` is trace, debug, info, warning or error; `format` is text or json.
struct LogOptions {
  std::string level;
  std::string format;
  bool operator==(const LogOptions&) const = default;
};

/// The configuration, checked: what load_options() gives keeps every rule of config/reference.md. The defaults stand in
/// the table of options (options_table.h) and nowhere else: an Options that was not loaded holds none. A plain value,
/// no thread rules.
struct Options {
  /// 0: auto; see worker_count().
  std::size_t workers = 0;
  std::vector<ListenOptions> listen;
  UpstreamOptions upstream;
  PoolOptions pool;
  FabricOptions fabric;
  TransferOptions transfer;
  LimitOptions limits;
  PlacementOptions placement;
  AdminOptions admin;
  LogOptions log;
  bool operator==(const Options&) const = default;
};

/// Everything that is wrong with a configuration: what() has a line for each, "FILE:LINE: KEY: VALUE ...: what is
/// allowed".
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads and checks a file. Throws ConfigError, also for a file that can't be read.
Options load_options(const std::string& path);
/// The same for text; `name` stands for the file in messages.
Options parse_options(const std::string& text, const std::string& name);
/// What an empty file gives.
Options default_options();

/// Threads for clients: `workers`, or, for auto, what default_worker_count() says.
std::size_t worker_count(const Options& options);
/// min(4, CPUs that this process may use: its affinity and its cgroup's quota, rounded up).
std::size_t default_worker_count();
/// True if what does not go by RDMA goes by TLS (upstream.tls is set; a file that sets it and asks for tcp is refused).
bool uses_tls(const Options& options);
/// True if ordinary commands go by RDMA while that works: asked for, or left to us without TLS, which RDMA has not.
bool uses_rdma(const Options& options);
/// Sentinels are asked for the server.
bool uses_sentinels(const Options& options);
/// Where to dial the one node over RDMA: its rdma_port, else its port; 0: the port that sentinels name.
std::uint16_t rdma_port(const Options& options);
/// Where to dial the one node: tls_port if TLS is used and it is given. With sentinels its name and no port.
HostPort node_address(const Options& options);
/// An address on the way to the server, for what depends on the network there: the node's, or the first sentinel's.
HostPort way_address(const Options& options);
/// Connections for BLOB.TCP_* that one worker may have: its share of what lanes and shared connections leave of
/// limits.upstream_connections; at least 1.
std::size_t bulk_connections(const Options& options);
/// Shared and bulk connections that one worker may have, of all identities.
std::size_t upstream_share(const Options& options);

}  // namespace keyferry::daemon
