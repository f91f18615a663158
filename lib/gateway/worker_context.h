#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "base/unique_function.h"
#include "gateway/client_directory.h"
#include "gateway/errands.h"
#include "gateway/input_buffer.h"
#include "gateway/kept_loan.h"
#include "gateway/length_table.h"
#include "gateway/login_changes.h"
#include "gateway/offload_state.h"
#include "gateway/reply_slots.h"
#include "gateway/slow_log.h"
#include "telemetry/registry.h"
#include "transfer/engine.h"
#include "upstream/pools.h"
#include "upstream/whereabouts.h"

namespace keyferry::gateway {

/// What a session needs of the configuration. Bytes and durations.
struct GatewayOptions {
  std::uint64_t threshold = 512 * base::kKiB;
  std::uint64_t value_max = 512 * base::kMiB;
  std::uint64_t client_buffer = 64 * base::kMiB;
  /// Of one worker: its share of limits.total_buffer.
  std::uint64_t worker_buffer = base::kGiB;
  base::Duration stall = std::chrono::seconds(30);
  /// 0 = never.
  base::Duration client_idle{};
  /// The node as messages and metrics name it, and what carries ordinary commands ("tcp", "tls") if not RDMA.
  std::string node;
  /// Whom clients act as that have not said (upstream.user).
  std::string user = "default";
  /// They are somebody that a new connection to the server is not by itself: another user, or one with a password.
  bool logs_in = false;
  std::string transport = "tcp";
  /// Keys that begin with one of these keep large values as large objects (transfer.offload).
  std::vector<std::string> offload{};
  /// Reads in flight on a shared channel that is lost are asked once more (upstream.retry_reads).
  bool retry_reads = false;
};

/// One worker's numbers, found once. Written by the worker's thread only.
struct WorkerMetrics {
  WorkerMetrics(telemetry::Shard& shard, const GatewayOptions& options);

  /// What carries ordinary commands from now on: the label of commands_total.
  void carry_by(std::string_view transport);
  /// Bytes between here and the clients that come by this transport ("tcp", "tls", "unix").
  struct ClientBytes {
    std::string_view transport;
    telemetry::Counter& in;
    telemetry::Counter& out;
  };
  ClientBytes client_bytes(std::string_view transport);
  /// Counted rarely, so looked up when needed.
  void count_fallback(std::string_view reason);
  void count_transfer(std::string_view op, std::string_view outcome, std::uint64_t bytes);

  telemetry::Shard& shard;
  telemetry::Gauge& clients;
  telemetry::Gauge& oldest_request;
  telemetry::Counter* commands[kCommandClasses];
  telemetry::Histogram* command_seconds[kCommandClasses];
  /// Bytes between here and the server.
  upstream::Traffic traffic;
  /// Connections to the node by what carries them.
  class Connections {
   public:
    Connections(telemetry::Shard& shard, const GatewayOptions& options, std::string_view state);
    void set(const upstream::ByCarrier& count);

   private:
    telemetry::Gauge* gauges_[upstream::kCarriers];
  };
  /// Shared channels that stand, or are being dialled.
  Connections open, connecting;
  Connections bulk, pinned, pinned_idle;
  std::string carried_by;
  /// Those that have come so far.
  std::vector<ClientBytes> clients_by;
  telemetry::Histogram& deliver_get;
  telemetry::Histogram& receive_set;
};

/// From here on a value is hashed and copied into its socket by the copier: below, handing it over costs more than the
/// worker is kept by it.
inline constexpr std::size_t kCopierFrom = 2 * base::kMiB;

/// What a worker lends to its sessions; all of it belongs to the worker's thread, but for the engine and the copier,
/// which are called by messages.
struct WorkerContext {
  base::Loop& loop;
  /// Hashes large values and copies them into clients' sockets, so that small replies need not wait for that.
  base::Executor& copier;
  const GatewayOptions& options;
  upstream::ChannelPool& channels;
  upstream::LendingPool& bulk;
  /// Connections that clients have for themselves: for what is short (MULTI, scripts), and for what may wait long.
  upstream::LendingPool& pinned_short;
  upstream::LendingPool& pinned_long;
  /// For one command at a time that ends or wakes others (SCRIPT KILL, CLIENT KILL): whoever holds all the others'
  /// connections holds none of these.
  upstream::LendingPool& control;
  transfer::Engine& engine;
  SlowLog& slow;
  /// Of all who connect to the node.
  upstream::Whereabouts& where;
  /// Of all workers' clients, as is what follows.
  ClientDirectory& directory;
  LoginChanges& login_changes;
  WorkerMetrics& metrics;
  /// Of its clients' input buffers.
  InputBuffer::Spare& spare_input;
  /// As HELLO tells it; what the node said last, empty before it was reached.
  std::string server_version;
  /// Connections log in as the configuration says.
  bool configured_login = false;
  /// The server wants a password of whoever connects, and none is configured: clients that come now must log in.
  bool login_needed = false;
  /// LoginChanges::number() as it was before the question that login_needed answers; 0: none was answered yet.
  std::uint64_t logins_known = 0;
  bool knows_logins() const { return configured_login || logins_known == login_changes.number(); }
  /// Runs a task once login_needed is up to date. Never inside the call.
  base::UniqueFunction<void(base::Task)> when_logins_known{};
  /// A client is gone: it is dropped as soon as nothing is under way for it. Never inside the call.
  base::UniqueFunction<void(std::uint64_t id)> client_left{};
  /// Bytes queued for all clients of this worker (limits.total_buffer).
  std::uint64_t buffered = 0;
  /// Of large values that went by last.
  LengthTable lengths{};
  KindHints kind_hints{};
  KeptLoan kept_loan{loop};
  Errands errands{};
};

}  // namespace keyferry::gateway
