#include "gateway/gateway.h"

#include <sys/socket.h>

#include <algorithm>
#include <string_view>

namespace keyferry::gateway {

Gateway::Gateway(std::size_t workers, const WorkerOptions& options, std::size_t most_clients, transfer::Engine& engine,
                 telemetry::Registry& metrics)
    : most_clients_(most_clients) {
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
    listeners_.push_back(std::make_unique<Listener>(
        workers_.front()->loop(), options,
        [this, tls, dedicated = options.dedicated](base::Fd socket, std::string_view transport) {
          place(std::move(socket), tls != nullptr ? "tls" : transport, dedicated, tls);
        }));
  }
}

void Gateway::refresh_tls() {
  for (const auto& server : tls_servers_) server->refresh();
}

void Gateway::place(base::Fd socket, std::string_view transport, bool dedicated, const TlsServer* tls) {
  if (clients() >= most_clients_) {
    if (tls != nullptr) return;
    // The server's own words, so that clients know what to make of them. A fresh socket's buffer has room for them.
    constexpr std::string_view kText = "-ERR max number of clients reached\r\n";
    static_cast<void>(::send(socket.get(), kText.data(), kText.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    return;
  }
  const auto least = std::min_element(workers_.begin(), workers_.end(),
                                      [](const auto& a, const auto& b) { return a->clients() < b->clients(); });
  (*least)->adopt(std::move(socket), {.id = next_id_++, .transport = transport, .dedicated = dedicated}, tls);
}

std::size_t Gateway::clients() const {
  std::size_t sum = 0;
  for (const auto& worker : workers_) sum += worker->clients();
  return sum;
}

void Gateway::drain(base::Duration limit, base::Executor& back, base::Task done) {
  workers_.front()->loop().post([this, limit, &back, done = std::move(done)]() mutable {
    for (auto& listener : listeners_) listener->close();
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
