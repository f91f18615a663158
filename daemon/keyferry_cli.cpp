// keyferry: the operator's tool.

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

#include "daemon/config_reference.h"
#include "daemon/options.h"
#include "daemon/options_values.h"
#include "telemetry/admin_client.h"
#include "telemetry/status_page.h"

namespace {

using namespace keyferry;

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

int print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return std::fflush(stdout) == 0 ? 0 : kFailed;
}

int complain(const std::string& text) {
  std::fprintf(stderr, "keyferry: %s\n", text.c_str());
  return kFailed;
}

struct CheckConfig {
  std::string file;
  bool reference = false;
  bool standard = false;

  int run() const {
    if (reference) return print(daemon::reference_markdown());
    if (standard) return print(daemon::default_yaml());
    if (file.empty()) {
      complain("check-config needs a FILE, --reference or --default");
      return kWrongUse;
    }
    try {
      daemon::load_options(file);
    } catch (const daemon::ConfigError& wrong) {
      std::fprintf(stderr, "%s\n", wrong.what());
      return kFailed;
    }
    return print(file + ": ok\n");
  }
};

struct Stat {
  std::string admin = "127.0.0.1:9742";
  bool json = false;

  int run() const {
    const auto address = daemon::parse_host_port(admin);
    if (!address) {
      complain("--admin " + admin + ": not HOST:PORT");
      return kWrongUse;
    }
    const auto page = telemetry::fetch_page(address->host, address->port, "/status.json", std::chrono::seconds(10));
    if (!page) return complain(page.error().message);
    if (json) return print(page.value().ends_with('\n') ? page.value() : page.value() + "\n");
    try {
      return print(telemetry::status_text(page.value()));
    } catch (const std::exception& failure) {
      return complain(address->text() + ": " + failure.what());
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The operator's tool of Keyferry.", "keyferry"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "keyferry " KEYFERRY_VERSION);

  CheckConfig check;
  CLI::App* check_command =
      app.add_subcommand("check-config", "Check a configuration file; exit 1 and a line per mistake if there is one.");
  check_command->add_option("FILE", check.file, "The file to check.");
  check_command->add_flag("--reference", check.reference, "Print the reference of all keys (Markdown).");
  check_command->add_flag("--default", check.standard, "Print the commented default file.");

  CLI::App* version_command = app.add_subcommand("version", "Print the version.");

  Stat stat;
  CLI::App* stat_command = app.add_subcommand("stat", "Show what a running keyferryd is doing.");
  stat_command->add_option("--admin", stat.admin, "HOST:PORT of admin.http.")->capture_default_str();
  stat_command->add_flag("--json", stat.json, "Print the JSON as it came.");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? 0 : kWrongUse;
  }
  if (check_command->parsed()) return check.run();
  if (version_command->parsed()) return print("keyferry " KEYFERRY_VERSION "\n");
  return stat.run();
}
