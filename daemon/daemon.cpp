#include "daemon/daemon.h"

#include <boost/asio.hpp>
#include <netdb.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "daemon/config_cpus.h"
#include "daemon/config_ids.h"
#include "daemon/gateway_json.h"
#include "daemon/library_options.h"
#include "daemon/network_way.h"
#include "daemon/placement.h"
#include "fabric/open.h"
#include "upstream/rdma_tuning.h"

namespace keyferry::daemon {

namespace {

using telemetry::Metric;

constexpr base::Duration kWatch = std::chrono::seconds(1);

/// Empty if the configured identity has none.
std::vector<std::unique_ptr<PasswordSource>> upstream_password(base::Loop& loop, const UpstreamOptions& options) {
  std::vector<std::unique_ptr<PasswordSource>> list;
  if (!options.password_command.empty()) {
    list.push_back(std::make_unique<PasswordSource>(
        loop,
        PasswordSource::Options{"upstream.password_command", "", options.password_command, options.password_refresh}));
  } else if (!options.password_file.empty()) {
    list.push_back(std::make_unique<PasswordSource>(
        loop, PasswordSource::Options{"upstream.password_file", options.password_file, {}, {}}));
  }
  return list;
}

std::shared_ptr<upstream::RdmaRoute> make_route(const Options& options) {
  if (!uses_rdma(options)) return nullptr;
  upstream::RdmaTuning& tuning = upstream::rdma_tuning();
  tuning.queue = static_cast<std::uint32_t>(options.upstream.rdma_queue);
  tuning.spin = std::chrono::microseconds(options.upstream.rdma_spin_us);
  tuning.connect_timeout = options.upstream.rdma_connect;
  return std::make_shared<upstream::RdmaRoute>(options.upstream.transport == Transport::kRdma &&
                                               options.upstream.require);
}

/// upstream.require: the start fails rather than using less than RDMA. Throws with the cause.
void check_required(const upstream::ConnectOptions& connect) {
  if (!connect.rdma || !connect.rdma->route->strict()) return;
  base::Loop loop;
  std::string failure;
  upstream::Connection::connect(loop, connect, [&](base::Result<std::unique_ptr<upstream::Connection>> result) {
    if (!result) failure = result.error().message;
    loop.stop();
  });
  loop.run("keyferryd");
  if (!failure.empty())
    throw std::runtime_error("upstream.transport is rdma and upstream.require is true, but " + failure +
                             ". Fix: that, or take upstream.require out");
}

/// The address family that the server's name gives now; AF_INET if it gives none (blob-rdma spec C3).
int family_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return AF_INET;
  const int family = found->ai_family;
  ::freeaddrinfo(found);
  return family;
}

/// What placement.workers comes to, said in the log. The NIC is the fabric's, else the one towards the server.
std::vector<std::vector<unsigned>> placed_cpus(const Options& options, const fabric::Fabric* fabric) {
  std::vector<std::string> nics;
  if (fabric != nullptr) {
    // efa names a domain after its device and the kind of endpoint.
    std::string name = fabric->traits().domain;
    nics.push_back(name.ends_with("-rdm") ? name.substr(0, name.size() - 4) : name);
  }
  if (options.placement.workers == "auto") nics.push_back(way_to(way_address(options)).interface);
  Placement placed = place_workers(options, nics, cpus_allowed());
  spdlog::info("{}", placed.text);
  return std::move(placed.workers);
}

/// A switch of the tests (tests/support/README.md), so it is no option of the configuration.
bool audit_wanted() {
  const char* value = std::getenv("KEYFERRY_AUDIT_POOL");
  if (value == nullptr || std::string_view(value) != "1") return false;
  spdlog::warn(
      "KEYFERRY_AUDIT_POOL is set: every byte of the pool is checked whenever its owner changes, which is slow");
  return true;
}

/// Another one: a provider that works like efa-direct where there is none (tests/rdma_lab/README.md).
std::string provider_of(const FabricOptions& options) {
  const char* value = std::getenv("KEYFERRY_FABRIC_VERBS");
  if (value == nullptr || std::string_view(value) != "1") return options.provider;
  spdlog::warn(
      "KEYFERRY_FABRIC_VERBS is set: fabric.provider is not looked at, only a test's server speaks verbs;ofi_rxm");
  return "verbs";
}

std::string_view wanted_name(Transport transport) {
  switch (transport) {
    case Transport::kAuto:
      return "auto";
    case Transport::kRdma:
      return "rdma";
    case Transport::kTls:
      return "tls";
    case Transport::kTcp:
      return "tcp";
  }
  return "auto";
}

/// Loading libfabric installs handlers of its own (its shm provider) for the signals of a crash too: the kernel's log
/// then has no line of it and says nothing of where. Puts back what was there, a sanitizer's handlers included.
class CrashSignals {
 public:
  CrashSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &before_[i]);
  }
  ~CrashSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  CrashSignals(const CrashSignals&) = delete;
  CrashSignals& operator=(const CrashSignals&) = delete;

 private:
  static constexpr std::array kSignals{SIGILL, SIGABRT, SIGBUS, SIGSEGV, SIGFPE};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace

struct Daemon::Signals {
  explicit Signals(boost::asio::io_context& context) : set(context, SIGTERM, SIGINT, SIGHUP) {}
  boost::asio::signal_set set;
};

Daemon::Daemon(const Options& options)
    : options_(options),
      shard_(metrics_.add_shard()),
      passwords_(upstream_password(loop_, options.upstream)),
      memory_(memory::PoolMemory::create(pool_options(options.pool))),
      rdma_(make_route(options)),
      slow_(std::make_shared<gateway::SlowLog>(options.admin.slow, options.admin.slow_kept)),
      watch_timer_(loop_) {
  spdlog::info("keyferryd {}: pool of {} MiB in regions of {} KiB, {}", KEYFERRY_VERSION,
               memory_.bytes().size() / base::kMiB, memory_.region_bytes() / base::kKiB, memory_.page_kind());
  for (const std::string& note : memory_.notes()) spdlog::warn("{}", note);
  shard_.gauge(Metric::kBuildInfo, {KEYFERRY_VERSION}).set(1);
  open_fabric();
  // After the fabric: loading libfabric installs handlers of its own for these signals (its shm provider), which end
  // the process at once.
  signals_ = std::make_unique<Signals>(loop_.context());
  transfer::EngineOptions engine;
  where_ = make_whereabouts();
  engine.connect = connect_options(options_, own_credentials(), where_);
  engine.lanes = options_.transfer.lanes;
  engine.warm = options_.transfer.warm;
  engine.min_rate = options_.transfer.min_rate;
  engine.orphan_grace = options_.transfer.orphan_grace;
  engine.trust_error_replies = options_.transfer.trust_error_replies;
  engine.immutable = options_.transfer.immutable;
  engine.pool_wait = options_.limits.pool_wait;
  engine.upstream_wait = options_.limits.upstream_wait;
  engine.audit_pool = audit_wanted();
  std::vector<fabric::Fabric*> fabrics;
  if (fabric_ != nullptr) fabrics.push_back(fabric_.get());
  engine_ = std::make_unique<transfer::Engine>(engine_loop_, engine, fabrics, no_fabric_reason_, memory_, metrics_);
  const upstream::ConnectOptions ordinary = ordinary_options(options_, own_credentials(), where_, rdma_);
  check_required(ordinary);
  const std::size_t workers = worker_count(options_);
  gateway::WorkerOptions worker = worker_options(options_, ordinary, workers);
  worker.cpus = placed_cpus(options_, fabric_.get());
  worker.slow = slow_;
  gateway_ = std::make_unique<gateway::Gateway>(workers, worker, options_.limits.clients, *engine_, metrics_);
}

Daemon::~Daemon() {
  // First the thread that posts to the workers' loops, then these; what they post to the engine's loop is not run.
  if (engine_thread_.joinable()) {
    engine_loop_.stop();
    engine_thread_.join();
  }
  gateway_.reset();
  engine_.reset();
}

std::shared_ptr<upstream::Whereabouts> Daemon::make_whereabouts() {
  if (!uses_sentinels(options_)) return std::make_shared<upstream::Whereabouts>();
  std::shared_ptr<const upstream::Credentials> credentials;
  if (const std::string& file = options_.upstream.sentinel_password_file; !file.empty())
    credentials = add_password("upstream.sentinel_password_file", file)->credentials();
  return std::make_shared<upstream::Whereabouts>(sentinel_options(options_, std::move(credentials)));
}

/// The configured identity's, which is the first; null if it has none.
std::shared_ptr<const upstream::Credentials> Daemon::own_credentials() const {
  const UpstreamOptions& upstream = options_.upstream;
  if (upstream.password_file.empty() && upstream.password_command.empty()) return nullptr;
  return passwords_.front()->credentials();
}

const PasswordSource* Daemon::add_password(const std::string& option, const std::string& file) {
  passwords_.push_back(std::make_unique<PasswordSource>(loop_, PasswordSource::Options{option, file, {}, {}}));
  return passwords_.back().get();
}

/// `name`: of its item, for messages.
gateway::ListenOptions Daemon::listener_of(const ListenOptions& options, const std::string& name) {
  gateway::ListenOptions listener;
  listener.host = options.tcp.host;
  listener.port = options.tcp.port;
  listener.path = options.unix_path;
  listener.mode = options.mode;
  listener.keepalive = options_.limits.client_keepalive;
  listener.dedicated = options.upstream == ListenUpstream::kDedicated;
  if (options.tls) listener.tls = gateway::TlsServerFiles{options.tls->cert, options.tls->key, options.tls->ca};
  gateway::ListenerRules& rules = listener.rules;
  rules.require_auth = options.require_auth;
  // Names that were there when the configuration was checked.
  for (const std::string& one : options.allow_uids) rules.allow_uids.push_back(uid_of(one).value_or(UINT32_MAX));
  for (const std::string& one : options.allow_gids) rules.allow_gids.push_back(gid_of(one).value_or(UINT32_MAX));
  if (!options.user.empty()) {
    rules.user =
        gateway::MappedUser{options.user, add_password(name + ".password_file", options.password_file)->credentials()};
  }
  for (const std::string& one : options.user_by_uid) {
    const UserByUid mapped = parse_user_by_uid(one).value_or(UserByUid{UINT32_MAX, {}, {}});
    rules.users_by_uid.emplace_back(
        mapped.uid,
        gateway::MappedUser{mapped.user, add_password(name + ".user_by_uid", mapped.password_file)->credentials()});
  }
  for (std::string one : options.deny_commands) {
    std::transform(one.begin(), one.end(), one.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    rules.deny_commands.push_back(std::move(one));
  }
  rules.protocol = static_cast<resp::Protocol>(options.protocol);
  return listener;
}

void Daemon::open_fabric() {
  if (options_.fabric.provider == "off") {
    no_fabric_reason_ = "off";
    no_fabric_text_ = "fabric.provider is off";
    return;
  }
  fabric::FabricOptions fabric;
  fabric.provider = provider_of(options_.fabric);
  fabric.interfaces = options_.fabric.interfaces;
  fabric.bind = options_.fabric.bind;
  fabric.library = options_.fabric.library;
  fabric.family = family_of(way_address(options_).host);
  const CrashSignals kept;
  try {
    fabric_ = fabric::open_fabric(fabric);
    const fabric::Traits& traits = fabric_->traits();
    spdlog::info("fabric: {} on {}, {}", traits.provider, traits.domain, traits.library);
  } catch (const std::exception& error) {
    // Only "auto" leaves the choice to us, and upstream.require takes it back: nothing falls back silently (promise 7).
    if (options_.fabric.provider != "auto" || options_.upstream.require) throw;
    no_fabric_reason_ = "no_fabric";
    no_fabric_text_ = error.what();
    spdlog::warn("no fabric, large values travel as BLOB.TCP_*: {}", no_fabric_text_);
  }
}

void Daemon::run() {
  start_admin();
  start_engine();
  std::vector<gateway::ListenOptions> listeners;
  for (const ListenOptions& one : options_.listen) {
    listeners.push_back(listener_of(one, "listen[" + std::to_string(listeners.size()) + "]"));
    spdlog::info("listening on {}{}", one.unix_path.empty() ? one.tcp.text() : one.unix_path, one.tls ? " (TLS)" : "");
  }
  gateway_->listen(listeners);
  wait_for_signal();
  watch_loops();
  loop_.run("keyferryd");
}

void Daemon::start_engine() {
  engine_thread_ = std::thread([this] { engine_loop_.run("kf-engine"); });
  engine_->start(loop_, [this] {
    engine_ready_ = true;
    describe_transports();
    spdlog::info("ready");
    ::sd_notify(0, "READY=1\nSTATUS=serving");
  });
}

void Daemon::start_admin() {
  if (!options_.admin.http) return;
  telemetry::AdminHandlers handlers;
  handlers.metrics = [this] { return scrape(); };
  handlers.ready = [this] { return ready(); };
  handlers.healthy = [] { return telemetry::Health{true, {}}; };
  handlers.status_json = [this](telemetry::AdminHandlers::StatusDone done) { status(std::move(done)); };
  using Done = telemetry::AdminHandlers::StatusDone;
  handlers.reports["/clients.json"] = [this](Rows rows, Done done) {
    gather([done = std::move(done), rows](const WorkerReports& all) mutable { done(clients_json(all, rows)); });
  };
  handlers.reports["/channels.json"] = [this](Rows rows, Done done) {
    engine_->status(loop_, [this, done = std::move(done), rows](std::string engine) mutable {
      gather([this, done = std::move(done), rows, engine = std::move(engine)](const WorkerReports& all) mutable {
        done(channels_json(all, engine, options_.upstream.user, rows));
      });
    });
  };
  handlers.reports["/slow.json"] = [this](Rows, Done done) { done(slow_json(slow_->latest())); };
  if (options_.admin.kill) {
    handlers.kill = [this](std::uint64_t id, telemetry::AdminHandlers::KillDone done) {
      const auto call = std::make_shared<telemetry::AdminHandlers::KillDone>(std::move(done));
      if (gateway_->kill(id, loop_, [call] { (*call)(true); })) {
        spdlog::info("client {} was ended by keyferry kill", id);
      } else {
        (*call)(false);
      }
    };
  }
  auto server =
      telemetry::AdminServer::start(loop_, options_.admin.http->host, options_.admin.http->port, std::move(handlers));
  if (!server) {
    spdlog::error("no admin pages: {}", server.error().message);
    return;
  }
  admin_ = std::move(*server);
}

/// All workers are asked once at a time; who asks meanwhile shares the next time. One that never answers keeps no more
/// waiting than the admin listener has connections.
void Daemon::gather(base::UniqueFunction<void(const WorkerReports&)> use) {
  constexpr std::size_t kMostWaiting = 64;
  if (gather_for_.size() >= kMostWaiting)
    return spdlog::warn(
        "a request for clients or channels is not answered: {} others wait already. Fix: ask less often", kMostWaiting);
  gather_for_.push_back(std::move(use));
  if (!gathering_) start_gathering();
}

void Daemon::start_gathering() {
  gathering_ = true;
  gateway_->report(loop_, [this, uses = std::exchange(gather_for_, {})](const WorkerReports& all) mutable {
    for (auto& use : uses) use(all);
    gathering_ = false;
    if (!gather_for_.empty()) start_gathering();
  });
}

telemetry::Health Daemon::ready() const {
  if (stopping_) return {false, "stopping"};
  if (!engine_ready_) return {false, "the pool's first region is not registered yet, or the warm lanes are not up"};
  for (const auto& worker : gateway_->workers()) {
    if (!worker->reaches_server())
      return {false, "no connection to " + node_address(options_).text() + ", trying again"};
  }
  return {true, {}};
}

std::string_view Daemon::ordinary_transport() const {
  if (rdma_ != nullptr && (rdma_->strict() || rdma_->well())) return "rdma";
  return uses_tls(options_) ? "tls" : "tcp";
}

/// Ordinary commands: shown as it is, told in the log when RDMA goes and when it comes back.
void Daemon::describe_ordinary() {
  std::string reason = "configured";
  if (rdma_ != nullptr) {
    const upstream::RdmaRoute::State state = rdma_->state();
    // A strict route has nothing else, so who reaches the server does so by RDMA, whatever an older dial ended with.
    const bool reached = rdma_->strict() && std::ranges::all_of(gateway_->workers(), [](const auto& worker) {
                           return worker->reaches_server();
                         });
    if (!state.well && !reached) reason = state.reason;
    shard_
        .counter(Metric::kFallbackTotal,
                 {"ordinary-rdma", uses_tls(options_) ? "ordinary-tls" : "ordinary-tcp", "unreachable"})
        .add(state.falls - rdma_falls_);
    rdma_falls_ = state.falls;
  }
  if (reason == ordinary_reason_) return;
  const std::string_view have = ordinary_transport();
  const bool worked = ordinary_reason_.empty() || ordinary_reason_ == "configured";
  if (reason != "configured" && worked) {
    // Where it was left to us and there never was any, nothing is wrong.
    const bool missed = options_.upstream.transport == Transport::kRdma || !ordinary_reason_.empty();
    spdlog::log(missed ? spdlog::level::warn : spdlog::level::info, "ordinary commands {} rdma: {}",
                rdma_->strict() ? "need" : "travel without", reason);
  } else if (reason == "configured" && !worked) {
    spdlog::info("ordinary commands travel by {}", have);
  }
  ordinary_reason_ = reason;
  if (ordinary_info_ != nullptr) ordinary_info_->set(0);
  ordinary_info_ = &shard_.gauge(
      Metric::kTransportInfo, {node_address(options_).text(), wanted_name(options_.upstream.transport), have, reason});
  ordinary_info_->set(1);
}

/// What is wanted, what is used and why they differ, for ordinary commands and for large values (promise 7).
void Daemon::describe_transports() {
  const std::string node = node_address(options_).text();
  describe_ordinary();
  const bool available = engine_->available();
  const std::string reason = available ? "configured" : std::string(engine_->unavailable_reason());
  if (reason == fabric_info_reason_) return;
  if (fabric_info_ != nullptr) {
    fabric_info_->set(0);
    if (available) {
      spdlog::info("large values travel by RDMA");
    } else {
      spdlog::warn("large values travel as BLOB.TCP_*: {}", reason);
    }
  }
  fabric_info_reason_ = reason;
  fabric_info_ = &shard_.gauge(Metric::kTransportInfo, {node, "fabric-" + options_.fabric.provider,
                                                        available ? fabric_->traits().provider : "tcp", reason});
  fabric_info_->set(1);
}

std::string Daemon::scrape() {
  if (engine_ready_) describe_transports();
  if (fabric_ != nullptr) {
    const fabric::FabricCounters counters = fabric_->counters();
    const std::string& device = fabric_->traits().domain;
    shard_.gauge(Metric::kFabricEndpoints, {device}).set(static_cast<double>(counters.endpoints));
    shard_.gauge(Metric::kFabricAddresses, {device}).set(static_cast<double>(counters.av_entries));
    shard_.gauge(Metric::kRegisteredBytes, {device}).set(static_cast<double>(counters.registered_bytes));
    shard_.counter(Metric::kFabricCloseFailuresTotal, {device})
        .add(counters.close_failures - std::exchange(close_failures_, counters.close_failures));
    shard_.counter(Metric::kFabricQueueErrorsTotal, {device})
        .add(counters.cq_errors - std::exchange(queue_errors_, counters.cq_errors));
  }
  const upstream::Whereabouts::State where = where_->state();
  shard_.counter(Metric::kUpstreamMovesTotal, {"readonly"}).add(where.doubts - std::exchange(doubts_, where.doubts));
  shard_.counter(Metric::kUpstreamMovesTotal, {"sentinel"}).add(where.moves - std::exchange(moves_, where.moves));
  return metrics_.scrape();
}

void Daemon::status(telemetry::AdminHandlers::StatusDone done) {
  engine_->status(loop_, [this, done = std::move(done)](std::string engine) mutable {
    nlohmann::json page = nlohmann::json::parse(engine, nullptr, false);
    if (!page.is_object()) page = nlohmann::json::object();
    page["version"] = KEYFERRY_VERSION;
    page["node"] = node_address(options_).text();
    if (const auto primary = where_->state().primary) page["primary"] = primary->text();
    page["transport"] = ordinary_transport();
    page["transport_reason"] = ordinary_reason_;
    page["clients"] = gateway_->clients();
    page["workers"] = gateway_->workers().size();
    page["ready"] = ready().ok;
    auto& fabric = page["fabric"] = nlohmann::json::object();
    fabric["available"] = engine_->available();
    if (fabric_ != nullptr) {
      fabric["provider"] = fabric_->traits().provider;
      fabric["domain"] = fabric_->traits().domain;
      fabric["library"] = fabric_->traits().library;
    }
    fabric["reason"] =
        fabric_ == nullptr ? no_fabric_text_ : std::string(engine_->available() ? "" : engine_->unavailable_reason());
    page["memory"] = {{"bytes", memory_.bytes().size()},
                      {"region_bytes", memory_.region_bytes()},
                      {"pages", memory_.page_kind()},
                      {"notes", memory_.notes()}};
    done(page.dump());
  });
}

/// Posts a mark to each loop and measures how long it takes to come by: a loop that hangs is seen by the growing
/// number.
void Daemon::watch_loops() {
  const base::TimePoint sent = base::Clock::steady().now();
  const auto mark = [this, sent](base::Loop& loop, std::string name) {
    loop.post([this, sent, name = std::move(name)] {
      const double late = base::seconds(base::Clock::steady().now() - sent);
      loop_.post([this, late, name] { shard_.gauge(Metric::kLoopStallSeconds, {name}).set(late); });
    });
  };
  mark(engine_loop_, "engine");
  for (std::size_t i = 0; i < gateway_->workers().size(); ++i)
    mark(gateway_->workers()[i]->loop(), "worker-" + std::to_string(i));
  gateway_->refresh_tls();
  for (const auto& password : passwords_) password->look();
  if (engine_ready_) describe_ordinary();
  follow_primary();
  watch_timer_.start(kWatch, [this] { watch_loops(); });
}

/// Asks sentinels once a second, so that connections to a primary that was replaced are given up although it may still
/// hold them.
void Daemon::follow_primary() {
  if (where_->sentinels() == nullptr || sentinel_query_) return;
  sentinel_query_ = std::make_unique<upstream::SentinelQuery>(
      loop_, where_, options_.limits.upstream_wait, [this](base::Result<upstream::Address> primary) {
        const std::string text = primary ? "the primary of " + options_.upstream.master + " is " + primary->text()
                                         : options_.upstream.master + ": " + primary.error().message;
        if (std::exchange(primary_text_, text) != text)
          spdlog::log(primary ? spdlog::level::info : spdlog::level::warn, "{}", text);
        // Not inside its own call.
        loop_.post([this] { sentinel_query_.reset(); });
      });
}

void Daemon::wait_for_signal() {
  signals_->set.async_wait([this](const boost::system::error_code& error, int signal) {
    if (!error) on_signal(signal);
  });
}

void Daemon::on_signal(int signal) {
  wait_for_signal();
  if (signal == SIGHUP) {
    spdlog::warn("SIGHUP: this version reads its configuration only at the start; restart it to change it");
    return;
  }
  if (stopping_) {
    spdlog::warn("second signal: what is left is dropped");
    loop_.stop();
    return;
  }
  stopping_ = true;
  spdlog::info("signal {}: draining, at most {} s", signal, base::seconds(options_.limits.drain));
  ::sd_notify(0, "STOPPING=1\nSTATUS=draining");
  gateway_->drain(options_.limits.drain, loop_, [this] { stop_engine(); });
}

void Daemon::stop_engine() {
  engine_->stop(loop_, [this] {
    spdlog::info("stopped");
    loop_.stop();
  });
}

}  // namespace keyferry::daemon
