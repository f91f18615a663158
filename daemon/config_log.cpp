#include "daemon/config_log.h"

#include <nlohmann/json.hpp>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

namespace keyferry::daemon {

namespace {

constexpr const char* kTime = "%Y-%m-%dT%H:%M:%S.%e%z";

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    spdlog::memory_buf_t time;
    time_.format(message, time);
    const auto level = spdlog::level::to_string_view(message.level);
    nlohmann::ordered_json line;
    line["time"] = std::string(time.data(), time.size());
    line["level"] = std::string(level.data(), level.size());
    line["thread"] = message.thread_id;
    line["message"] = std::string(message.payload.data(), message.payload.size());
    // Bytes that are no UTF-8 (a server's error text can hold any) are replaced: a line must always parse.
    const std::string text = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }

 private:
  spdlog::pattern_formatter time_{kTime, spdlog::pattern_time_type::local, ""};
};

}  // namespace

std::unique_ptr<spdlog::formatter> json_log_formatter() {
  return std::make_unique<JsonFormatter>();
}

void set_up_log(const LogOptions& options, const std::string& name) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt(name));
  spdlog::set_level(spdlog::level::from_str(options.level));
  spdlog::flush_on(spdlog::level::info);
  if (options.format == "json") {
    spdlog::set_formatter(json_log_formatter());
  } else {
    spdlog::set_pattern(std::string(kTime) + " %l [%t] %v");
  }
}

}  // namespace keyferry::daemon
