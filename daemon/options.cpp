#include "daemon/options.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "daemon/config_loader.h"
#include "daemon/options_values.h"

namespace keyferry::daemon {

namespace {

constexpr std::streamsize kLargestFile = 1024 * 1024;

/// A file's first `most` bytes; throws std::runtime_error with the cause.
std::string read_file(const std::string& path, std::streamsize most) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw std::runtime_error(path + ": " + std::strerror(errno));
  if (S_ISDIR(info.st_mode)) throw std::runtime_error(path + ": is a directory");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": " + std::strerror(errno));
  std::string text(static_cast<std::size_t>(most), '\0');
  file.read(text.data(), most);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

std::string HostPort::text() const {
  if (port == 0) return host;
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

Options load_options(const std::string& path) {
  std::string text;
  try {
    text = read_file(path, kLargestFile + 1);
  } catch (const std::exception& failure) {
    throw ConfigError(std::string("the configuration can't be read: ") + failure.what());
  }
  if (text.size() > static_cast<std::size_t>(kLargestFile))
    throw ConfigError(path + ": larger than 1MiB; this is no configuration of Keyferry");
  return parse_options(text, path);
}

Options parse_options(const std::string& text, const std::string& name) {
  return ConfigLoader(name).load(text);
}

Options default_options() {
  return ConfigLoader::defaults();
}

std::size_t worker_count(const Options& options) {
  return options.workers != 0 ? options.workers : default_worker_count();
}

bool uses_tls(const Options& options) {
  return options.upstream.tls.has_value();
}

bool uses_rdma(const Options& options) {
  const Transport transport = options.upstream.transport;
  return transport == Transport::kRdma || (transport == Transport::kAuto && !uses_tls(options));
}

bool uses_sentinels(const Options& options) {
  return options.upstream.mode == "sentinel";
}

std::uint16_t rdma_port(const Options& options) {
  if (uses_sentinels(options)) return 0;
  const NodeOptions& node = options.upstream.nodes.front();
  return node.rdma_port != 0 ? node.rdma_port : node.port;
}

HostPort node_address(const Options& options) {
  if (uses_sentinels(options)) return {options.upstream.master, 0};
  const NodeOptions& node = options.upstream.nodes.front();
  return {node.host, uses_tls(options) && node.tls_port != 0 ? node.tls_port : node.port};
}

HostPort way_address(const Options& options) {
  if (uses_sentinels(options)) return parse_host_port(options.upstream.sentinels.front()).value_or(HostPort{});
  return node_address(options);
}

std::size_t upstream_share(const Options& options) {
  const std::size_t all = options.limits.upstream_connections;
  return (all - std::min(all, options.transfer.lanes)) / worker_count(options);
}

std::size_t bulk_connections(const Options& options) {
  const std::size_t workers = worker_count(options);
  const std::size_t taken = options.transfer.lanes + workers * options.upstream.connections * 2;
  const std::size_t all = options.limits.upstream_connections;
  return all <= taken + workers ? 1 : (all - taken) / workers;
}

}  // namespace keyferry::daemon
