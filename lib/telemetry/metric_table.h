#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// THE table of metrics: the enumeration, the exposition, the README's list and the tests come from it. A metric stands
// here only if the program feeds it. Names follow R122: base units, _total on counters only, no keys and no client
// addresses as label values. X(enumerator, type, name without the prefix, help, labels in the order in which Shard's
// functions take their values...)
#define KEYFERRY_METRICS(X)                                                                                            \
  X(kBuildInfo, kGauge, "build_info", "Always 1; the labels say what runs.", "version")                                \
  X(kTransportInfo, kGauge, "transport_info",                                                                          \
    "1 for the transport in use to a node: what was wanted, what it is, and why they differ.", "node", "want", "have", \
    "reason")                                                                                                          \
  X(kClients, kGauge, "clients", "Local clients connected now.")                                                       \
  X(kClientsRefusedTotal, kCounter, "clients_refused_total",                                                           \
    "Connections that were closed as they came: limits.clients (clients), or a user that may not (peer).", "reason")   \
  X(kCommandsTotal, kCounter, "commands_total", "Commands of local clients that were answered.", "class", "transport") \
  X(kCommandSeconds, kHistogram, "command_seconds",                                                                    \
    "Time from a command's last byte to its reply's last byte, both here.", "class")                                   \
  X(kUpstreamConnections, kGauge, "upstream_connections", "Connections to a node by state.", "node", "transport",      \
    "state")                                                                                                           \
  X(kReadRetriesTotal, kCounter, "read_retries_total",                                                                 \
    "Reads that were asked once more because their connection was lost (upstream.retry_reads).")                       \
  X(kUpstreamMovesTotal, kCounter, "upstream_moves_total",                                                             \
    "Times that connections were made anew as theirs might lead to the wrong server: one said READONLY (readonly), "   \
    "or sentinels named another primary (sentinel).",                                                                  \
    "reason")                                                                                                          \
  X(kBytesTotal, kCounter, "bytes_total",                                                                              \
    "Payload bytes of connections: in or out, on the client's or the server's side.", "direction", "side",             \
    "transport")                                                                                                       \
  X(kTransfersTotal, kCounter, "transfers_total", "Large values moved, by operation, path (rdma or tcp) and outcome.", \
    "op", "path", "outcome")                                                                                           \
  X(kFlightsJoinedTotal, kCounter, "flights_joined_total",                                                             \
    "GETs that were served by a transfer another GET had begun: it still waited, or was written to a lane.", "flight") \
  X(kTransferBytesTotal, kCounter, "transfer_bytes_total", "Bytes of large values moved to their end.", "op", "path")  \
  X(kTransferStageSeconds, kHistogram, "transfer_stage_seconds",                                                       \
    "Time a large value spent in one stage: queue, lease, post, wire, verify or deliver.", "op", "stage")              \
  X(kLanes, kGauge, "lanes", "Lanes (connection, session and endpoint of one transfer at a time) by state.", "node",   \
    "state")                                                                                                           \
  X(kPoolBytes, kGauge, "pool_bytes", "Bytes of the pool by state.", "state")                                          \
  X(kRegions, kGauge, "regions", "Regions of the pool by state.", "state")                                             \
  X(kRegistrationSeconds, kHistogram, "registration_seconds", "Time to register one region with the fabric.")          \
  X(kRegisteredBytes, kGauge, "registered_bytes",                                                                      \
    "Bytes registered with the fabric; a device has a ceiling for them.", "device")                                    \
  X(kFencesTotal, kCounter, "fences_total", "Transfers cut off because they ended without a reply, by reason.",        \
    "reason")                                                                                                          \
  X(kChecksumMismatchTotal, kCounter, "checksum_mismatch_total",                                                       \
    "Values whose length or CRC-32C was wrong and were not used.", "op")                                               \
  X(kFabricEndpoints, kGauge, "fabric_endpoints", "Fabric endpoints open now.", "device")                              \
  X(kFabricAddresses, kGauge, "fabric_addresses", "Peers' addresses in the endpoints' address books.", "device")       \
  X(kFabricCloseFailuresTotal, kCounter, "fabric_close_failures_total",                                                \
    "Endpoints and registrations that could not be closed: what was lent through them is lost.", "device")             \
  X(kFabricQueueErrorsTotal, kCounter, "fabric_queue_errors_total",                                                    \
    "Errors read from a completion queue, and failures to read it.", "device")                                         \
  X(kOldestRequestSeconds, kGaugeMax, "oldest_request_seconds", "Age of the oldest request that has no reply yet.")    \
  X(kFallbackTotal, kCounter, "fallback_total", "Uses of less than what was wanted, by reason.", "from", "to",         \
    "reason")                                                                                                          \
  X(kLoopStallSeconds, kGauge, "loop_stall_seconds",                                                                   \
    "Time that a thread's loop took, or takes by now, to answer the admin thread.", "thread")

namespace keyferry::telemetry {

#define KEYFERRY_METRIC_ENUMERATOR(id, ...) id,
enum class Metric : std::uint8_t { KEYFERRY_METRICS(KEYFERRY_METRIC_ENUMERATOR) };
#undef KEYFERRY_METRIC_ENUMERATOR

/// kGaugeMax is a gauge to Prometheus too; of several shards' values the largest is shown, where those of kGauge are
/// summed.
enum class MetricKind : std::uint8_t { kCounter, kGauge, kGaugeMax, kHistogram };

/// One line of the table. `name` is whole, with the prefix.
struct MetricInfo {
  static constexpr std::size_t kMaxLabels = 4;

  Metric metric;
  MetricKind kind;
  std::string_view name;
  std::string_view help;
  std::array<std::string_view, kMaxLabels> labels;

  constexpr std::size_t label_count() const {
    std::size_t count = 0;
    while (count < kMaxLabels && !labels[count].empty()) ++count;
    return count;
  }
};

#define KEYFERRY_METRIC_INFO(id, kind, name, help, ...) \
  MetricInfo{Metric::id, MetricKind::kind, "keyferry_" name, help, {__VA_ARGS__}},
inline constexpr std::array kMetricTable{KEYFERRY_METRICS(KEYFERRY_METRIC_INFO)};
#undef KEYFERRY_METRIC_INFO

constexpr const MetricInfo& metric_info(Metric metric) {
  return kMetricTable[static_cast<std::size_t>(metric)];
}

/// Upper bounds in seconds of every histogram's buckets, 1-2-5 from 10 microseconds to 100 seconds; one more bucket has
/// no bound.
inline constexpr std::array kHistogramBounds{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2,
                                             5e-2, 0.1,  0.2,  0.5,  1.0,  2.0,  5.0,  10.0, 20.0, 50.0, 100.0};

}  // namespace keyferry::telemetry
