#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/loop.h"
#include "daemon/options.h"
#include "daemon/password_source.h"
#include "fabric/fabric.h"
#include "gateway/gateway.h"
#include "memory/pool_memory.h"
#include "telemetry/admin_server.h"
#include "telemetry/registry.h"
#include "transfer/engine.h"
#include "upstream/sentinel_query.h"
#include "upstream/whereabouts.h"

namespace keyferry::daemon {

/// keyferryd from its configuration to its end: makes the parts from the bottom up, tells systemd and the admin pages
/// how it stands, and takes them down in order. Belongs to the main thread, which is the admin thread too (HTTP,
/// scrape, signals).
class Daemon {
 public:
  /// Throws std::runtime_error with one message that names the cause and the fix (promise 12).
  explicit Daemon(const Options& options);
  ~Daemon();

  /// Serves until SIGTERM or SIGINT, then drains (limits.drain) and returns. A second signal drops what is left.
  void run();

 private:
  struct Signals;

  std::shared_ptr<const upstream::Credentials> own_credentials() const;
  std::shared_ptr<upstream::Whereabouts> make_whereabouts();
  const PasswordSource* add_password(const std::string& option, const std::string& file);
  gateway::ListenOptions listener_of(const ListenOptions& options, const std::string& name);

  void open_fabric();
  void start_admin();
  void start_engine();
  void watch_loops();
  void follow_primary();
  std::string_view ordinary_transport() const;
  void describe_ordinary();
  void describe_transports();
  std::string scrape();
  telemetry::Health ready() const;
  void status(telemetry::AdminHandlers::StatusDone done);
  using WorkerReports = std::vector<gateway::WorkerReport>;
  void gather(base::UniqueFunction<void(const WorkerReports&)> use);
  void start_gathering();
  void wait_for_signal();
  void on_signal(int signal);
  void stop_engine();

  const Options options_;
  base::Loop loop_;
  telemetry::Registry metrics_;
  telemetry::Shard& shard_;
  /// The first is the configured identity's, if it has one.
  std::vector<std::unique_ptr<PasswordSource>> passwords_;
  memory::PoolMemory memory_;
  std::unique_ptr<fabric::Fabric> fabric_;
  /// Why there is no fabric, as a label of metrics and as a sentence; empty if there is one.
  std::string no_fabric_reason_;
  std::string no_fabric_text_;
  /// Null: ordinary commands never go by RDMA.
  std::shared_ptr<upstream::RdmaRoute> rdma_;
  std::vector<base::UniqueFunction<void(const WorkerReports&)>> gather_for_;
  bool gathering_ = false;
  const std::shared_ptr<gateway::SlowLog> slow_;
  std::shared_ptr<upstream::Whereabouts> where_;
  /// Under way.
  std::unique_ptr<upstream::SentinelQuery> sentinel_query_;
  /// What came of the last one, as it stands in the log.
  std::string primary_text_;
  base::Loop engine_loop_;
  std::unique_ptr<transfer::Engine> engine_;
  std::thread engine_thread_;
  std::unique_ptr<gateway::Gateway> gateway_;
  std::unique_ptr<telemetry::AdminServer> admin_;
  std::unique_ptr<Signals> signals_;
  base::Timer watch_timer_;
  telemetry::Gauge* fabric_info_ = nullptr;
  std::string fabric_info_reason_;
  telemetry::Gauge* ordinary_info_ = nullptr;
  std::string ordinary_reason_;
  std::uint64_t rdma_falls_ = 0;
  /// The fabric's counts as they were at the last scrape.
  std::uint64_t close_failures_ = 0;
  std::uint64_t queue_errors_ = 0;
  /// The whereabouts' likewise.
  std::uint64_t doubts_ = 0;
  std::uint64_t moves_ = 0;
  bool engine_ready_ = false;
  bool stopping_ = false;
};

}  // namespace keyferry::daemon
