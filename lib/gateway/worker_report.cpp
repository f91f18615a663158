#include "gateway/worker_report.h"

#include <unordered_map>
#include <utility>

#include "gateway/worker.h"

namespace keyferry::gateway {

namespace {

ChannelReport shared_row(const upstream::ChannelPool::Listed& listed, const std::string& configured_user) {
  const upstream::Channel& channel = *listed.channel;
  ChannelReport row;
  row.server_id = channel.client_id();
  row.kind = "shared";
  row.state = channel.held() ? "waiting" : !channel.connected() ? "connecting" : channel.retired() ? "retired" : "open";
  row.owed = channel.pending();
  if (channel.connected()) row.transport = name_of(channel.carrier());
  if (channel.retired()) return row;
  row.user = listed.user.empty() ? configured_user : listed.user;
  row.database = listed.database;
  row.protocol = static_cast<int>(listed.protocol);
  return row;
}

ChannelReport lent_row(std::string_view kind, std::uint64_t server_id, const ClientReport* client) {
  ChannelReport row;
  row.kind = kind;
  row.server_id = server_id;
  if (client == nullptr) return row;
  row.user = client->facts.user;
  row.database = client->facts.database;
  row.protocol = client->facts.protocol;
  row.owed = client->owed;
  row.clients.push_back(client->facts.id);
  return row;
}

}  // namespace

WorkerReport Worker::look() const {
  WorkerReport report;
  std::unordered_map<const upstream::Channel*, std::vector<std::uint64_t>> on;
  for (const auto& [id, session] : sessions_) {
    if (session->closed()) continue;
    ClientReport& client = report.clients.emplace_back();
    client.facts = session->facts();
    client.owed = session->owed();
    client.server_id = options_.directory->server_id(id).value_or(0);
    client.own = client.server_id != 0;
    if (client.own) report.channels.push_back(lent_row("own", client.server_id, &client));
    for (const std::uint64_t bulk : session->operations_on()) {
      report.channels.push_back(lent_row("bulk", bulk, &client));
      if (!client.own) client.server_id = bulk;
    }
    const upstream::Channel* const channel = session->shared_channel();
    if (channel == nullptr) continue;
    on[channel].push_back(id);
    if (client.server_id == 0) client.server_id = channel->client_id();
  }
  for (const upstream::ChannelPool::Listed& listed : channels_.list()) {
    ChannelReport& row = report.channels.emplace_back(shared_row(listed, options_.gateway.user));
    if (const auto found = on.find(listed.channel.get()); found != on.end()) row.clients = std::move(found->second);
  }
  for (const upstream::LendingPool* pool : {&bulk_, &pinned_short_, &pinned_long_, &control_}) {
    for (const std::uint64_t idle : pool->idle_ids()) report.channels.push_back(lent_row("idle", idle, nullptr));
  }
  return report;
}

void Worker::report(base::Executor& back, base::UniqueFunction<void(WorkerReport)> done) {
  loop_.post([this, &back, done = std::move(done)]() mutable {
    back.post([report = look(), done = std::move(done)]() mutable { done(std::move(report)); });
  });
}

}  // namespace keyferry::gateway
