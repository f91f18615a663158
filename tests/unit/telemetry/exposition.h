#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace keyferry::telemetry::testing {

struct Family {
  std::string type;
  std::string help;
  /// "name{labels}" -> value.
  std::map<std::string, double> samples;
};

/// Reads a page by the rules of Prometheus' text format 0.0.4, strictly: HELP and TYPE once per family and before its
/// samples, families not interleaved, no series twice, names and escapes well formed, _total on counters only,
/// histograms cumulative with +Inf equal to _count. What breaks a rule is added to `faults`.
std::map<std::string, Family> parse_exposition(std::string_view page, std::vector<std::string>& faults);

}  // namespace keyferry::telemetry::testing
