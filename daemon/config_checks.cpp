#include "daemon/config_checks.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "daemon/config_cpus.h"
#include "daemon/config_ids.h"
#include "daemon/options_values.h"

namespace keyferry::daemon {

namespace {

constexpr std::uint64_t kRegionsPerValue = 256;  // blob-rdma spec 1.4
constexpr std::size_t kLongestUnixPath = sizeof(sockaddr_un{}.sun_path) - 1;

struct Numeric {
  bool valid = false;
  bool loopback = false;
};

Numeric numeric(const std::string& host) {
  if (host == "localhost") return {true, true};
  std::array<unsigned char, 16> bytes{};
  if (::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1) return {true, bytes[0] == 127};
  if (::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1) {
    return {true, std::all_of(bytes.begin(), bytes.end() - 1, [](unsigned char byte) { return byte == 0; }) &&
                      bytes[15] == 1};
  }
  return {};
}

class Checker {
 public:
  explicit Checker(const Options& options) : options_(options) {}

  std::vector<Problem> run() {
    listeners();
    upstream();
    tls();
    pool();
    fabric_and_transfer();
    limits();
    placement();
    admin();
    return std::move(problems_);
  }

 private:
  void add(std::string path, std::string text, std::string other = {}) {
    problems_.push_back({std::move(path), std::move(text), std::move(other)});
  }

  void listeners() {
    if (options_.listen.empty()) add("listen", "nobody could connect; at least one item is needed");
    std::set<std::string> seen;
    for (std::size_t i = 0; i < options_.listen.size(); ++i) {
      const ListenOptions& item = options_.listen[i];
      const std::string path = "listen[" + std::to_string(i) + "]";
      const bool has_tcp = item.tcp.port != 0;
      if (has_tcp == !item.unix_path.empty()) {
        add(path, has_tcp ? "has both tcp and unix; make two items of it" : "has neither tcp nor unix");
        continue;
      }
      if (!seen.insert(has_tcp ? item.tcp.text() : item.unix_path).second) add(path, "the same as an earlier item");
      has_tcp ? tcp_listener(path, item) : unix_listener(path, item);
      listener_users(path, item);
    }
  }

  void tcp_listener(const std::string& path, const ListenOptions& item) {
    const Numeric address = numeric(item.tcp.host);
    if (!address.valid) {
      add(path + ".tcp", item.tcp.text() + " has no address in figures");
    } else if (!address.loopback && !item.allow_unauthenticated && !item.require_auth) {
      add(path + ".tcp", item.tcp.text() +
                             " is beyond loopback, and clients are not authenticated; listen on 127.0.0.1, or set "
                             "require_auth: true in this item, or allow_unauthenticated: true if only trusted peers "
                             "can reach it");
    }
    if (!item.allow_uids.empty() || !item.allow_gids.empty() || !item.user_by_uid.empty())
      add(path, "allow_uids, allow_gids and user_by_uid are for unix: nobody knows the user at the other end of tcp");
    if (item.tls && (item.tls->cert.empty() || item.tls->key.empty())) add(path + ".tls", "needs both cert and key");
  }

  void unix_listener(const std::string& path, const ListenOptions& item) {
    if (item.unix_path.front() != '/') add(path + ".unix", item.unix_path + " is not an absolute path");
    if (item.unix_path.size() > kLongestUnixPath) {
      add(path + ".unix", "a path of " + std::to_string(item.unix_path.size()) +
                              " bytes; a socket's may have at most " + std::to_string(kLongestUnixPath));
    }
    if (item.allow_unauthenticated)
      add(path + ".allow_unauthenticated", "is for tcp; a Unix socket is guarded by its mode");
    if (item.tls) add(path + ".tls", "is for tcp; what passes a Unix socket never leaves the host");
  }

  void listener_users(const std::string& path, const ListenOptions& item) {
    for (const std::string& one : item.allow_uids) {
      if (!uid_of(one)) add(path + ".allow_uids", "this host has no user " + one);
    }
    for (const std::string& one : item.allow_gids) {
      if (!gid_of(one)) add(path + ".allow_gids", "this host has no group " + one);
    }
    for (const std::string& one : item.user_by_uid) {
      if (!parse_user_by_uid(one))
        add(path + ".user_by_uid", one + " is not a user of this host, one of the server and a password file");
    }
    if (item.user.empty() != item.password_file.empty())
      add(path + (item.user.empty() ? ".password_file" : ".user"), "user and password_file go together");
    if (item.require_auth && (!item.user.empty() || !item.user_by_uid.empty()))
      add(path + ".require_auth", "leaves user and user_by_uid without a meaning; take one of them out");
    for (const std::string& one : item.deny_commands) {
      if (one.empty() || one.front() == ' ' || one.back() == ' ' || one.find('|') != std::string::npos ||
          std::count(one.begin(), one.end(), ' ') > 1)
        add(path + ".deny_commands", one + " is no command, nor a command and its subcommand");
    }
  }

  void upstream() {
    const UpstreamOptions& upstream = options_.upstream;
    sentinels();
    if (!uses_sentinels(options_) && upstream.nodes.size() != 1) {
      add("upstream.nodes", std::to_string(upstream.nodes.size()) + " items; mode standalone has exactly one");
    }
    for (std::size_t i = 0; i < upstream.nodes.size(); ++i) {
      const NodeOptions& node = upstream.nodes[i];
      const std::string path = "upstream.nodes[" + std::to_string(i) + "]";
      if (node.host.empty()) add(path, "has no host");
      if (node.tls_port != 0 && !upstream.tls)
        add(path + ".tls_port", "is given, but upstream.tls is not, so that it would never be used");
      if (node.port == 0 && (node.tls_port == 0 || !upstream.tls)) add(path, "has no port");
      if (node.rdma_port != 0 && !uses_rdma(options_))
        add(path + ".rdma_port",
            "would never be used: RDMA has no TLS; set upstream.transport to rdma to take it all the same");
      if (upstream.transport == Transport::kRdma && node.rdma_port == 0 && node.port == 0)
        add(path, "has no rdma_port, which transport: rdma needs here");
    }
    if (upstream.user != "default" && upstream.password_file.empty() && upstream.password_command.empty())
      add("upstream.user", upstream.user + " needs a password; set upstream.password_file");
    if (!upstream.password_file.empty() && !upstream.password_command.empty())
      add("upstream.password_command", "and password_file are two sources of one password; take one of them out");
  }

  void sentinels() {
    const UpstreamOptions& upstream = options_.upstream;
    const bool wanted = uses_sentinels(options_);
    for (const std::string& one : upstream.sentinels) {
      if (!parse_host_port(one)) add("upstream.sentinels", one + " is not HOST:PORT");
    }
    if (!wanted) {
      if (!upstream.sentinels.empty()) add("upstream.sentinels", "would never be asked; set upstream.mode: sentinel");
      if (!upstream.master.empty()) add("upstream.master", "is for upstream.mode: sentinel");
      if (!upstream.sentinel_password_file.empty())
        add("upstream.sentinel_password_file", "is for upstream.mode: sentinel");
      return;
    }
    if (upstream.sentinels.empty()) add("upstream.sentinels", "mode sentinel needs at least one");
    if (upstream.master.empty()) add("upstream.master", "mode sentinel needs the name that they know the primary by");
    if (upstream.nodes != default_options().upstream.nodes)
      add("upstream.nodes", "would never be used: mode sentinel takes the server from upstream.sentinels; take it out");
    if (upstream.sentinel_user != "default" && upstream.sentinel_password_file.empty())
      add("upstream.sentinel_user", upstream.sentinel_user + " needs upstream.sentinel_password_file");
  }

  void tls() {
    const UpstreamOptions& upstream = options_.upstream;
    if (upstream.transport == Transport::kTls && !upstream.tls) {
      add("upstream.transport", "tls needs upstream.tls; write {} there for the system's authorities");
    }
    if (upstream.transport == Transport::kTcp && upstream.tls) {
      add("upstream.transport",
          "tcp would leave upstream.tls unused and send everything in the clear; take one of the two out");
    }
    if (upstream.tls && upstream.tls->cert.empty() != upstream.tls->key.empty()) {
      add(upstream.tls->cert.empty() ? "upstream.tls.key" : "upstream.tls.cert", "cert and key go together");
    }
  }

  void pool() {
    const PoolOptions& pool = options_.pool;
    const std::uint64_t value_max = options_.limits.value_max;
    if (!std::has_single_bit(pool.region)) {
      add("pool.region",
          size_text(pool.region) + " is not a power of two; the next one is " + size_text(std::bit_ceil(pool.region)));
      return;
    }
    if (pool.size % pool.region != 0) {
      add("pool.size", size_text(pool.size) + " is not whole regions of " + size_text(pool.region) + " (pool.region)",
          "pool.region");
    } else if (pool.size / pool.region < 2) {
      add("pool.size",
          size_text(pool.size) + " is less than two regions of " + size_text(pool.region) + " (pool.region)",
          "pool.region");
    }
    if (pool.region * kRegionsPerValue < value_max) {
      add("pool.region",
          "256 regions of " + size_text(pool.region) + " hold " + size_text(pool.region * kRegionsPerValue) +
              ", less than limits.value_max, " + size_text(value_max) + "; the region must be at least " +
              size_text(std::bit_ceil((value_max + kRegionsPerValue - 1) / kRegionsPerValue)),
          "limits.value_max");
    }
  }

  void fabric_and_transfer() {
    const FabricOptions& fabric = options_.fabric;
    const TransferOptions& transfer = options_.transfer;
    if (!fabric.bind.empty() && !numeric(fabric.bind).valid)
      add("fabric.bind", fabric.bind + " is not an address in figures");
    if (!fabric.bind.empty() && fabric.provider == "efa-direct")
      add("fabric.bind", "is for the software provider; efa-direct takes no address");
    if (transfer.warm > transfer.lanes) {
      add("transfer.warm",
          std::to_string(transfer.warm) + " is more than transfer.lanes, " + std::to_string(transfer.lanes),
          "transfer.lanes");
    }
    if (transfer.threshold > options_.limits.value_max) {
      add("transfer.threshold",
          size_text(transfer.threshold) + " is above limits.value_max, " + size_text(options_.limits.value_max) +
              ", so that nothing would reach it; fabric.provider: off is the way to have no such transfers",
          "limits.value_max");
    }
  }

  void limits() {
    const LimitOptions& limits = options_.limits;
    if (limits.client_buffer > limits.total_buffer) {
      add("limits.client_buffer",
          size_text(limits.client_buffer) + " is above limits.total_buffer, " + size_text(limits.total_buffer),
          "limits.total_buffer");
    }
    // The most that auto can mean, so that a file that is right on one machine is right on all.
    const std::size_t workers = options_.workers == 0 ? kMostAutomaticWorkers : options_.workers;
    const std::size_t shared = workers * options_.upstream.connections * 2;
    const std::size_t needed = options_.transfer.lanes + shared + workers;
    if (limits.upstream_connections < needed) {
      add("limits.upstream_connections",
          std::to_string(limits.upstream_connections) + " is too few: " + std::to_string(options_.transfer.lanes) +
              " lanes, " + std::to_string(shared) + " shared ones (" + std::to_string(workers) +
              " workers, upstream.connections for each of two protocols) and one for "
              "BLOB.TCP_* per worker make " +
              std::to_string(needed),
          "transfer.lanes");
    }
  }

  void placement() {
    const std::string& workers = options_.placement.workers;
    if (workers == "auto" || workers == "none" || parse_cpu_list(workers)) return;
    add("placement.workers", "\"" + workers + "\" is neither auto nor none nor a list of CPUs like 0-3,8");
  }

  void admin() {
    if (!options_.admin.http) return;
    const HostPort& http = *options_.admin.http;
    if (!numeric(http.host).valid) add("admin.http", http.text() + " has no address in figures");
    for (const ListenOptions& item : options_.listen) {
      if (item.tcp == http) add("admin.http", http.text() + " is also in listen");
    }
  }

  const Options& options_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check_options(const Options& options) {
  return Checker(options).run();
}

}  // namespace keyferry::daemon
