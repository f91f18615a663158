#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "base/unique_function.h"
#include "gateway/login_changes.h"
#include "gateway/session.h"
#include "gateway/tls_server.h"
#include "gateway/worker_context.h"
#include "gateway/worker_report.h"
#include "upstream/connection.h"

namespace keyferry::gateway {

struct WorkerOptions {
  GatewayOptions gateway;
  upstream::ConnectOptions connect;
  /// Shared channels per protocol, and how many bulk connections at most.
  std::size_t connections = 2;
  std::size_t bulk_connections = 16;
  /// This worker's share of limits.upstream_connections without the lanes: channels and bulk connections of all
  /// identities together.
  std::size_t upstream_share = 20;
  /// This worker's shares of limits.pinned_short and limits.pinned_long, at least 1, and how long one is waited for.
  std::size_t pinned_short = 128;
  std::size_t pinned_long = 1024;
  base::Duration pin_wait = std::chrono::seconds(5);
  /// CPUs that each worker's thread may run on, by its index; empty: those of the process.
  std::vector<std::vector<unsigned>> cpus;
  /// All workers' clients: copies of these options share it.
  std::shared_ptr<ClientDirectory> directory = std::make_shared<ClientDirectory>();
  /// Likewise.
  std::shared_ptr<LoginChanges> login_changes = std::make_shared<LoginChanges>();
  std::shared_ptr<SlowLog> slow = std::make_shared<SlowLog>(base::Duration{}, 0);
};

/// One thread with its sessions, its channels and its bulk connections, and one that copies large values into sockets
/// for it (base::CopiedWrite). Both start with the object and end in stop(). drain() and stop() may be called
/// from any thread (they post), adopt() and hand_over() from the listeners'. clients() is an atomic that listener and
/// worker count and the listener reads to choose the least loaded; reaches_server() one that the worker writes each
/// second and the admin thread reads.
class Worker {
 public:
  Worker(std::size_t index, WorkerOptions options, transfer::Engine& engine, telemetry::Registry& metrics);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// A connected client. With `tls`, which outlives the worker's thread, it has to shake hands first.
  struct Arrival {
    base::Fd socket;
    ClientOrigin origin;
    const TlsServer* tls;
  };
  /// Counted from now on; it is served from the next hand_over() on, so that many clients wake the worker once.
  void adopt(Arrival arrival);
  void hand_over();
  /// Closes clients as they become idle, all of them after `limit`; `done` is posted to `back` when none is left.
  void drain(base::Duration limit, base::Executor& back, base::Task done);
  /// Gives what it is doing to `done`, which is posted to `back`.
  void report(base::Executor& back, base::UniqueFunction<void(WorkerReport)> done);
  /// Ends the thread and joins it. Clients that are left are dropped.
  void stop();

  std::size_t clients() const { return clients_.load(std::memory_order_relaxed); }
  /// A connection to the server stands. Without one the worker tries again each second, whether or not a client asks.
  bool reaches_server() const { return reaches_server_.load(std::memory_order_relaxed); }
  base::Loop& loop() { return loop_; }

 private:
  class ServerProbe;
  class LoginProbe;

  void start();
  void take(Arrival arrival);
  std::shared_ptr<const std::string> shared_address(std::string address);
  void begin(base::Result<std::unique_ptr<base::Stream>> stream, const ClientOrigin& origin);
  void let_in(std::unique_ptr<base::Stream> stream, const ClientOrigin& origin);
  void tick();
  void show_connections();
  void show_lent();
  void show_clients();
  void sweep(base::TimePoint now);
  using Sessions = std::unordered_map<std::uint64_t, std::shared_ptr<Session>>;
  Sessions::iterator drop(Sessions::iterator session);
  WorkerReport look() const;

  const std::size_t index_;
  const WorkerOptions options_;
  /// Before the loops: sessions that a read or a write under way holds end with them.
  InputBuffer::Spare spare_input_;
  base::Loop loop_;
  /// Of the thread that copies large values into sockets.
  base::Loop copier_;
  WorkerMetrics metrics_;
  const upstream::ConnectOptions connect_;
  upstream::ChannelPool channels_;
  upstream::LendingPool bulk_;
  upstream::LendingPool pinned_short_;
  upstream::LendingPool pinned_long_;
  upstream::LendingPool control_;
  WorkerContext context_;
  std::unique_ptr<ServerProbe> probe_;
  std::shared_ptr<LoginProbe> login_probe_;
  base::Timer timer_;
  Sessions sessions_;
  std::shared_ptr<const std::string> last_address_;
  /// The listeners' thread's alone.
  std::vector<Arrival> arrivals_;
  std::atomic<std::size_t> clients_{0};
  std::atomic<bool> reaches_server_{false};

  base::TimePoint drain_until_{};
  base::Executor* drain_back_ = nullptr;
  base::Task drained_;
  std::thread thread_;
  std::thread copier_thread_;
};

}  // namespace keyferry::gateway
