#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "gateway/listener.h"
#include "gateway/worker.h"

namespace keyferry::gateway {

/// The side of the daemon that local clients see: workers and listeners. Constructed, drained and destroyed by the main
/// thread; listeners run on the first worker's thread and give each client to the worker that has the fewest (R43).
class Gateway {
 public:
  /// Throws std::runtime_error if a listener can't be opened. `workers` >= 1, `most_clients` is limits.clients.
  Gateway(std::size_t workers, const WorkerOptions& options, std::size_t most_clients, transfer::Engine& engine,
          telemetry::Registry& metrics);
  ~Gateway();

  /// Throws std::runtime_error if one can't be opened, or its TLS files can't be loaded.
  void listen(const std::vector<ListenOptions>& listeners);
  /// Loads the listeners' TLS files again where they have changed (R57); for the main thread, now and then.
  void refresh_tls();
  /// Stops listening, lets clients finish, closes those that are left after `limit`; `done` is posted to `back`.
  void drain(base::Duration limit, base::Executor& back, base::Task done);
  std::size_t clients() const;
  /// What each worker is doing, in their order; `done` is posted to `back`.
  void report(base::Executor& back, base::UniqueFunction<void(std::vector<WorkerReport>)> done);
  /// Ends the local client of that id of the gateway's, as CLIENT KILL does. `done` is posted to `back` when it has
  /// ended. False, and no call: there is none.
  bool kill(std::uint64_t id, base::Executor& back, base::Task done);
  const std::vector<std::unique_ptr<Worker>>& workers() const { return workers_; }

 private:
  void hand_over_later();
  void place(base::Fd socket, ClientOrigin origin, const TlsServer* tls);
  void turn_away(base::Fd socket, std::string_view reason, std::string_view text, const TlsServer* tls);

  const std::size_t most_clients_;
  const std::shared_ptr<ClientDirectory> directory_;
  /// Written by the first worker's thread.
  telemetry::Shard& shard_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<TlsServer>> tls_servers_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  /// hand_over_later() has been called, and the end of that turn of the loop has not come.
  bool handing_over_ = false;
  /// Only the first worker's thread counts.
  std::uint64_t next_id_ = 1;
};

}  // namespace keyferry::gateway
