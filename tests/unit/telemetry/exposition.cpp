#include "tests/unit/telemetry/exposition.h"

#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

namespace keyferry::telemetry::testing {

namespace {

std::string family_of(const std::string& sample, const std::map<std::string, Family>& families) {
  if (families.count(sample) != 0) return sample;
  for (const char* suffix : {"_bucket", "_sum", "_count"}) {
    if (sample.ends_with(suffix)) {
      const std::string base = sample.substr(0, sample.size() - std::string_view(suffix).size());
      const auto found = families.find(base);
      if (found != families.end() && found->second.type == "histogram") return base;
    }
  }
  return {};
}

void check_histogram(const std::string& name, const Family& family, std::vector<std::string>& faults) {
  // Samples of one label set, in the order of le.
  static const std::regex bucket(R"re(([a-z_]+)_bucket\{(.*?),?le="([^"]+)"\})re");
  std::map<std::string, std::map<double, double>> sets;
  for (const auto& [series, value] : family.samples) {
    std::smatch match;
    if (std::regex_match(series, match, bucket))
      sets[match[2]][match[3] == "+Inf" ? 1e300 : std::stod(match[3])] = value;
  }
  if (sets.empty()) faults.push_back(name + ": a histogram without buckets");
  for (const auto& [labels, buckets] : sets) {
    double last = 0;
    for (const auto& [bound, count] : buckets) {
      if (count < last) faults.push_back(name + ": buckets are not cumulative");
      last = count;
    }
    const std::string braces = labels.empty() ? "" : "{" + labels + "}";
    const auto count = family.samples.find(name + "_count" + braces);
    if (buckets.rbegin()->first != 1e300) faults.push_back(name + ": no +Inf bucket");
    if (count == family.samples.end() || count->second != last) faults.push_back(name + ": _count differs from +Inf");
    if (family.samples.count(name + "_sum" + braces) == 0) faults.push_back(name + ": no _sum");
  }
}

}  // namespace

std::map<std::string, Family> parse_exposition(std::string_view page, std::vector<std::string>& faults) {
  static const std::regex sample_line(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)( -?[0-9]+)?)re");
  static const std::regex meta_line(R"re(# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))re");
  std::map<std::string, Family> families;
  std::set<std::string> closed;
  std::string current;
  if (!page.empty() && page.back() != '\n') faults.push_back("the last line has no end");
  std::istringstream lines{std::string(page)};
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, meta_line)) {
      const std::string name = match[2];
      if (name != current) {
        closed.insert(current);
        current = name;
      }
      if (closed.count(name) != 0) faults.push_back(name + ": family appears twice");
      Family& family = families[name];
      std::string& field = match[1] == "HELP" ? family.help : family.type;
      if (!field.empty()) faults.push_back(name + ": " + match[1].str() + " twice");
      if (!family.samples.empty()) faults.push_back(name + ": " + match[1].str() + " after samples");
      field = match[3];
    } else if (std::regex_match(line, match, sample_line)) {
      const std::string name = family_of(match[1], families);
      if (name.empty() || name != current) {
        faults.push_back(line + ": sample outside of its family");
        continue;
      }
      char* end = nullptr;
      const std::string number = match[3];
      const double value = std::strtod(number.c_str(), &end);
      if (*end != '\0') faults.push_back(line + ": no number");
      if (!families[name].samples.emplace(match[1].str() + match[2].str(), value).second)
        faults.push_back(line + ": series twice");
    } else {
      faults.push_back(line + ": neither a comment nor a sample");
    }
  }
  for (const auto& [name, family] : families) {
    if (family.help.empty() || family.type.empty()) faults.push_back(name + ": HELP or TYPE is missing");
    if (name.ends_with("_total") != (family.type == "counter"))
      faults.push_back(name + ": _total is for counters, all of them and no other");
    if (family.type == "histogram") check_histogram(name, family, faults);
  }
  return families;
}

}  // namespace keyferry::telemetry::testing
