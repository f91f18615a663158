#include "gateway/client_directory.h"

namespace keyferry::gateway {

void ClientDirectory::enter(const ClientFacts& facts, std::function<void()> kill) {
  const std::lock_guard lock(mutex_);
  clients_[facts.id] = {facts, std::move(kill), 0};
}

void ClientDirectory::update(const ClientFacts& facts) {
  const std::lock_guard lock(mutex_);
  if (const auto found = clients_.find(facts.id); found != clients_.end()) found->second.facts = facts;
}

void ClientDirectory::remove(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  by_server_id_.erase(found->second.server_id);
  clients_.erase(found);
}

void ClientDirectory::pinned(std::uint64_t id, std::uint64_t server_id) {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  by_server_id_.erase(found->second.server_id);
  found->second.server_id = server_id;
  if (server_id != 0) by_server_id_[server_id] = id;
}

std::optional<std::uint64_t> ClientDirectory::server_id(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(id);
  if (found == clients_.end()) return std::nullopt;
  return found->second.server_id;
}

std::uint64_t ClientDirectory::client_of(std::uint64_t server_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_server_id_.find(server_id);
  return found == by_server_id_.end() ? 0 : found->second;
}

bool ClientDirectory::kill(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(id);
  if (found == clients_.end()) return false;
  found->second.kill();
  return true;
}

std::vector<ClientFacts> ClientDirectory::without_connection() const {
  const std::lock_guard lock(mutex_);
  std::vector<ClientFacts> facts;
  for (const auto& [id, entry] : clients_) {
    if (entry.server_id == 0) facts.push_back(entry.facts);
  }
  return facts;
}

}  // namespace keyferry::gateway
