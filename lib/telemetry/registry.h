#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "telemetry/metric_table.h"

namespace keyferry::telemetry {

/// A number with one writer (the thread of its shard) and one reader (the scrape). Relaxed: only the number itself is
/// exchanged (R119).
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Like Counter, and may fall. Several shards' gauges of one name and label set are summed, or the largest is taken
/// (kGaugeMax).
class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double n) { set(value() + n); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

/// Seconds, in fixed buckets from the metric table. One writer, one reader as above.
class Histogram {
 public:
  void observe(double seconds);

  struct Impl;
  explicit Histogram(std::unique_ptr<Impl> impl);
  ~Histogram();

 private:
  friend class Shard;
  std::unique_ptr<Impl> impl_;
};

/// One thread's own numbers. counter(), gauge() and histogram() find or make the series (a lock: call them once and
/// keep the reference, which stays valid as long as the registry); label values stand in the order of the metric table.
/// Another number of labels than the table has, or another kind of metric, is a mistake in the program:
/// std::logic_error. Label values are bounded (R122): each is cut at 160 bytes, control characters and broken UTF-8
/// become '?', and once a metric has kMaxSeries label sets in a shard all further ones share the set whose values are
/// "other".
class Shard {
 public:
  static constexpr std::size_t kMaxSeries = 256;

  Counter& counter(Metric metric, std::initializer_list<std::string_view> labels = {});
  Gauge& gauge(Metric metric, std::initializer_list<std::string_view> labels = {});
  Histogram& histogram(Metric metric, std::initializer_list<std::string_view> labels = {});

  struct Impl;
  explicit Shard(std::unique_ptr<Impl> impl);
  ~Shard();

 private:
  friend class Registry;
  std::unique_ptr<Impl> impl_;
};

/// All shards; sums them at scrape. Any thread may call.
class Registry {
 public:
  Registry();
  ~Registry();
  /// A shard for one thread (or one object that a single thread owns); lives as long as the registry.
  Shard& add_shard();
  /// The text exposition format, version 0.0.4.
  std::string scrape() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keyferry::telemetry
