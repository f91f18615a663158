#include <CLI/CLI.hpp>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "daemon/config_log.h"
#include "daemon/config_reference.h"
#include "daemon/daemon.h"
#include "daemon/descriptors.h"
#include "daemon/options.h"

int main(int argc, char** argv) {
  CLI::App app{"keyferryd: gateway daemon between the applications of one host and Valkey"};
  std::string config;
  bool check = false;
  app.set_version_flag("--version", std::string("keyferryd " KEYFERRY_VERSION));
  app.add_option("--config", config, "Configuration file (config/keyferry.yaml is the commented default)")->required();
  app.add_flag("--check-config", check, "Check the file, say what is wrong with it, and exit");
  app.add_flag_callback(
      "--help-config",
      [] {
        std::fputs(keyferry::daemon::config_help().c_str(), stdout);
        throw CLI::Success();
      },
      "Every key of the configuration file with its default, unit and meaning");
  CLI11_PARSE(app, argc, argv);
  // A peer that goes away is an error code where it is written to, not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  // Lets libibverbs, which reads it when it is first used, free what belonged to a device that was removed. Set while
  // there is one thread only.
  ::setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 0);
  try {
    const keyferry::daemon::Options options = keyferry::daemon::load_options(config);
    if (check) {
      std::printf("%s: ok\n", config.c_str());
      return 0;
    }
    keyferry::daemon::set_up_log(options.log, "keyferryd");
    using keyferry::daemon::allow_descriptors, keyferry::daemon::descriptors_needed;
    if (const std::string lack = allow_descriptors(descriptors_needed(options)); !lack.empty())
      spdlog::warn("{}", lack);
    keyferry::daemon::Daemon daemon(options);
    daemon.run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "keyferryd: %s\n", error.what());
    return 1;
  }
}
