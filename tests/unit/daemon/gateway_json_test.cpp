#include "daemon/gateway_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

namespace keyferry::daemon {
namespace {

/// The channels' numbers on all pages, each asked for as the page before says, and how many pages that took.
std::pair<std::vector<std::uint64_t>, std::size_t> all_pages(const std::vector<std::uint64_t>& numbers,
                                                             std::size_t limit) {
  gateway::WorkerReport worker;
  for (const std::uint64_t number : numbers) {
    gateway::ChannelReport& channel = worker.channels.emplace_back();
    channel.server_id = number;
    channel.kind = "shared";
  }
  std::vector<std::uint64_t> got;
  std::size_t pages = 0;
  Rows rows{.after = 0, .limit = limit};
  for (;;) {
    const auto page = nlohmann::json::parse(channels_json({worker}, R"({"lanes":[]})", "default", rows));
    ++pages;
    for (const auto& row : page["channels"]) {
      got.push_back(row["server_id"].is_null() ? 0 : row["server_id"].get<std::uint64_t>());
    }
    if (!page.contains("after") || pages > numbers.size()) return {got, pages};
    rows.after = page["after"];
  }
}

TEST(GatewayJson, PagesShowEachChannelOnceAndEnd) {
  for (const std::size_t limit : {1U, 2U, 3U, 100U}) {
    const auto [got, pages] = all_pages({7, 3, 9, 5, 4}, limit);
    EXPECT_EQ(got, (std::vector<std::uint64_t>{3, 4, 5, 7, 9})) << limit;
    EXPECT_EQ(pages, (5 + limit - 1) / limit) << limit;
  }
}

TEST(GatewayJson, ChannelsWithoutANumberOrWithOneOfTwoServersAreNeitherLostNorRepeated) {
  const std::vector<std::uint64_t> wanted{0, 0, 0, 4, 4, 6};
  for (const std::size_t limit : {1U, 2U, 3U, 4U, 5U, 100U})
    EXPECT_EQ(all_pages({0, 4, 0, 6, 4, 0}, limit).first, wanted) << limit;
  EXPECT_EQ(all_pages({0, 0}, 1).first, (std::vector<std::uint64_t>{0, 0}));
}

}  // namespace
}  // namespace keyferry::daemon
