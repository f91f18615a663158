#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "daemon/daemon.h"
#include "daemon/options.h"

namespace {

void set_up_log(const keyferry::daemon::LogOptions& options) {
  auto logger = spdlog::stderr_logger_mt("keyferryd");
  spdlog::set_default_logger(logger);
  spdlog::set_level(spdlog::level::from_str(options.level));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l [%t] %v");
  spdlog::flush_on(spdlog::level::info);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"keyferryd: gateway daemon between the applications of one host and Valkey"};
  std::string config;
  bool check = false;
  app.set_version_flag("--version", std::string("keyferryd " KEYFERRY_VERSION));
  app.add_option("--config", config, "Configuration file (config/keyferry.yaml is the commented default)")->required();
  app.add_flag("--check-config", check, "Check the file, say what is wrong with it, and exit");
  CLI11_PARSE(app, argc, argv);
  // A peer that goes away is an error code where it is written to, not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const keyferry::daemon::Options options = keyferry::daemon::load_options(config);
    if (check) {
      std::printf("%s: ok\n", config.c_str());
      return 0;
    }
    set_up_log(options.log);
    keyferry::daemon::Daemon daemon(options);
    daemon.run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "keyferryd: %s\n", error.what());
    return 1;
  }
}
