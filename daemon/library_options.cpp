#include "daemon/library_options.h"

#include <utility>

#include "daemon/options_values.h"

namespace keyferry::daemon {

namespace {

upstream::TlsOptions tls_options(const TlsFiles& files) {
  return {files.ca, files.cert, files.key, files.name};
}

}  // namespace

memory::PoolOptions pool_options(const PoolOptions& options) {
  memory::PoolOptions pool;
  pool.bytes = options.size;
  pool.region_bytes = options.region;
  switch (options.huge_pages) {
    case HugePages::kPrefer:
      pool.huge_pages = memory::PoolOptions::HugePages::kPrefer;
      break;
    case HugePages::kRequire:
      pool.huge_pages = memory::PoolOptions::HugePages::kRequire;
      break;
    case HugePages::kNever:
      pool.huge_pages = memory::PoolOptions::HugePages::kNever;
      break;
  }
  return pool;
}

upstream::ConnectOptions connect_options(const Options& options,
                                         std::shared_ptr<const upstream::Credentials> credentials,
                                         const std::shared_ptr<upstream::Whereabouts>& where) {
  upstream::ConnectOptions connect;
  const HostPort node = node_address(options);
  connect.address = {node.host, node.port};
  connect.where = where;
  if (uses_tls(options)) {
    connect.tls = tls_options(options.upstream.tls.value_or(TlsFiles{}));
  }
  connect.user = options.upstream.user;
  connect.credentials = std::move(credentials);
  connect.timeout = options.limits.upstream_wait;
  return connect;
}

upstream::ConnectOptions ordinary_options(const Options& options,
                                          std::shared_ptr<const upstream::Credentials> credentials,
                                          const std::shared_ptr<upstream::Whereabouts>& where,
                                          const std::shared_ptr<upstream::RdmaRoute>& route) {
  upstream::ConnectOptions connect = connect_options(options, std::move(credentials), where);
  if (route == nullptr) return connect;
  upstream::RdmaSettings settings;
  settings.port = rdma_port(options);
  settings.buffer = options.upstream.rdma_buffer;
  settings.completion_vector = static_cast<unsigned>(options.upstream.rdma_vector);
  settings.resolve_timeout = options.upstream.rdma_resolve;
  connect.rdma = upstream::RdmaOptions{settings, route};
  return connect;
}

upstream::SentinelOptions sentinel_options(const Options& options,
                                           std::shared_ptr<const upstream::Credentials> credentials) {
  const UpstreamOptions& given = options.upstream;
  upstream::SentinelOptions sentinels;
  for (const std::string& one : given.sentinels) {
    const HostPort address = parse_host_port(one).value_or(HostPort{});
    sentinels.sentinels.push_back({address.host, address.port});
  }
  sentinels.master = given.master;
  sentinels.user = given.sentinel_user;
  if (given.tls && given.sentinel_tls) sentinels.tls = tls_options(*given.tls);
  sentinels.credentials = std::move(credentials);
  return sentinels;
}

gateway::WorkerOptions worker_options(const Options& options, upstream::ConnectOptions connect, std::size_t workers) {
  gateway::WorkerOptions worker;
  worker.connect = std::move(connect);
  worker.connections = options.upstream.connections;
  worker.bulk_connections = bulk_connections(options);
  worker.upstream_share = upstream_share(options);
  worker.pinned_short = (options.limits.pinned_short + workers - 1) / workers;
  worker.pinned_long = (options.limits.pinned_long + workers - 1) / workers;
  worker.pin_wait = options.limits.pin_wait;
  worker.gateway.threshold = options.transfer.threshold;
  worker.gateway.value_max = options.limits.value_max;
  worker.gateway.client_buffer = options.limits.client_buffer;
  worker.gateway.worker_buffer = options.limits.total_buffer / workers;
  worker.gateway.stall = options.limits.stall;
  worker.gateway.client_idle = options.limits.client_idle;
  worker.gateway.user = options.upstream.user;
  worker.gateway.logs_in = worker.connect.credentials != nullptr || options.upstream.user != "default";
  worker.gateway.node = node_address(options).text();
  worker.gateway.offload = options.transfer.offload;
  worker.gateway.retry_reads = options.upstream.retry_reads;
  worker.gateway.transport = uses_tls(options) ? "tls" : "tcp";
  return worker;
}

}  // namespace keyferry::daemon
