#include "gateway/client_directory.h"

#include <utility>

namespace keyferry::gateway {

void ClientDirectory::enter(const ClientFacts& facts, base::Executor& home, std::weak_ptr<ReachableClient> client) {
  const std::lock_guard lock(mutex_);
  clients_.insert_or_assign(facts.id, Entry{{facts, 0}, {&home, std::move(client)}});
}

void ClientDirectory::update(const ClientFacts& facts) {
  const std::lock_guard lock(mutex_);
  if (const auto found = clients_.find(facts.id); found != clients_.end()) found->second.client.facts = facts;
}

void ClientDirectory::remove(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  forget_server_id(found->second.client);
  clients_.erase(found);
}

/// Ids recur when the server was restarted: it may be another client's by now.
void ClientDirectory::forget_server_id(const ListedClient& client) {
  const auto found = by_server_id_.find(client.server_id);
  if (found != by_server_id_.end() && found->second == client.facts.id) by_server_id_.erase(found);
}

void ClientDirectory::pinned(std::uint64_t id, std::uint64_t server_id) {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  forget_server_id(found->second.client);
  found->second.client.server_id = server_id;
  found->second.client.pinned_at = base::Clock::steady().now();
  if (server_id != 0) by_server_id_[server_id] = id;
}

std::optional<std::uint64_t> ClientDirectory::server_id(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(id);
  if (found == clients_.end()) return std::nullopt;
  return found->second.client.server_id;
}

std::uint64_t ClientDirectory::client_of(std::uint64_t server_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_server_id_.find(server_id);
  return found == by_server_id_.end() ? 0 : found->second;
}

bool ClientDirectory::kill(std::uint64_t id, std::function<void()> done) {
  Door door;
  {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(id);
    if (found == clients_.end()) return false;
    door = std::move(found->second.door);
    forget_server_id(found->second.client);
    clients_.erase(found);
  }
  door.home->post([client = std::move(door.client), done = std::move(done)] {
    if (const auto alive = client.lock()) alive->kill();
    done();
  });
  return true;
}

bool ClientDirectory::attach(std::uint64_t id, std::function<void()> done) const {
  Door door;
  {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(id);
    if (found == clients_.end()) return false;
    door = found->second.door;
  }
  door.home->post([client = std::move(door.client), done = std::move(done)]() mutable {
    const auto alive = client.lock();
    if (!alive) return done();
    alive->attach(std::move(done));
  });
  return true;
}

std::vector<ListedClient> ClientDirectory::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<ListedClient> all;
  all.reserve(clients_.size());
  for (const auto& [id, entry] : clients_) all.push_back(entry.client);
  return all;
}

}  // namespace keyferry::gateway
