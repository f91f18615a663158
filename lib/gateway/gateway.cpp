#include "gateway/gateway.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "resp/writer.h"

namespace keyferry::gateway {

Gateway::Gateway(std::size_t workers, const WorkerOptions& options, std::size_t most_clients, transfer::Engine& engine,
                 telemetry::Registry& metrics)
    : most_clients_(most_clients), directory_(options.directory), shard_(metrics.add_shard()) {
  for (std::size_t i = 0; i < workers; ++i) workers_.push_back(std::make_unique<Worker>(i, options, engine, metrics));
}

Gateway::~Gateway() {
  // The listeners live on the first worker's loop, which must have ended before they go.
  for (auto& worker : workers_) worker->stop();
}

void Gateway::listen(const std::vector<ListenOptions>& listeners) {
  for (const ListenOptions& options : listeners) {
    const TlsServer* tls = nullptr;
    if (options.tls) tls = tls_servers_.emplace_back(std::make_unique<TlsServer>(*options.tls)).get();
    ClientOrigin origin;
    origin.dedicated = options.dedicated;
    origin.rules = std::make_shared<const ListenerRules>(options.rules);
    listeners_.push_back(std::make_unique<Listener>(workers_.front()->loop(), options,
                                                    [this, tls, origin](base::Fd socket, std::string_view transport) {
                                                      ClientOrigin one = origin;
                                                      one.transport = tls != nullptr ? "tls" : transport;
                                                      place(std::move(socket), std::move(one), tls);
                                                    }));
  }
}

void Gateway::refresh_tls() {
  for (const auto& server : tls_servers_) server->refresh();
}

void Gateway::place(base::Fd socket, ClientOrigin origin, const TlsServer* tls) {
  // The server's own words, so that clients know what to make of them.
  if (clients() >= most_clients_)
    return turn_away(std::move(socket), "clients", "ERR max number of clients reached", tls);
  const std::optional<PeerCredentials> peer =
      origin.transport == "unix" ? PeerCredentials::of(socket.get()) : std::nullopt;
  if (origin.transport == "unix" && !origin.rules->admits(peer.value_or(PeerCredentials{UINT32_MAX, {}}))) {
    // Counted; a line for each would be a way to fill the log.
    spdlog::debug("a process of user id {} was turned away: it is not in this listener's allow_uids or allow_gids",
                  peer ? std::to_string(peer->uid) : "(unknown)");
    return turn_away(std::move(socket), "peer", "NOPERM keyferry: your user may not use this socket", tls);
  }
  origin.user = origin.rules->user_of(peer);
  const auto least = std::min_element(workers_.begin(), workers_.end(),
                                      [](const auto& a, const auto& b) { return a->clients() < b->clients(); });
  origin.id = next_id_++;
  (*least)->adopt({std::move(socket), std::move(origin), tls});
  hand_over_later();
}

/// All that a turn of the listeners' loop accepts goes to a worker at once (R41).
void Gateway::hand_over_later() {
  if (std::exchange(handing_over_, true)) return;
  workers_.front()->loop().post([this] {
    handing_over_ = false;
    for (const auto& worker : workers_) worker->hand_over();
  });
}

void Gateway::turn_away(base::Fd socket, std::string_view reason, std::string_view text, const TlsServer* tls) {
  shard_.counter(telemetry::Metric::kClientsRefusedTotal, {reason}).add();
  if (tls != nullptr) return;
  std::string line;
  resp::append_error(line, text);
  // A fresh socket's buffer has room for it.
  static_cast<void>(::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

void Gateway::report(base::Executor& back, base::UniqueFunction<void(std::vector<WorkerReport>)> done) {
  // Gathered on `back`, which runs one task at a time.
  struct Gathered {
    std::vector<WorkerReport> reports;
    std::size_t left;
    base::UniqueFunction<void(std::vector<WorkerReport>)> done;
  };
  auto gathered = std::make_shared<Gathered>(
      Gathered{std::vector<WorkerReport>(workers_.size()), workers_.size(), std::move(done)});
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i]->report(back, [gathered, i](WorkerReport report) {
      gathered->reports[i] = std::move(report);
      if (--gathered->left == 0) gathered->done(std::move(gathered->reports));
    });
  }
}

bool Gateway::kill(std::uint64_t id, base::Executor& back, base::Task done) {
  const auto call = std::make_shared<base::Task>(std::move(done));
  return directory_->kill(id, [&back, call] { back.post([call] { (*call)(); }); });
}

std::size_t Gateway::clients() const {
  std::size_t sum = 0;
  for (const auto& worker : workers_) sum += worker->clients();
  return sum;
}

void Gateway::drain(base::Duration limit, base::Executor& back, base::Task done) {
  workers_.front()->loop().post([this, limit, &back, done = std::move(done)]() mutable {
    for (auto& listener : listeners_) listener->close();
    // Before the workers are told to end.
    for (const auto& worker : workers_) worker->hand_over();
    // The last worker to be empty reports. `back` runs one task at a time, so the count needs no atomic.
    auto left = std::make_shared<std::size_t>(workers_.size());
    auto report = std::make_shared<base::Task>(std::move(done));
    for (auto& worker : workers_) {
      worker->drain(limit, back, [left, report] {
        if (--*left == 0) (*report)();
      });
    }
  });
}

}  // namespace keyferry::gateway
