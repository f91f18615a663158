#include "telemetry/registry.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "telemetry/label_text.h"

namespace keyferry::telemetry {

namespace {

using Labels = std::vector<std::string>;
using BucketCounts = std::array<std::uint64_t, kHistogramBounds.size() + 1>;

/// One series summed over the shards.
struct Sum {
  double value = 0;
  BucketCounts buckets{};
};

using SeriesKey = std::pair<Metric, Labels>;
using Sums = std::map<SeriesKey, Sum>;

SeriesKey make_key(Metric metric, std::initializer_list<std::string_view> labels) {
  const MetricInfo& info = metric_info(metric);
  if (labels.size() != info.label_count()) {
    throw std::logic_error("metric " + std::string(info.name) + " has " + std::to_string(info.label_count()) +
                           " labels, not " + std::to_string(labels.size()));
  }
  SeriesKey key{metric, {}};
  for (const std::string_view label : labels) key.second.push_back(label_text(label));
  return key;
}

void require_kind(Metric metric, bool right, std::string_view asked) {
  if (!right)
    throw std::logic_error("metric " + std::string(metric_info(metric).name) + " is not a " + std::string(asked));
}

prometheus::MetricType prometheus_type(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return prometheus::MetricType::Counter;
    case MetricKind::kHistogram:
      return prometheus::MetricType::Histogram;
    case MetricKind::kGauge:
    case MetricKind::kGaugeMax:
      break;
  }
  return prometheus::MetricType::Gauge;
}

prometheus::ClientMetric to_client_metric(const MetricInfo& info, const Labels& labels, const Sum& sum) {
  prometheus::ClientMetric metric;
  for (std::size_t i = 0; i < labels.size(); ++i) metric.label.push_back({std::string(info.labels[i]), labels[i]});
  switch (info.kind) {
    case MetricKind::kCounter:
      metric.counter.value = sum.value;
      break;
    case MetricKind::kGauge:
    case MetricKind::kGaugeMax:
      metric.gauge.value = sum.value;
      break;
    case MetricKind::kHistogram:
      // The count is the sum of the buckets, so that both agree in every scrape, whatever is observed meanwhile.
      for (std::size_t i = 0; i < kHistogramBounds.size(); ++i) {
        metric.histogram.sample_count += sum.buckets[i];
        metric.histogram.bucket.push_back({metric.histogram.sample_count, kHistogramBounds[i]});
      }
      metric.histogram.sample_count += sum.buckets.back();
      metric.histogram.sample_sum = sum.value;
      break;
  }
  return metric;
}

}  // namespace

/// Written by the shard's thread alone, read by the scrape, number by number.
struct Histogram::Impl {
  std::array<Counter, kHistogramBounds.size() + 1> buckets;
  Gauge sum;
};

Histogram::Histogram(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Histogram::~Histogram() = default;

void Histogram::observe(double seconds) {
  // A clock that jumps must not spoil the sum for good.
  const double value = seconds >= 0 ? seconds : 0;
  const auto bound = std::lower_bound(kHistogramBounds.begin(), kHistogramBounds.end(), value);
  impl_->buckets[static_cast<std::size_t>(bound - kHistogramBounds.begin())].add();
  impl_->sum.add(value);
}

/// The maps grow under the lock, by the shard's thread; the scrape walks them under it. The numbers in them are touched
/// without it; a map's nodes never move.
struct Shard::Impl {
  /// The series of `key`, or of the "other" label set if the metric has too many already.
  template <typename Series, typename Make>
  Series& find_or_make(std::map<SeriesKey, Series>& all, SeriesKey key, Make make) {
    const std::lock_guard lock(mutex);
    auto found = all.find(key);
    if (found != all.end()) return found->second;
    std::size_t& count = counts[static_cast<std::size_t>(key.first)];
    if (count >= kMaxSeries) {
      std::fill(key.second.begin(), key.second.end(), "other");
      found = all.find(key);
      if (found != all.end()) return found->second;
    }
    ++count;
    return make(std::move(key));
  }

  void add_to(Sums& sums) const {
    const std::lock_guard lock(mutex);
    for (const auto& [key, counter] : counters) sums[key].value += static_cast<double>(counter.value());
    for (const auto& [key, gauge] : gauges) {
      const auto [place, fresh] = sums.try_emplace(key);
      double& value = place->second.value;
      if (metric_info(key.first).kind == MetricKind::kGauge) {
        value += gauge.value();
      } else {
        value = fresh ? gauge.value() : std::max(value, gauge.value());
      }
    }
    for (const auto& [key, histogram] : histograms) {
      Sum& sum = sums[key];
      const Histogram::Impl& from = *histogram.impl_;
      for (std::size_t i = 0; i < from.buckets.size(); ++i) sum.buckets[i] += from.buckets[i].value();
      sum.value += from.sum.value();
    }
  }

  mutable std::mutex mutex;
  std::map<SeriesKey, Counter> counters;
  std::map<SeriesKey, Gauge> gauges;
  std::map<SeriesKey, Histogram> histograms;
  std::array<std::size_t, kMetricTable.size()> counts{};
};

Shard::Shard(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Shard::~Shard() = default;

Counter& Shard::counter(Metric metric, std::initializer_list<std::string_view> labels) {
  require_kind(metric, metric_info(metric).kind == MetricKind::kCounter, "counter");
  return impl_->find_or_make(impl_->counters, make_key(metric, labels),
                             [this](SeriesKey key) -> Counter& { return impl_->counters[std::move(key)]; });
}

Gauge& Shard::gauge(Metric metric, std::initializer_list<std::string_view> labels) {
  const MetricKind kind = metric_info(metric).kind;
  require_kind(metric, kind == MetricKind::kGauge || kind == MetricKind::kGaugeMax, "gauge");
  return impl_->find_or_make(impl_->gauges, make_key(metric, labels),
                             [this](SeriesKey key) -> Gauge& { return impl_->gauges[std::move(key)]; });
}

Histogram& Shard::histogram(Metric metric, std::initializer_list<std::string_view> labels) {
  require_kind(metric, metric_info(metric).kind == MetricKind::kHistogram, "histogram");
  return impl_->find_or_make(impl_->histograms, make_key(metric, labels), [this](SeriesKey key) -> Histogram& {
    return impl_->histograms.try_emplace(std::move(key), std::make_unique<Histogram::Impl>()).first->second;
  });
}

struct Registry::Impl final : prometheus::Collectable {
  std::vector<prometheus::MetricFamily> Collect() const override {
    Sums sums;
    {
      const std::lock_guard lock(mutex);
      for (const auto& shard : shards) shard->impl_->add_to(sums);
    }
    std::vector<prometheus::MetricFamily> families;
    for (const auto& [key, sum] : sums) {
      const MetricInfo& info = metric_info(key.first);
      if (families.empty() || families.back().name != info.name) {
        families.push_back({std::string(info.name), std::string(info.help), prometheus_type(info.kind), {}});
      }
      families.back().metric.push_back(to_client_metric(info, key.second, sum));
    }
    return families;
  }

  mutable std::mutex mutex;
  std::vector<std::unique_ptr<Shard>> shards;
};

Registry::Registry() : impl_(std::make_unique<Impl>()) {}
Registry::~Registry() = default;

Shard& Registry::add_shard() {
  const std::lock_guard lock(impl_->mutex);
  return *impl_->shards.emplace_back(std::make_unique<Shard>(std::make_unique<Shard::Impl>()));
}

std::string Registry::scrape() const {
  return prometheus::TextSerializer().Serialize(impl_->Collect());
}

}  // namespace keyferry::telemetry
