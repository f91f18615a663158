#include "gateway/worker.h"

#include <malloc.h>
#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/stream.h"
#include "resp/decode.h"
#include "resp/writer.h"
#include "upstream/rdma_tuning.h"

namespace keyferry::gateway {

namespace {

constexpr base::Duration kTick = std::chrono::seconds(1);
// Until the server is reached for the first time, so that a start is not a second longer than it need be.
constexpr base::Duration kStartTick = std::chrono::milliseconds(50);
// While draining clients are looked at more often, so that an idle gateway stops at once.
constexpr base::Duration kDrainTick = std::chrono::milliseconds(20);
// Each is held for one short command.
constexpr std::size_t kControlConnections = 4;

// A worker has little to do that ends fewer commands than this within a tick, and from and to which fewer clients go.
constexpr std::uint64_t kLittle = 100;
// All have had little to do for so long, and once more when what stood idle behind them is closed too (LendingPool).
constexpr base::Duration kRest = std::chrono::seconds(2);
constexpr base::Duration kLongRest = std::chrono::seconds(15);

// malloc is the whole process's, and so is this: when a worker had something to do last, and when memory was given
// back.
std::atomic<base::TimePoint> last_busy{base::TimePoint{}};
std::atomic<base::TimePoint> given_back{base::TimePoint{}};

/// What bursts have left in malloc goes back to the kernel when the gateway rests: twice, by one of the workers, as it
/// takes milliseconds in which others might wait for memory. Called at each tick of a worker; `done` is a number that
/// changes by what it has done.
void give_memory_back(std::uint64_t done, base::TimePoint now) {
  thread_local std::uint64_t before = 0;
  const std::uint64_t was = std::exchange(before, done);
  if (std::max(was, done) - std::min(was, done) >= kLittle) return last_busy.store(now);
  const base::TimePoint busy = last_busy.load();
  base::TimePoint given = given_back.load();
  const bool rests = given < busy && now - busy >= kRest;
  const bool rests_long = given < busy + kLongRest && now - busy >= kLongRest;
  if (!rests && !rests_long) return;
  if (given_back.compare_exchange_strong(given, now)) ::malloc_trim(0);
}

upstream::ConnectOptions for_one_client(upstream::ConnectOptions connect) {
  connect.announce = false;
  return connect;
}

upstream::ByCarrier sum(std::initializer_list<upstream::ByCarrier> counts) {
  upstream::ByCarrier all{};
  for (const upstream::ByCarrier& one : counts) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += one[i];
  }
  return all;
}

}  // namespace

WorkerMetrics::Connections::Connections(telemetry::Shard& shard, const GatewayOptions& options,
                                        std::string_view state) {
  for (std::size_t i = 0; i < upstream::kCarriers; ++i)
    gauges_[i] = &shard.gauge(telemetry::Metric::kUpstreamConnections,
                              {options.node, name_of(static_cast<upstream::Carrier>(i)), state});
}

void WorkerMetrics::Connections::set(const upstream::ByCarrier& count) {
  for (std::size_t i = 0; i < upstream::kCarriers; ++i) gauges_[i]->set(static_cast<double>(count[i]));
}

WorkerMetrics::WorkerMetrics(telemetry::Shard& its_shard, const GatewayOptions& options)
    : shard(its_shard),
      clients(shard.gauge(telemetry::Metric::kClients)),
      oldest_request(shard.gauge(telemetry::Metric::kOldestRequestSeconds)),
      open(shard, options, "open"),
      connecting(shard, options, "connecting"),
      bulk(shard, options, "bulk"),
      pinned(shard, options, "pinned"),
      pinned_idle(shard, options, "pinned_idle"),
      deliver_get(shard.histogram(telemetry::Metric::kTransferStageSeconds, {"get", "deliver"})),
      receive_set(shard.histogram(telemetry::Metric::kTransferStageSeconds, {"set", "deliver"})) {
  for (std::size_t i = 0; i < upstream::kCarriers; ++i) {
    const std::string_view carrier = name_of(static_cast<upstream::Carrier>(i));
    traffic.in[i] = &shard.counter(telemetry::Metric::kBytesTotal, {"in", "server", carrier});
    traffic.out[i] = &shard.counter(telemetry::Metric::kBytesTotal, {"out", "server", carrier});
  }
  for (std::size_t i = 0; i < kCommandClasses; ++i)
    command_seconds[i] = &shard.histogram(telemetry::Metric::kCommandSeconds, {name_of(static_cast<CommandClass>(i))});
  carry_by(options.transport);
}

void WorkerMetrics::carry_by(std::string_view transport) {
  if (transport == carried_by) return;
  carried_by = transport;
  for (std::size_t i = 0; i < kCommandClasses; ++i) {
    const auto command_class = static_cast<CommandClass>(i);
    const std::string_view label = command_class == CommandClass::kLocal ? std::string_view("none") : transport;
    commands[i] = &shard.counter(telemetry::Metric::kCommandsTotal, {name_of(command_class), label});
  }
}

WorkerMetrics::ClientBytes WorkerMetrics::client_bytes(std::string_view transport) {
  for (const ClientBytes& known : clients_by) {
    if (known.transport == transport) return known;
  }
  return clients_by.emplace_back(
      ClientBytes{transport, shard.counter(telemetry::Metric::kBytesTotal, {"in", "client", transport}),
                  shard.counter(telemetry::Metric::kBytesTotal, {"out", "client", transport})});
}

void WorkerMetrics::count_fallback(std::string_view reason) {
  shard.counter(telemetry::Metric::kFallbackTotal, {"rdma", "tcp", reason}).add();
}

void WorkerMetrics::count_transfer(std::string_view op, std::string_view outcome, std::uint64_t bytes) {
  shard.counter(telemetry::Metric::kTransfersTotal, {op, "tcp", outcome}).add();
  if (bytes != 0) shard.counter(telemetry::Metric::kTransferBytesTotal, {op, "tcp"}).add(bytes);
}

/// Asks the server for its version, once at the start and whenever the connection that it asked by is gone, as another
/// server may be there then: so the worker finds the server again by itself.
class Worker::ServerProbe final : public upstream::ReplySink {
 public:
  /// `rdma` may be null.
  ServerProbe(WorkerContext& context, std::shared_ptr<upstream::RdmaRoute> rdma)
      : context_(context), rdma_(std::move(rdma)) {}

  void ask() {
    const bool same = channel_ != nullptr && !channel_->dead() && context_.channels.counts().open != 0;
    if (asking_ || (!context_.server_version.empty() && same)) return;
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
    if (rdma_) heed_version();
    return true;
  }
  void on_reply_lost(std::uint64_t, upstream::Lost, bool, std::string_view) override { asking_ = false; }

 private:
  void heed_version() {
    rdma_->server_is(context_.server_version);
    // A route that has nothing else goes on all the same, but not silently.
    const auto fault = upstream::RdmaRoute::fault_of(context_.server_version);
    if (rdma_->strict() && fault && !fault->empty())
      spdlog::warn("{}, and upstream.require keeps ordinary commands there. Fix: upgrade it, or take that out", *fault);
  }

  WorkerContext& context_;
  std::shared_ptr<upstream::RdmaRoute> rdma_;
  std::shared_ptr<upstream::Channel> channel_;
  std::string reply_;
  bool asking_ = false;
};

namespace {

/// The CPUs of one worker; empty: any.
std::vector<unsigned> cpus_of(const WorkerOptions& options, std::size_t index) {
  return index < options.cpus.size() ? options.cpus[index] : std::vector<unsigned>{};
}

// What a worker adds of its own: its books of bytes, and a completion vector of the RDMA device.
upstream::ConnectOptions for_worker(const WorkerOptions& options, const upstream::Traffic& traffic, std::size_t index) {
  upstream::ConnectOptions connect = options.connect;
  connect.traffic = traffic;
  if (!connect.where) connect.where = std::make_shared<upstream::Whereabouts>();
  if (connect.rdma) {
    unsigned& vector = connect.rdma->settings.completion_vector;
    vector = upstream::completion_vector(vector, index, cpus_of(options, index));
  }
  return connect;
}

void stay_on(const std::vector<unsigned>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned cpu : cpus) CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    spdlog::warn("a worker can't be placed on its CPUs (placement.workers): {}", std::strerror(errno));
}

}  // namespace

/// Finds out whether a password has become necessary since the connections in use were made (requirepass). It asks once
/// a second at most, and only while clients come or the answer was yes, but at once after a command that may have
/// changed it (LoginChanges): who comes behind that command waits for the answer. A configuration with a password has
/// no need of it.
class Worker::LoginProbe final : public std::enable_shared_from_this<LoginProbe> {
 public:
  LoginProbe(WorkerContext& context, upstream::ConnectOptions options)
      : context_(context), options_(std::move(options)) {}

  /// `begin` lets the client in.
  void client_came(base::Task begin) {
    if (!context_.knows_logins()) return when_known(std::move(begin));
    ask_again();
    begin();
  }
  /// `then` runs as soon as it is known whether a client that comes now must log in.
  void when_known(base::Task then) {
    waiting_.push_back({context_.login_changes.number(), std::move(then)});
    if (!asking_) ask();
  }
  void tick() {
    if (context_.login_needed || unsure_) ask_again();
  }

 private:
  struct Waiting {
    std::uint64_t changes;
    base::Task then;
  };

  void ask_again() {
    if (context_.configured_login || asking_ || base::Clock::steady().now() - asked_ < kTick) return;
    ask();
  }

  void ask() {
    asking_ = true;
    asked_ = base::Clock::steady().now();
    upstream::Connection::connect(
        context_.loop, options_, [weak = weak_from_this(), changes = context_.login_changes.number()](auto connection) {
          if (const auto self = weak.lock()) self->answered(connection ? 0 : connection.error().code, changes);
        });
  }

  void answered(int code, std::uint64_t changes) {
    asking_ = false;
    // Who waits is let in when the server can't be asked, too, and hears that from it.
    context_.logins_known = changes;
    heed(code);
    // Of those who wait some may have come behind a change that is newer than the question.
    std::vector<Waiting> newer;
    for (Waiting& one : std::exchange(waiting_, {})) {
      if (one.changes > changes) {
        newer.push_back(std::move(one));
      } else {
        one.then();
      }
    }
    waiting_.insert(waiting_.begin(), std::make_move_iterator(newer.begin()), std::make_move_iterator(newer.end()));
    if (!waiting_.empty() && !asking_) ask();
  }

  void heed(int code) {
    unsure_ = code != 0 && code != upstream::kLoginNeeded;
    if (unsure_) return;
    const bool before = std::exchange(context_.login_needed, code != 0);
    if (before == context_.login_needed) return;
    if (context_.login_needed) {
      spdlog::warn("{}: the server wants a password now and none is configured: clients that come have to log in",
                   options_.address.text());
    } else {
      spdlog::info("{}: the server wants no password any more", options_.address.text());
    }
  }

  WorkerContext& context_;
  const upstream::ConnectOptions options_;
  bool asking_ = false;
  base::TimePoint asked_{};
  /// The last question got no answer.
  bool unsure_ = false;
  std::vector<Waiting> waiting_;
};

Worker::Worker(std::size_t index, WorkerOptions options, transfer::Engine& engine, telemetry::Registry& metrics)
    : index_(index),
      options_(std::move(options)),
      metrics_(metrics.add_shard(), options_.gateway),
      connect_(for_worker(options_, metrics_.traffic, index)),
      channels_(loop_, connect_, options_.connections,
                {[this] { return options_.upstream_share - std::min(options_.upstream_share, bulk_.total()); },
                 [this] { return bulk_.give_way(); }}),
      bulk_(
          loop_, connect_,
          {.most = options_.bulk_connections,
           .limit = "limits.upstream_connections",
           .shared = {[this] { return options_.upstream_share - std::min(options_.upstream_share, channels_.total()); },
                      [this] { return channels_.give_way(); }}}),
      pinned_short_(loop_, for_one_client(connect_),
                    {options_.pinned_short, options_.pin_wait,
                     "connection of a client's own for a transaction or script", "limits.pinned_short"}),
      pinned_long_(loop_, for_one_client(connect_),
                   {options_.pinned_long, options_.pin_wait, "connection of a client's own for what may wait long",
                    "limits.pinned_long"}),
      control_(loop_, for_one_client(connect_),
               {kControlConnections, options_.pin_wait, "connection for a command that ends or wakes others", ""}),
      context_{loop_,
               copier_,
               options_.gateway,
               channels_,
               bulk_,
               pinned_short_,
               pinned_long_,
               control_,
               engine,
               *options_.slow,
               *connect_.where,
               *options_.directory,
               *options_.login_changes,
               metrics_,
               spare_input_,
               {}},
      probe_(std::make_unique<ServerProbe>(context_, connect_.rdma ? connect_.rdma->route : nullptr)),
      login_probe_(std::make_shared<LoginProbe>(context_, connect_)),
      timer_(loop_) {
  context_.configured_login = connect_.credentials || !connect_.password.empty();
  context_.when_logins_known = [this](base::Task then) { login_probe_->when_known(std::move(then)); };
  context_.client_left = [this](std::uint64_t id) {
    loop_.post([this, id] {
      const auto found = sessions_.find(id);
      // One for which something is under way still is left to sweep().
      if (found == sessions_.end() || !found->second->finished()) return;
      drop(found);
      show_clients();
    });
  };
  loop_.post([this] { start(); });
  thread_ = std::thread([this] {
    stay_on(cpus_of(options_, index_));
    loop_.run("kf-worker-" + std::to_string(index_));
  });
  copier_thread_ = std::thread([this] {
    // A CPU that is one worker's alone stays so: the copier would keep it for milliseconds.
    if (const std::vector<unsigned> cpus = cpus_of(options_, index_); cpus.size() > 1) stay_on(cpus);
    copier_.run("kf-copier-" + std::to_string(index_));
  });
}

Worker::~Worker() {
  stop();
}

void Worker::start() {
  if (!context_.configured_login) login_probe_->when_known([] {});
  tick();
}

void Worker::adopt(Arrival arrival) {
  clients_.fetch_add(1, std::memory_order_relaxed);
  arrivals_.push_back(std::move(arrival));
}

void Worker::hand_over() {
  if (arrivals_.empty()) return;
  loop_.post([this, arrivals = std::exchange(arrivals_, {})]() mutable {
    for (Arrival& arrival : arrivals) take(std::move(arrival));
  });
}

void Worker::take(Arrival arrival) {
  ClientOrigin& origin = arrival.origin;
  origin.local_address = shared_address(base::local_address(arrival.socket) + (origin.transport == "unix" ? ":0" : ""));
  if (arrival.tls != nullptr) {
    arrival.tls->accept(loop_, std::move(arrival.socket),
                        [this, origin = std::move(origin)](base::Result<std::unique_ptr<base::Stream>> stream) {
                          begin(std::move(stream), origin);
                        });
    return;
  }
  try {
    begin(base::adopt_socket(loop_, std::move(arrival.socket)), origin);
  } catch (const std::runtime_error& error) {
    begin(base::Error{error.what()}, origin);
  }
}

/// Most clients come to where the one before them came.
std::shared_ptr<const std::string> Worker::shared_address(std::string address) {
  if (!last_address_ || *last_address_ != address)
    last_address_ = std::make_shared<const std::string>(std::move(address));
  return last_address_;
}

void Worker::begin(base::Result<std::unique_ptr<base::Stream>> stream, const ClientOrigin& origin) {
  if (!stream) {
    clients_.fetch_sub(1, std::memory_order_relaxed);
    spdlog::warn("a client was dropped: {}", stream.error().message);
    return;
  }
  login_probe_->client_came(
      [this, stream = std::move(stream.value()), origin]() mutable { let_in(std::move(stream), origin); });
}

void Worker::let_in(std::unique_ptr<base::Stream> stream, const ClientOrigin& origin) {
  auto session = std::make_shared<Session>(context_, std::move(stream), origin);
  sessions_.emplace(origin.id, session);
  metrics_.clients.set(static_cast<double>(sessions_.size()));
  session->start();
}

void Worker::tick() {
  const base::TimePoint now = base::Clock::steady().now();
  probe_->ask();
  login_probe_->tick();
  channels_.tick(now);
  sweep(now);
  show_connections();
  std::uint64_t done = sessions_.size();
  for (const telemetry::Counter* commands : metrics_.commands) done += commands->value();
  give_memory_back(done, now);
  channels_.trim(now);
  for (upstream::LendingPool* pool : {&bulk_, &pinned_short_, &pinned_long_, &control_}) pool->trim(now);
  if (drained_ && sessions_.empty()) {
    drain_back_->post(std::move(drained_));
    drained_.reset();
  }
  base::Duration pause = context_.server_version.empty() ? kStartTick : kTick;
  if (drain_back_ != nullptr) pause = kDrainTick;
  timer_.start(pause, [this] { tick(); });
}

void Worker::show_connections() {
  using upstream::Carrier;
  const auto& rdma = connect_.rdma;
  const Carrier without_rdma = options_.gateway.transport == name_of(Carrier::kTls) ? Carrier::kTls : Carrier::kTcp;
  // What is dialled now goes by this one first.
  const Carrier wanted = rdma && (rdma->route->strict() || rdma->route->well()) ? Carrier::kRdma : without_rdma;
  metrics_.carry_by(name_of(wanted));
  const auto counts = channels_.counts();
  reaches_server_.store(counts.open != 0, std::memory_order_relaxed);
  metrics_.open.set(counts.by_carrier);
  upstream::ByCarrier connecting{};
  connecting[static_cast<std::size_t>(wanted)] = counts.connecting;
  metrics_.connecting.set(connecting);
  show_lent();
}

void Worker::show_lent() {
  metrics_.bulk.set(sum({bulk_.in_use_by_carrier(), bulk_.idle_by_carrier()}));
  metrics_.pinned.set(
      sum({pinned_short_.in_use_by_carrier(), pinned_long_.in_use_by_carrier(), control_.in_use_by_carrier()}));
  metrics_.pinned_idle.set(
      sum({pinned_short_.idle_by_carrier(), pinned_long_.idle_by_carrier(), control_.idle_by_carrier()}));
}

/// Whoever sees that clients have left sees no connection that was theirs.
void Worker::show_clients() {
  show_lent();
  metrics_.clients.set(static_cast<double>(sessions_.size()));
}

void Worker::sweep(base::TimePoint now) {
  base::Duration oldest{};
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    Session& session = *it->second;
    session.tick(now);
    if (drain_back_ != nullptr && (session.idle() || now >= drain_until_)) session.close("the gateway stops");
    if (const auto began = session.oldest_request()) oldest = std::max(oldest, now - *began);
    it = session.finished() ? drop(it) : std::next(it);
  }
  show_clients();
  metrics_.oldest_request.set(base::seconds(oldest));
}

Worker::Sessions::iterator Worker::drop(Sessions::iterator session) {
  clients_.fetch_sub(1, std::memory_order_relaxed);
  return sessions_.erase(session);
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
  copier_.stop();
  copier_thread_.join();
}

}  // namespace keyferry::gateway
