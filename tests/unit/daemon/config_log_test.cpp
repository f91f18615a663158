#include "daemon/config_log.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

namespace keyferry::daemon {
namespace {

TEST(ConfigLog, AJsonLineAlwaysParsesWhateverTheMessageHolds) {
  std::ostringstream out;
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  sink->set_formatter(json_log_formatter());
  spdlog::logger logger("test", sink);
  const std::string ugly = "say \"hi\"\n\\ \x01 \xFF\xC0 end";
  logger.warn(ugly);
  logger.error("second");
  std::istringstream lines(out.str());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto first = nlohmann::json::parse(line);
  EXPECT_EQ(first["level"], "warning");
  EXPECT_EQ(first["message"], "say \"hi\"\n\\ \x01 \xEF\xBF\xBD\xEF\xBF\xBD end");
  EXPECT_TRUE(first["thread"].is_number());
  EXPECT_EQ(first["time"].get<std::string>().size(), std::string("2024-01-01T00:00:00.000+00:00").size());
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["message"], "second");
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(ConfigLog, SetsLevelAndFormatOfTheDefaultLogger) {
  const auto before = spdlog::default_logger();
  ::testing::internal::CaptureStderr();
  set_up_log({"warning", "json"}, "json-test");
  spdlog::info("not shown");
  spdlog::warn("shown");
  spdlog::default_logger()->flush();
  const std::string json = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(nlohmann::json::parse(json)["message"], "shown");
  ::testing::internal::CaptureStderr();
  set_up_log({"debug", "text"}, "text-test");
  spdlog::debug("a line");
  spdlog::default_logger()->flush();
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(" debug ["), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("] a line\n")) << text;
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace keyferry::daemon
