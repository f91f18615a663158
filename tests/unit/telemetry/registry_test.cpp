#include "telemetry/registry.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/unit/telemetry/exposition.h"

namespace keyferry::telemetry {
namespace {

using testing::Family;
using testing::parse_exposition;

std::map<std::string, Family> scrape(const Registry& registry) {
  std::vector<std::string> faults;
  const std::string page = registry.scrape();
  auto families = parse_exposition(page, faults);
  for (const std::string& fault : faults) ADD_FAILURE() << fault << "\n" << page;
  return families;
}

TEST(Registry, AnEmptyOneGivesAnEmptyPage) {
  EXPECT_EQ(Registry().scrape(), "");
}

TEST(Registry, SumsCountersOfAllShardsByLabelSet) {
  Registry registry;
  Shard& one = registry.add_shard();
  Shard& two = registry.add_shard();
  one.counter(Metric::kTransfersTotal, {"set", "rdma", "ok"}).add(3);
  two.counter(Metric::kTransfersTotal, {"set", "rdma", "ok"}).add(4);
  two.counter(Metric::kTransfersTotal, {"get", "tcp", "error"}).add();
  const auto families = scrape(registry);
  ASSERT_EQ(families.size(), 1U);
  const auto& samples = families.at("keyferry_transfers_total").samples;
  EXPECT_EQ(families.at("keyferry_transfers_total").type, "counter");
  EXPECT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples.at(R"(keyferry_transfers_total{op="set",path="rdma",outcome="ok"})"), 7);
  EXPECT_EQ(samples.at(R"(keyferry_transfers_total{op="get",path="tcp",outcome="error"})"), 1);
}

TEST(Registry, AskingAgainGivesTheSameSeries) {
  Registry registry;
  Shard& shard = registry.add_shard();
  EXPECT_EQ(&shard.counter(Metric::kFencesTotal, {"lost"}), &shard.counter(Metric::kFencesTotal, {"lost"}));
  EXPECT_NE(&shard.counter(Metric::kFencesTotal, {"lost"}), &shard.counter(Metric::kFencesTotal, {"other"}));
  EXPECT_EQ(&shard.gauge(Metric::kClients), &shard.gauge(Metric::kClients));
  EXPECT_EQ(&shard.histogram(Metric::kRegistrationSeconds), &shard.histogram(Metric::kRegistrationSeconds));
}

TEST(Registry, SumsGaugesButTakesTheLargestWhereASumMeansNothing) {
  Registry registry;
  Shard& one = registry.add_shard();
  Shard& two = registry.add_shard();
  one.gauge(Metric::kClients).set(5);
  two.gauge(Metric::kClients).add(2);
  two.gauge(Metric::kClients).add(-1);
  one.gauge(Metric::kOldestRequestSeconds).set(0.25);
  two.gauge(Metric::kOldestRequestSeconds).set(4);
  const auto families = scrape(registry);
  EXPECT_EQ(families.at("keyferry_clients").samples.at("keyferry_clients"), 6);
  EXPECT_EQ(families.at("keyferry_oldest_request_seconds").type, "gauge");
  EXPECT_EQ(families.at("keyferry_oldest_request_seconds").samples.at("keyferry_oldest_request_seconds"), 4);
}

TEST(Registry, HistogramsCountExactlyAndABoundBelongsToItsBucket) {
  Registry registry;
  Histogram& one = registry.add_shard().histogram(Metric::kCommandSeconds, {"ordinary"});
  Histogram& two = registry.add_shard().histogram(Metric::kCommandSeconds, {"ordinary"});
  one.observe(0);
  one.observe(1e-5);  // le="1e-05" includes its bound
  one.observe(1.1e-5);
  two.observe(2);
  two.observe(1000);
  two.observe(-1);  // a clock that jumped counts as 0
  two.observe(std::numeric_limits<double>::quiet_NaN());
  const auto families = scrape(registry);
  const auto& samples = families.at("keyferry_command_seconds").samples;
  const auto bucket = [&](const std::string& bound) {
    return samples.at("keyferry_command_seconds_bucket{class=\"ordinary\",le=\"" + bound + "\"}");
  };
  EXPECT_EQ(bucket("1e-05"), 4);
  EXPECT_EQ(bucket("2e-05"), 5);
  EXPECT_EQ(bucket("1"), 5);
  EXPECT_EQ(bucket("2"), 6);
  EXPECT_EQ(bucket("100"), 6);
  EXPECT_EQ(bucket("+Inf"), 7);
  EXPECT_EQ(samples.at("keyferry_command_seconds_count{class=\"ordinary\"}"), 7);
  EXPECT_NEAR(samples.at("keyferry_command_seconds_sum{class=\"ordinary\"}"), 1002.000021, 1e-9);
}

TEST(Registry, EscapesAndCleansLabelValues) {
  Registry registry;
  registry.add_shard().counter(Metric::kFallbackTotal, {"rdma", "tcp", "ERR \"no\\such\"\nthing \xFF"}).add();
  const auto families = scrape(registry);
  EXPECT_EQ(families.at("keyferry_fallback_total")
                .samples.count(R"(keyferry_fallback_total{from="rdma",to="tcp",reason="ERR \"no\\such\"?thing ?"})"),
            1U);
}

TEST(Registry, R122LabelSetsPerMetricAreBounded) {
  Registry registry;
  Shard& shard = registry.add_shard();
  for (int i = 0; i < 10000; ++i) shard.counter(Metric::kFencesTotal, {"reason " + std::to_string(i)}).add();
  shard.counter(Metric::kFencesTotal, {"reason 3"}).add();
  const auto families = scrape(registry);
  const auto& samples = families.at("keyferry_fences_total").samples;
  EXPECT_EQ(samples.size(), Shard::kMaxSeries + 1);
  EXPECT_EQ(samples.at(R"(keyferry_fences_total{reason="other"})"), 10000 - Shard::kMaxSeries);
  EXPECT_EQ(samples.at(R"(keyferry_fences_total{reason="reason 3"})"), 2);
}

TEST(Registry, AWrongNumberOfLabelsOrKindIsRefused) {
  Registry registry;
  Shard& shard = registry.add_shard();
  EXPECT_THROW(shard.counter(Metric::kFencesTotal), std::logic_error);
  EXPECT_THROW(shard.counter(Metric::kFencesTotal, {"a", "b"}), std::logic_error);
  EXPECT_THROW(shard.gauge(Metric::kFencesTotal, {"a"}), std::logic_error);
  EXPECT_THROW(shard.counter(Metric::kClients), std::logic_error);
  EXPECT_THROW(shard.histogram(Metric::kClients), std::logic_error);
  EXPECT_EQ(registry.scrape(), "");
}

TEST(Registry, EveryMetricOfTheTableComesOutAsItsKind) {
  Registry registry;
  Shard& shard = registry.add_shard();
  for (const MetricInfo& info : kMetricTable) {
    const auto with = [&](auto make) {
      switch (info.label_count()) {
        case 0:
          return make({});
        case 1:
          return make({"a"});
        case 2:
          return make({"a", "b"});
        case 3:
          return make({"a", "b", "c"});
        default:
          return make({"a", "b", "c", "d"});
      }
    };
    using List = std::initializer_list<std::string_view>;
    if (info.kind == MetricKind::kCounter) {
      with([&](List labels) { shard.counter(info.metric, labels).add(); });
    } else if (info.kind == MetricKind::kHistogram) {
      with([&](List labels) { shard.histogram(info.metric, labels).observe(1); });
    } else {
      with([&](List labels) { shard.gauge(info.metric, labels).set(1); });
    }
  }
  const auto families = scrape(registry);
  EXPECT_EQ(families.size(), kMetricTable.size());
  for (const MetricInfo& info : kMetricTable) {
    const Family& family = families.at(std::string(info.name));
    EXPECT_EQ(family.help, info.help);
    EXPECT_EQ(family.type, info.kind == MetricKind::kCounter     ? "counter"
                           : info.kind == MetricKind::kHistogram ? "histogram"
                                                                 : "gauge");
  }
}

TEST(Registry, R119ManyThreadsCountWhileAScrapeReads) {
  constexpr std::uint64_t kRounds = 20000;
  Registry registry;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&registry] {
      Shard& shard = registry.add_shard();
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        shard.counter(Metric::kFencesTotal, {round % 2 == 0 ? "even" : "odd"}).add();
        shard.histogram(Metric::kRegistrationSeconds).observe(0.5);
      }
    });
  }
  for (int i = 0; i < 50; ++i) scrape(registry);
  for (std::thread& thread : threads) thread.join();
  const auto families = scrape(registry);
  EXPECT_EQ(families.at("keyferry_fences_total").samples.at(R"(keyferry_fences_total{reason="odd"})"), 2 * kRounds);
  EXPECT_EQ(families.at("keyferry_registration_seconds").samples.at("keyferry_registration_seconds_count"),
            4 * kRounds);
  EXPECT_EQ(families.at("keyferry_registration_seconds").samples.at("keyferry_registration_seconds_sum"), 2 * kRounds);
}

}  // namespace
}  // namespace keyferry::telemetry
