#include "daemon/gateway_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
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
          {"address", facts.address()},
          {"listener", *facts.local_address},
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

Json lane_row(const Json& lane, const std::string& user) {
  const Json& client = lane["client"];
  const std::string as = lane.value("user", "");
  return {{"server_id", lane["server_id"]},
          {"worker", Json()},
          {"kind", "lane"},
          {"state", lane["state"]},
          {"user", as.empty() ? user : as},
          {"database", lane["database"]},
          {"protocol", Json()},
          {"transport", Json()},
          {"owed", client.is_null() ? 0 : 1},
          {"clients", client.is_null() ? Json::array() : Json::array({client})}};
}

/// Takes rows in the order of their numbers as far as the page goes.
class Page {
 public:
  explicit Page(Rows rows) : rows_(rows) {}
  /// Whether the row is one of those that are asked for. What has no number (0) is on the first page.
  bool wants(std::uint64_t number) const { return rows_.after == 0 || number > rows_.after; }
  /// False: it is full, and the row not taken.
  bool add(std::uint64_t number, const Json& row) {
    std::string text = text_of(row);
    const bool full = count_ >= rows_.limit || text_.size() + text.size() > kMostBytes;
    // The next page begins behind a number that is known, so those with one number are on one page.
    if (last_ != 0 && number != last_ && full) {
      cut_ = true;
      return false;
    }
    text_ += (count_++ != 0 ? "," : "") + text;
    last_ = number;
    return true;
  }
  std::string json(const std::string& name) const {
    return "{\"" + name + "\":[" + text_ + "]" + (cut_ ? ",\"after\":" + std::to_string(last_) : "") + "}";
  }

 private:
  /// Half of what fetch_page() takes.
  static constexpr std::size_t kMostBytes = 4 << 20;
  Rows rows_;
  std::string text_;
  std::size_t count_ = 0;
  std::uint64_t last_ = 0;
  bool cut_ = false;
};

}  // namespace

std::string clients_json(const std::vector<gateway::WorkerReport>& workers, Rows rows) {
  const base::TimePoint now = base::Clock::steady().now();
  Page page(rows);
  std::vector<const gateway::ClientReport*> all;
  for (const gateway::WorkerReport& worker : workers) {
    for (const gateway::ClientReport& client : worker.clients) {
      if (page.wants(client.facts.id)) all.push_back(&client);
    }
  }
  std::ranges::sort(all, {}, [](const gateway::ClientReport* client) { return client->facts.id; });
  for (const gateway::ClientReport* client : all) {
    if (!page.add(client->facts.id, client_row(*client, now))) break;
  }
  return page.json("clients");
}

std::string channels_json(const std::vector<gateway::WorkerReport>& workers, std::string_view engine,
                          const std::string& user, Rows rows) {
  Page page(rows);
  // By number; made only when it is its turn.
  std::vector<std::pair<std::uint64_t, std::function<Json()>>> all;
  const auto add = [&](std::uint64_t number, std::function<Json()> row) {
    if (page.wants(number)) all.emplace_back(number, std::move(row));
  };
  for (std::size_t i = 0; i < workers.size(); ++i) {
    for (const gateway::ChannelReport& channel : workers[i].channels)
      add(channel.server_id, [&channel, i] { return channel_row(channel, i); });
  }
  const Json status = Json::parse(engine, nullptr, false);
  if (const auto lanes = status.find("lanes"); lanes != status.end()) {
    for (const Json& lane : *lanes)
      add(lane["server_id"].is_null() ? 0 : lane["server_id"].get<std::uint64_t>(),
          [&lane, &user] { return lane_row(lane, user); });
  }
  std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first; });
  for (const auto& [number, row] : all) {
    if (!page.add(number, row())) break;
  }
  return page.json("channels");
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
