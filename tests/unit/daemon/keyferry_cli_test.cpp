// The operator's tool, run as a program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>
#include <thread>

#include "base/loop.h"
#include "daemon/config_reference.h"
#include "telemetry/admin_server.h"

namespace keyferry::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit = -1;
  /// Standard output and error.
  std::string text;
};

Outcome keyferry(const std::string& arguments) {
  Outcome outcome;
  FILE* pipe = ::popen((std::string(KEYFERRY_TOOL) + " " + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char chunk[4096];
  for (std::size_t count = 0; (count = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;)
    outcome.text.append(chunk, count);
  const int status = ::pclose(pipe);
  outcome.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// An admin listener with a given status, on its own thread.
class FakeDaemon {
 public:
  explicit FakeDaemon(std::string status) : status_(std::move(status)) {
    telemetry::AdminHandlers handlers;
    handlers.status_json = [this](telemetry::AdminHandlers::StatusDone done) { done(status_); };
    handlers.reports["/clients.json"] = [](telemetry::AdminHandlers::Rows, telemetry::AdminHandlers::StatusDone done) {
      done(R"({"clients":[{"id":7,"name":"a"}]})");
    };
    handlers.reports["/channels.json"] = [](telemetry::AdminHandlers::Rows rows,
                                            telemetry::AdminHandlers::StatusDone done) {
      done(rows.after == 0 ? R"({"channels":[{"server_id":1},{"server_id":2}],"after":2})"
                           : R"({"channels":[{"server_id":)" + std::to_string(rows.after + 1) + "}]}");
    };
    handlers.kill = [](std::uint64_t id, telemetry::AdminHandlers::KillDone done) { done(id == 7); };
    server_ = std::move(telemetry::AdminServer::start(loop_, "127.0.0.1", 0, std::move(handlers)).value());
    port_ = server_->port();
    thread_ = std::thread([this] { loop_.run("admin"); });
  }
  ~FakeDaemon() {
    loop_.stop();
    thread_.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  std::string status_;
  base::Loop loop_;
  std::unique_ptr<telemetry::AdminServer> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

TEST(KeyferryCli, CheckConfigAcceptsGoodFilesAndNamesEveryMistake) {
  const std::string good = std::string(KEYFERRY_SOURCE_DIR) + "/config/keyferry.yaml";
  EXPECT_EQ(keyferry("check-config " + good).text, good + ": ok\n");
  const std::string bad = ::testing::TempDir() + "keyferry-cli-bad.yaml";
  FILE* file = std::fopen(bad.c_str(), "w");
  std::fputs("workers: none\npool: {size: 5}\n", file);
  std::fclose(file);
  const Outcome outcome = keyferry("check-config " + bad);
  EXPECT_EQ(outcome.exit, 1);
  EXPECT_THAT(outcome.text, HasSubstr(bad + ":1: workers: \"none\""));
  EXPECT_THAT(outcome.text, HasSubstr(bad + ":2: pool.size: \"5\""));
  std::remove(bad.c_str());
  EXPECT_EQ(keyferry("check-config /nowhere.yaml").exit, 1);
}

TEST(KeyferryCli, PrintsTheReferenceTheDefaultsAndTheVersion) {
  EXPECT_EQ(keyferry("check-config --reference").text, reference_markdown());
  EXPECT_EQ(keyferry("check-config --default").text, default_yaml());
  EXPECT_EQ(keyferry("version").text, "keyferry " KEYFERRY_VERSION "\n");
}

TEST(KeyferryCli, StatShowsTheStatusAsTablesOrAsJson) {
  const FakeDaemon daemon(R"({"version":"9.9","lanes":[{"node":"n","state":"idle"}]})");
  const Outcome table = keyferry("stat --admin " + daemon.address());
  EXPECT_EQ(table.exit, 0);
  EXPECT_EQ(table.text, "keyferryd\n  version  9.9\n\nlanes\n  node  state\n  n     idle\n");
  EXPECT_EQ(keyferry("stat --json --admin " + daemon.address()).text,
            "{\"version\":\"9.9\",\"lanes\":[{\"node\":\"n\",\"state\":\"idle\"}]}\n");
}

TEST(KeyferryCli, StatGetsAllRowsWherePagesHaveAPartOfThem) {
  const FakeDaemon daemon("{}");
  EXPECT_EQ(keyferry("stat channels --json --admin " + daemon.address()).text,
            "{\"channels\":[{\"server_id\":1},{\"server_id\":2},{\"server_id\":3}]}\n");
}

TEST(KeyferryCli, StatSaysWhyThereIsNothingToShow) {
  const Outcome refused = keyferry("stat --admin 127.0.0.1:1");
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.text, HasSubstr("127.0.0.1:1: could not connect: Connection refused; is it running"));
  const FakeDaemon broken("no json");
  const Outcome bad = keyferry("stat --admin " + broken.address());
  EXPECT_EQ(bad.exit, 1);
  EXPECT_THAT(bad.text, HasSubstr("the status is not a JSON object"));
  EXPECT_EQ(keyferry("stat --admin nonsense").exit, 2);
}

TEST(KeyferryCli, WrongUseIsExitTwoAndHelpNamesOnlyWhatThereIs) {
  for (const char* wrong : {"", "drain", "check-config", "stat --bogus", "version extra", "doctor --pid x"})
    EXPECT_EQ(keyferry(wrong).exit, 2) << wrong;
  const Outcome help = keyferry("--help");
  EXPECT_EQ(help.exit, 0);
  for (const char* there : {"check-config", "doctor"}) EXPECT_THAT(help.text, HasSubstr(there));
  for (const char* later : {"bench", "drain"}) EXPECT_THAT(help.text, Not(HasSubstr(later)));
}

TEST(KeyferryTool, StatShowsClientsAndKillEndsOne) {
  const FakeDaemon daemon("{}");
  const std::string there = " --admin " + daemon.address();
  EXPECT_EQ(keyferry("stat clients" + there).text, "keyferryd\n\nclients\n  id  name\n  7   a\n");
  EXPECT_THAT(keyferry("stat slow" + there).text, HasSubstr("answered 404"));
  EXPECT_EQ(keyferry("stat nothing" + there).exit, 2);
  const Outcome ended = keyferry("kill id=7" + there);
  EXPECT_EQ(ended.exit, 0);
  EXPECT_EQ(ended.text, "client 7 has ended\n");
  const Outcome none = keyferry("kill id=8" + there);
  EXPECT_EQ(none.exit, 1);
  EXPECT_THAT(none.text, HasSubstr("there is no client 8"));
  EXPECT_EQ(keyferry("kill 7" + there).exit, 2);
  EXPECT_EQ(keyferry("kill id=x" + there).exit, 2);
  EXPECT_EQ(keyferry("kill" + there).exit, 2);
}

}  // namespace
}  // namespace keyferry::daemon
