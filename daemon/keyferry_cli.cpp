// keyferry: the operator's tool.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "daemon/config_reference.h"
#include "daemon/doctor.h"
#include "daemon/options.h"
#include "daemon/options_values.h"
#include "telemetry/admin_client.h"
#include "telemetry/status_page.h"

namespace {

using namespace keyferry;

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;
constexpr base::Duration kPatience = std::chrono::seconds(10);

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

constexpr const char* kAdmin = "127.0.0.1:9742";

struct Stat {
  base::Result<std::string> whole(const std::string& host, std::uint16_t port) const;

  std::string what = "status";
  std::string admin = kAdmin;
  bool json = false;

  int run() const {
    const auto address = daemon::parse_host_port(admin);
    if (!address) {
      complain("--admin " + admin + ": not HOST:PORT");
      return kWrongUse;
    }
    const auto page = whole(address->host, address->port);
    if (!page) return complain(page.error().message);
    if (json) return print(page.value().ends_with('\n') ? page.value() : page.value() + "\n");
    try {
      return print(telemetry::status_text(page.value()));
    } catch (const std::exception& failure) {
      return complain(address->text() + ": " + failure.what());
    }
  }
};

/// All rows; where there are many they come by several pages, of which each names the next.
base::Result<std::string> Stat::whole(const std::string& host, std::uint16_t port) const {
  const std::string path = "/" + what + ".json";
  auto page = telemetry::fetch_page(host, port, path, kPatience);
  if (!page || what == "status") return page;
  auto all = nlohmann::ordered_json::parse(page.value(), nullptr, false);
  if (!all.is_object() || !all.contains("after")) return page;
  auto more = all;
  while (more.contains("after")) {
    const std::string next = path + "?after=" + more["after"].dump();
    page = telemetry::fetch_page(host, port, next, kPatience);
    if (!page) return page;
    more = nlohmann::ordered_json::parse(page.value(), nullptr, false);
    if (!more.is_object() || !more[what].is_array()) return base::Error{next + ": no rows came", EPROTO};
    for (auto& row : more[what]) all[what].push_back(std::move(row));
  }
  all.erase("after");
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

struct Kill {
  std::string filter;
  std::string admin = kAdmin;

  int run() const {
    const auto address = daemon::parse_host_port(admin);
    if (!address) {
      complain("--admin " + admin + ": not HOST:PORT");
      return kWrongUse;
    }
    const std::string id = filter.starts_with("id=") ? filter.substr(3) : "";
    if (id.empty() || id.size() > 19 || id.find_first_not_of("0123456789") != std::string::npos) {
      complain("kill " + filter + ": it is kill id=N, with an id of `keyferry stat clients`");
      return kWrongUse;
    }
    const auto ended =
        telemetry::post_control(address->host, address->port, "/kill?id=" + id, std::chrono::seconds(10));
    if (!ended) return complain(ended.error().message);
    return print("client " + id + " has ended\n");
  }
};

struct Doctor {
  std::string file;
  std::string process = "self";
  bool json = false;

  int run() const {
    if (process != "self" && process.find_first_not_of("0123456789") != std::string::npos) {
      complain("--pid " + process + ": not a number");
      return kWrongUse;
    }
    if (!std::filesystem::exists("/proc/" + process))
      return complain("--pid " + process + ": there is no such process");
    daemon::Options options;
    try {
      options = file.empty() ? daemon::default_options() : daemon::load_options(file);
    } catch (const daemon::ConfigError& wrong) {
      std::fprintf(stderr, "%s\n", wrong.what());
      return kFailed;
    }
    const auto checks = daemon::examine(daemon::examine_host(options, process), daemon::needs_of(options));
    const int printed = print(json ? daemon::report_json(checks) : daemon::report_text(checks));
    return daemon::all_well(checks) ? printed : kFailed;
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
  stat_command
      ->add_option("WHAT", stat.what,
                   "status; clients: each local client; channels: each connection to the server and which clients are "
                   "on it; slow: what took long lately.")
      ->check(CLI::IsMember({"status", "clients", "channels", "slow"}))
      ->capture_default_str();
  stat_command->add_option("--admin", stat.admin, "HOST:PORT of admin.http.")->capture_default_str();
  stat_command->add_flag("--json", stat.json, "Print the JSON as it came.");

  Kill kill;
  CLI::App* kill_command = app.add_subcommand("kill", "End a local client of a keyferryd on this host.");
  kill_command->add_option("FILTER", kill.filter, "id=N, as `keyferry stat clients` shows it.")->required();
  kill_command->add_option("--admin", kill.admin, "HOST:PORT of admin.http.")->capture_default_str();

  Doctor doctor;
  CLI::App* doctor_command = app.add_subcommand(
      "doctor", "Say what this host lacks for a configuration: a line per check, exit 1 if one fails.");
  doctor_command->add_option("--config", doctor.file, "The configuration; left out: the defaults.");
  doctor_command->add_option("--pid", doctor.process, "Judge this process's limits instead of one's own.");
  doctor_command->add_flag("--json", doctor.json, "Print JSON.");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? 0 : kWrongUse;
  }
  if (check_command->parsed()) return check.run();
  if (version_command->parsed()) return print("keyferry " KEYFERRY_VERSION "\n");
  if (kill_command->parsed()) return kill.run();
  if (doctor_command->parsed()) return doctor.run();
  return stat.run();
}
