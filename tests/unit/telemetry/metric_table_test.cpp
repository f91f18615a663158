#include "telemetry/metric_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace keyferry::telemetry {
namespace {

TEST(MetricTable, StandsInTheOrderOfTheEnumeration) {
  for (std::size_t i = 0; i < kMetricTable.size(); ++i) EXPECT_EQ(static_cast<std::size_t>(kMetricTable[i].metric), i);
}

TEST(MetricTable, R122NamesHaveThePrefixAndTotalOnCountersOnly) {
  const std::regex name(R"(keyferry_[a-z]+(_[a-z]+)*)");
  std::set<std::string_view> seen;
  for (const MetricInfo& info : kMetricTable) {
    EXPECT_TRUE(std::regex_match(std::string(info.name), name)) << info.name;
    EXPECT_TRUE(seen.insert(info.name).second) << info.name << " twice";
    EXPECT_EQ(info.name.ends_with("_total"), info.kind == MetricKind::kCounter) << info.name;
    // The serializer adds these; a family that ended in one could be mistaken for a part of another.
    for (const char* reserved : {"_count", "_sum", "_bucket"}) EXPECT_FALSE(info.name.ends_with(reserved)) << info.name;
    EXPECT_TRUE(info.kind != MetricKind::kHistogram || info.name.ends_with("_seconds")) << info.name;
    for (const char* unit : {"_ms", "_us", "_milliseconds", "_kb", "_mib", "_percent"}) {
      EXPECT_EQ(info.name.find(unit), std::string_view::npos) << info.name << " is not in a base unit";
    }
  }
}

TEST(MetricTable, R122NoLabelHoldsKeysOrClientAddresses) {
  const std::regex name(R"([a-z]+)");
  for (const MetricInfo& info : kMetricTable) {
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < info.label_count(); ++i) {
      const std::string label(info.labels[i]);
      EXPECT_TRUE(std::regex_match(label, name)) << info.name << " " << label;
      EXPECT_TRUE(seen.insert(info.labels[i]).second) << info.name << " " << label << " twice";
      for (const char* unbounded : {"key", "client", "peer", "le", "quantile", "job", "instance"})
        EXPECT_NE(label, unbounded) << info.name;
    }
  }
}

TEST(MetricTable, HelpIsOneSentenceThatNeedsNoEscape) {
  for (const MetricInfo& info : kMetricTable) {
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_TRUE(info.help.ends_with('.')) << info.name;
    EXPECT_EQ(info.help.find_first_of("\\\n\r"), std::string_view::npos) << info.name;
  }
}

TEST(MetricTable, BucketsGoUpFromTenMicrosecondsToHundredSeconds) {
  EXPECT_DOUBLE_EQ(kHistogramBounds.front(), 1e-5);
  EXPECT_DOUBLE_EQ(kHistogramBounds.back(), 100);
  for (std::size_t i = 1; i < kHistogramBounds.size(); ++i) EXPECT_LT(kHistogramBounds[i - 1], kHistogramBounds[i]);
}

TEST(MetricTable, TheReadmeListsExactlyTheseMetricsAndLabels) {
  std::ifstream file(KEYFERRY_SOURCE_DIR "/lib/telemetry/README.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string readme = text.str();
  ASSERT_FALSE(readme.empty());
  std::set<std::string> listed;
  const std::regex row(R"(\| `(keyferry_[a-z_]+)(\{[a-z,]+\})?` \|)");
  for (std::sregex_iterator it(readme.begin(), readme.end(), row), end; it != end; ++it)
    listed.insert((*it)[1].str() + (*it)[2].str());
  std::set<std::string> wanted;
  for (const MetricInfo& info : kMetricTable) {
    std::string labels;
    for (std::size_t i = 0; i < info.label_count(); ++i) labels += (i == 0 ? "" : ",") + std::string(info.labels[i]);
    wanted.insert(std::string(info.name) + (labels.empty() ? "" : "{" + labels + "}"));
  }
  EXPECT_EQ(listed, wanted);
}

}  // namespace
}  // namespace keyferry::telemetry
