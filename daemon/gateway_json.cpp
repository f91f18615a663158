#include "daemon/gateway_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "gateway/command_table.h"

namespace keyferry::daemon {

namespace {

using Json = nlohmann::ordered_json;

/// Names are whatever a client has sent.
std::string text_of(const Json& page) {
  return page.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double milliseconds(base::Duration duration) {
  return std::round(base::seconds(duration) * 1e6) / 1e3;
}

std::string time_text(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Json client_row(const gateway::ClientReport& client, base::TimePoint now) {
  const gateway::ClientFacts& facts = client.facts;
  const gateway::ClientActivity& activity = *facts.activity;
  const gateway::CommandRow* const command = activity.command.load(std::memory_order_relaxed);
  const auto whole_seconds = [](base::Duration duration) { return static_cast<std::int64_t>(base::seconds(duration)); };
  return {{"id", facts.id},
          {"address", facts.address},
          {"listener", facts.local_address},
          {"name", facts.name},
          {"library", facts.library_name},
          {"user", facts.user},
          {"database", facts.database},
          {"protocol", facts.protocol},
          {"age_s", whole_seconds(now - facts.since)},
          {"idle_s", whole_seconds(now - activity.last.load(std::memory_order_relaxed))},
          {"command", command != nullptr ? Json(command->name) : Json()},
          {"commands", activity.commands.load(std::memory_order_relaxed)},
          {"owed", client.owed},
          {"in_bytes", activity.bytes_in.load(std::memory_order_relaxed)},
          {"out_bytes", activity.bytes_out.load(std::memory_order_relaxed)},
          {"server_id", client.server_id != 0 ? Json(client.server_id) : Json()},
          {"connection", client.server_id == 0 ? "none"
                         : client.own          ? "own"
                                               : "shared"}};
}

Json channel_row(const gateway::ChannelReport& channel, std::size_t worker) {
  return {{"server_id", channel.server_id != 0 ? Json(channel.server_id) : Json()},
          {"worker", worker},
          {"kind", channel.kind},
          {"state", channel.state},
          {"user", channel.user},
          {"database", channel.database},
          {"protocol", channel.protocol != 0 ? Json(channel.protocol) : Json()},
          {"transport", channel.transport.empty() ? Json() : Json(channel.transport)},
          {"owed", channel.owed},
          {"clients", channel.clients}};
}

}  // namespace

std::string clients_json(const std::vector<gateway::WorkerReport>& workers) {
  const base::TimePoint now = base::Clock::steady().now();
  std::vector<const gateway::ClientReport*> all;
  for (const gateway::WorkerReport& worker : workers) {
    for (const gateway::ClientReport& client : worker.clients) all.push_back(&client);
  }
  std::ranges::sort(all, {}, [](const gateway::ClientReport* client) { return client->facts.id; });
  Json rows = Json::array();
  for (const gateway::ClientReport* client : all) rows.push_back(client_row(*client, now));
  return text_of({{"clients", std::move(rows)}});
}

std::string channels_json(const std::vector<gateway::WorkerReport>& workers) {
  std::vector<std::pair<std::size_t, const gateway::ChannelReport*>> all;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    for (const gateway::ChannelReport& channel : workers[i].channels) all.emplace_back(i, &channel);
  }
  std::ranges::sort(all, {}, [](const auto& one) { return one.second->server_id; });
  Json rows = Json::array();
  for (const auto& [worker, channel] : all) rows.push_back(channel_row(*channel, worker));
  return text_of({{"channels", std::move(rows)}});
}

std::string slow_json(const std::vector<gateway::SlowCommand>& commands) {
  Json rows = Json::array();
  for (const gateway::SlowCommand& slow : commands) {
    rows.push_back({{"when", time_text(slow.when)},
                    {"client", slow.client},
                    {"command", slow.command},
                    {"class", slow.command_class},
                    {"total_ms", milliseconds(slow.total())},
                    {"queue_ms", milliseconds(slow.queue)},
                    {"upstream_ms", milliseconds(slow.upstream)},
                    {"delivery_ms", milliseconds(slow.delivery)}});
  }
  return text_of({{"slow", std::move(rows)}});
}

}  // namespace keyferry::daemon
