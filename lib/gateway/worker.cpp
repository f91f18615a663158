#include "gateway/worker.h"

#include <spdlog/spdlog.h>

#include <future>

#include "base/stream.h"
#include "resp/decode.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

constexpr base::Duration kTick = std::chrono::seconds(1);
// Until the server is reached for the first time, so that a start is not a second longer than it need be.
constexpr base::Duration kStartTick = std::chrono::milliseconds(50);
// While draining clients are looked at more often, so that an idle gateway stops at once.
constexpr base::Duration kDrainTick = std::chrono::milliseconds(20);

upstream::ConnectOptions for_one_client(upstream::ConnectOptions connect) {
  connect.announce = false;
  return connect;
}

}  // namespace

WorkerMetrics::WorkerMetrics(telemetry::Shard& its_shard, const GatewayOptions& options)
    : shard(its_shard),
      clients(shard.gauge(telemetry::Metric::kClients)),
      oldest_request(shard.gauge(telemetry::Metric::kOldestRequestSeconds)),
      server_in(shard.counter(telemetry::Metric::kBytesTotal, {"in", "server", options.transport})),
      server_out(shard.counter(telemetry::Metric::kBytesTotal, {"out", "server", options.transport})),
      deliver_get(shard.histogram(telemetry::Metric::kTransferStageSeconds, {"get", "deliver"})),
      receive_set(shard.histogram(telemetry::Metric::kTransferStageSeconds, {"set", "deliver"})) {
  for (std::size_t i = 0; i < kCommandClasses; ++i) {
    const auto command_class = static_cast<CommandClass>(i);
    const std::string_view transport =
        command_class == CommandClass::kLocal ? "none" : std::string_view(options.transport);
    commands[i] = &shard.counter(telemetry::Metric::kCommandsTotal, {name_of(command_class), transport});
    command_seconds[i] = &shard.histogram(telemetry::Metric::kCommandSeconds, {name_of(command_class)});
  }
}

void WorkerMetrics::count_fallback(std::string_view reason) {
  shard.counter(telemetry::Metric::kFallbackTotal, {"rdma", "tcp", reason}).add();
}

void WorkerMetrics::count_transfer(std::string_view op, std::string_view outcome, std::uint64_t bytes) {
  shard.counter(telemetry::Metric::kTransfersTotal, {op, "tcp", outcome}).add();
  if (bytes != 0) shard.counter(telemetry::Metric::kTransferBytesTotal, {op, "tcp"}).add(bytes);
}

/// Asks the server for its version, which HELLO's reply tells, once at the start and whenever no connection stands: so
/// the worker finds the server again by itself.
class Worker::ServerProbe final : public upstream::ReplySink {
 public:
  explicit ServerProbe(WorkerContext& context) : context_(context) {}

  void ask() {
    if (asking_ || (!context_.server_version.empty() && context_.channels.counts().open != 0)) return;
    asking_ = true;
    reply_.clear();
    std::string command;
    resp::append_command(command, {"INFO", "server"});
    channel_ = context_.channels.pick(resp::Protocol::kResp2);
    channel_->send(command, *this, 0);
  }

  bool on_reply(std::uint64_t, std::string_view bytes, bool last) override {
    reply_.append(bytes);
    if (!last) return true;
    asking_ = false;
    const resp::DecodeResult info = resp::decode(reply_);
    // A server that will not tell (an ACL, say) is not asked again and again.
    context_.server_version = "unknown";
    for (const std::string_view name : {"valkey_version:", "redis_version:"}) {
      const std::size_t at = info.value.text.find(name);
      if (at == std::string::npos) continue;
      const std::size_t begin = at + name.size();
      context_.server_version = info.value.text.substr(begin, info.value.text.find_first_of("\r\n", begin) - begin);
      break;
    }
    return true;
  }
  void on_reply_lost(std::uint64_t, upstream::Lost, bool, std::string_view) override { asking_ = false; }

 private:
  WorkerContext& context_;
  std::shared_ptr<upstream::Channel> channel_;
  std::string reply_;
  bool asking_ = false;
};

Worker::Worker(std::size_t index, WorkerOptions options, transfer::Engine& engine, telemetry::Registry& metrics)
    : index_(index),
      options_(std::move(options)),
      metrics_(metrics.add_shard(), options_.gateway),
      channels_(loop_, options_.connect, options_.connections),
      bulk_(loop_, options_.connect, options_.bulk_connections),
      pinned_short_(loop_, for_one_client(options_.connect),
                    {options_.pinned_short, options_.pin_wait,
                     "connection of a client's own for a transaction or script", "limits.pinned_short"}),
      pinned_long_(loop_, for_one_client(options_.connect),
                   {options_.pinned_long, options_.pin_wait, "connection of a client's own for what may wait long",
                    "limits.pinned_long"}),
      context_{loop_,        options_.gateway, channels_,           bulk_,    pinned_short_,
               pinned_long_, engine,           *options_.directory, metrics_, {}},
      probe_(std::make_unique<ServerProbe>(context_)),
      timer_(loop_),
      connections_open_(metrics_.shard.gauge(telemetry::Metric::kUpstreamConnections,
                                             {options_.gateway.node, options_.gateway.transport, "open"})),
      connections_connecting_(metrics_.shard.gauge(telemetry::Metric::kUpstreamConnections,
                                                   {options_.gateway.node, options_.gateway.transport, "connecting"})),
      connections_bulk_(metrics_.shard.gauge(telemetry::Metric::kUpstreamConnections,
                                             {options_.gateway.node, options_.gateway.transport, "bulk"})),
      connections_pinned_(metrics_.shard.gauge(telemetry::Metric::kUpstreamConnections,
                                               {options_.gateway.node, options_.gateway.transport, "pinned"})),
      connections_pinned_idle_(
          metrics_.shard.gauge(telemetry::Metric::kUpstreamConnections,
                               {options_.gateway.node, options_.gateway.transport, "pinned_idle"})) {
  loop_.post([this] { start(); });
  thread_ = std::thread([this] { loop_.run("kf-worker-" + std::to_string(index_)); });
}

Worker::~Worker() {
  stop();
}

void Worker::start() {
  tick();
}

void Worker::adopt(base::Fd socket, ClientOrigin origin, const TlsServer* tls) {
  clients_.fetch_add(1, std::memory_order_relaxed);
  loop_.post([this, socket = std::move(socket), origin, tls]() mutable {
    if (tls != nullptr) {
      tls->accept(loop_, std::move(socket), [this, origin](base::Result<std::unique_ptr<base::Stream>> stream) {
        begin(std::move(stream), origin);
      });
      return;
    }
    try {
      begin(base::adopt_socket(loop_, std::move(socket)), origin);
    } catch (const std::runtime_error& error) {
      begin(base::Error{error.what()}, origin);
    }
  });
}

void Worker::begin(base::Result<std::unique_ptr<base::Stream>> stream, const ClientOrigin& origin) {
  if (!stream) {
    clients_.fetch_sub(1, std::memory_order_relaxed);
    spdlog::warn("a client was dropped: {}", stream.error().message);
    return;
  }
  auto session = std::make_shared<Session>(context_, std::move(stream.value()), origin);
  sessions_.emplace(origin.id, session);
  metrics_.clients.set(static_cast<double>(sessions_.size()));
  session->start();
}

void Worker::tick() {
  const base::TimePoint now = base::Clock::steady().now();
  probe_->ask();
  sweep(now);
  const auto counts = channels_.counts();
  reaches_server_.store(counts.open != 0, std::memory_order_relaxed);
  connections_open_.set(static_cast<double>(counts.open + counts.retired));
  connections_connecting_.set(static_cast<double>(counts.connecting));
  connections_bulk_.set(static_cast<double>(bulk_.in_use() + bulk_.idle()));
  channels_.trim(now);
  for (upstream::LendingPool* pool : {&pinned_short_, &pinned_long_}) pool->trim(now);
  connections_pinned_.set(static_cast<double>(pinned_short_.in_use() + pinned_long_.in_use()));
  connections_pinned_idle_.set(static_cast<double>(pinned_short_.idle() + pinned_long_.idle()));
  if (drained_ && sessions_.empty()) {
    drain_back_->post(std::move(drained_));
    drained_.reset();
  }
  base::Duration pause = context_.server_version.empty() ? kStartTick : kTick;
  if (drain_back_ != nullptr) pause = kDrainTick;
  timer_.start(pause, [this] { tick(); });
}

void Worker::sweep(base::TimePoint now) {
  base::Duration oldest{};
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    Session& session = *it->second;
    session.tick(now);
    if (drain_back_ != nullptr && (session.idle() || now >= drain_until_)) session.close("the gateway stops");
    if (const auto began = session.oldest_request()) oldest = std::max(oldest, now - *began);
    if (session.finished()) {
      it = sessions_.erase(it);
      clients_.fetch_sub(1, std::memory_order_relaxed);
    } else {
      ++it;
    }
  }
  metrics_.clients.set(static_cast<double>(sessions_.size()));
  metrics_.oldest_request.set(base::seconds(oldest));
}

void Worker::drain(base::Duration limit, base::Executor& back, base::Task done) {
  loop_.post([this, limit, &back, done = std::move(done)]() mutable {
    drain_until_ = base::Clock::steady().now() + limit;
    drain_back_ = &back;
    drained_ = std::move(done);
    tick();
  });
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
}

}  // namespace keyferry::gateway
