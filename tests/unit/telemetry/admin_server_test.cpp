#include "telemetry/admin_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <stdexcept>
#include <thread>

#include "base/fd.h"
#include "telemetry/admin_client.h"
#include "telemetry/registry.h"
#include "tests/unit/telemetry/exposition.h"

namespace keyferry::telemetry {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A plain blocking socket, so that what is tested is bytes. Reads give up after 20 s, which only a broken server
/// needs.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{20, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("connect");
  }

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server may close in the middle; what it said is read below
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  /// All that comes until the server closes.
  std::string read_all() {
    while (read_more()) {
    }
    return std::exchange(pending_, {});
  }

  /// One response: headers and as many bytes of body as they announce (none after HEAD).
  std::string read_response(bool head = false) {
    std::size_t end = std::string::npos;
    while ((end = pending_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) return "closed";
    }
    const std::size_t at = pending_.find("Content-Length: ");
    const std::size_t length = head ? 0 : std::stoul(pending_.substr(at + 16));
    while (pending_.size() < end + 4 + length) {
      if (!read_more()) return "cut off";
    }
    std::string response = pending_.substr(0, end + 4 + length);
    pending_.erase(0, end + 4 + length);
    return response;
  }

  std::string get(const std::string& path) {
    send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return read_response();
  }

 private:
  bool read_more() {
    char chunk[4096];
    const ssize_t count = ::recv(socket_.get(), chunk, sizeof chunk, 0);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      throw std::runtime_error("the server neither answers nor closes");
    if (count <= 0) return false;
    pending_.append(chunk, static_cast<std::size_t>(count));
    return true;
  }

  base::Fd socket_;
  std::string pending_;
};

std::string body_of(const std::string& response) {
  const std::size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? std::string() : response.substr(end + 4);
}

/// A server on its own thread, stopped by the destructor. The handlers' answers can be changed before requests are
/// made.
class AdminServerTest : public ::testing::Test {
 protected:
  void start(AdminLimits limits = {}) {
    AdminHandlers handlers;
    handlers.metrics = [this] {
      if (fail_) throw std::runtime_error("no metrics today");
      return registry_.scrape();
    };
    handlers.ready = [this] { return Health{ready_, "no server at 127.0.0.1:6379"}; };
    handlers.healthy = [] { return Health{true, ""}; };
    handlers.status_json = [this](AdminHandlers::StatusDone done) {
      if (fail_) throw std::runtime_error("no status today");
      if (!hold_status_) return done(status_);
      held_ = std::move(done);
    };
    handlers.reports["/clients.json"] = [](AdminHandlers::Rows rows, AdminHandlers::StatusDone done) {
      done("{\"clients\":[],\"asked\":\"" + std::to_string(rows.after) + "/" + std::to_string(rows.limit) + "\"}");
    };
    if (may_kill_) {
      handlers.kill = [this](std::uint64_t id, AdminHandlers::KillDone done) {
        killed_ = id;
        done(id == 7);
      };
    }
    auto made = AdminServer::start(loop_, "127.0.0.1", 0, std::move(handlers), limits);
    ASSERT_TRUE(made) << made.error().message;
    server_ = std::move(made.value());
    port_ = server_->port();
    thread_ = std::thread([this] { loop_.run("admin"); });
  }

  void TearDown() override {
    if (!thread_.joinable()) return;
    on_loop([this] { server_.reset(); });
    loop_.stop();
    thread_.join();
  }

  template <typename F>
  void on_loop(F work) {
    std::promise<void> done;
    loop_.post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  base::Loop loop_;
  Registry registry_;
  std::unique_ptr<AdminServer> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
  bool may_kill_ = true;
  std::atomic<std::uint64_t> killed_{0};
  std::atomic<bool> ready_{true};
  std::atomic<bool> fail_{false};
  std::atomic<bool> hold_status_{false};
  std::string status_ = R"({"version": "1.2.3", "lanes": [{"node": "a", "state": "idle"}]})";
  AdminHandlers::StatusDone held_;
};

TEST_F(AdminServerTest, MetricsAreServedByTheRulesOfTheTextFormat) {
  Shard& shard = registry_.add_shard();
  shard.counter(Metric::kTransfersTotal, {"set", "rdma", "ok"}).add(2);
  shard.histogram(Metric::kTransferStageSeconds, {"set", "wire"}).observe(0.003);
  start();
  const std::string response = RawClient(port_).get("/metrics");
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(response, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  std::vector<std::string> faults;
  const auto families = testing::parse_exposition(body_of(response), faults);
  EXPECT_THAT(faults, ::testing::IsEmpty());
  EXPECT_EQ(families.at("keyferry_transfers_total").samples.begin()->second, 2);
  EXPECT_EQ(families.at("keyferry_transfer_stage_seconds").type, "histogram");
}

TEST_F(AdminServerTest, R121HealthPagesSayWhyNot) {
  start();
  RawClient client(port_);
  EXPECT_THAT(client.get("/healthz"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(client.get("/readyz"), StartsWith("HTTP/1.1 200 OK\r\n"));
  ready_ = false;
  const std::string response = client.get("/readyz");
  EXPECT_THAT(response, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_EQ(body_of(response), "no server at 127.0.0.1:6379\n");
}

TEST_F(AdminServerTest, StatusComesAsJsonAndAsAPageMadeFromIt) {
  start();
  RawClient client(port_);
  const std::string json = client.get("/status.json?pretty=1");
  EXPECT_THAT(json, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_EQ(body_of(json), status_);
  const std::string page = client.get("/status");
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(page, HasSubstr("<td>1.2.3</td>"));
}

TEST_F(AdminServerTest, OneConnectionServesManyRequestsAlsoPipelined) {
  start();
  RawClient client(port_);
  client.send(
      "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\n\r\nGET /readyz HTTP/1.1\r\nHost: "
      "x\r\n\r\n");
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200"));
  client.send("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.read_all(), HasSubstr("Connection: close\r\n"));
}

TEST_F(AdminServerTest, ARequestMayComeByteByByteAndAsHttp10) {
  start();
  RawClient client(port_);
  for (const char c : std::string_view("GET /healthz HTTP/1.0\r\n\r\n")) client.send({&c, 1});
  const std::string response = client.read_all();
  EXPECT_THAT(response, StartsWith("HTTP/1.0 200 OK\r\n"));
  EXPECT_EQ(body_of(response), "ok\n");
}

TEST_F(AdminServerTest, HeadGivesTheHeadersOfGetWithoutItsBody) {
  start();
  RawClient client(port_);
  client.send("HEAD /status.json HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string response = client.read_response(true);
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(response, HasSubstr("Content-Length: " + std::to_string(status_.size()) + "\r\n"));
  // The connection goes on, and the next bytes are the next response.
  EXPECT_THAT(client.get("/healthz"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(AdminServerTest, OtherMethodsAndPathsGetTheirStatus) {
  start();
  RawClient client(port_);
  client.send("DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string refused = client.read_response();
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"));
  EXPECT_THAT(refused, HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_THAT(client.get("/metricsx"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(client.get("/../etc/passwd"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
}

TEST_F(AdminServerTest, ABodyIsNotTakenAndEndsTheConnection) {
  start();
  RawClient client(port_);
  client.send("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
  const std::string response = client.read_all();
  EXPECT_THAT(response, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
}

TEST_F(AdminServerTest, AnEndlessBodyIsCutOff) {
  start();
  RawClient client(port_);
  client.send("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
  const std::string megabyte(1024 * 1024, 'x');
  for (int i = 0; i < 16; ++i) client.send(megabyte);
  client.read_all();  // returns: the server has closed
  EXPECT_THAT(RawClient(port_).get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(AdminServerTest, HugeHeadersAndGarbageAreRefused) {
  start();
  RawClient huge(port_);
  huge.send("GET /healthz HTTP/1.1\r\nX: " + std::string(100 * 1024, 'a') + "\r\n\r\n");
  EXPECT_THAT(huge.read_all(), StartsWith("HTTP/1.1 431"));
  RawClient garbage(port_);
  garbage.send("*1\r\n$4\r\nPING\r\n\r\n");
  EXPECT_THAT(garbage.read_all(), StartsWith("HTTP/1.1 400"));
  RawClient binary(port_);
  binary.send(std::string(64, '\0') + "\r\n\r\n");
  EXPECT_THAT(binary.read_all(), StartsWith("HTTP/1.1 400"));
}

TEST_F(AdminServerTest, AnUnfinishedRequestIsClosedAfterItsTime) {
  AdminLimits limits;
  limits.request_time = 50ms;
  start(limits);
  RawClient client(port_);
  client.send("GET /healthz HT");
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(AdminServerTest, MoreConnectionsThanTheLimitAreClosedAtOnce) {
  AdminLimits limits;
  limits.connections = 2;
  start(limits);
  RawClient one(port_);
  RawClient two(port_);
  EXPECT_THAT(one.get("/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(two.get("/healthz"), StartsWith("HTTP/1.1 200"));
  RawClient three(port_);
  EXPECT_EQ(three.read_all(), "");
  EXPECT_THAT(one.get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(AdminServerTest, AStatusThatNeverComesIsA503AndALateOneIsIgnored) {
  AdminLimits limits;
  limits.status_time = 20ms;
  start(limits);
  hold_status_ = true;
  RawClient client(port_);
  const std::string response = client.get("/status.json");
  EXPECT_THAT(response, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(body_of(response), HasSubstr("did not come in time"));
  on_loop([this] { held_("{}"); });
  EXPECT_THAT(client.get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(AdminServerTest, AStatusForAClientThatLeftHarmsNobody) {
  start();
  hold_status_ = true;
  {
    RawClient client(port_);
    client.send("GET /status HTTP/1.1\r\nHost: x\r\n\r\n");
    bool asked = false;
    while (!asked) on_loop([&] { asked = static_cast<bool>(held_); });
  }
  on_loop([this] { held_("{}"); });
  EXPECT_THAT(RawClient(port_).get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(AdminServerTest, AHandlerThatThrowsIsA500AndTheServerGoesOn) {
  start();
  fail_ = true;
  RawClient client(port_);
  const std::string response = client.get("/metrics");
  EXPECT_THAT(response, StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(response, HasSubstr("no metrics today"));
  EXPECT_THAT(client.get("/status.json"), StartsWith("HTTP/1.1 500"));
  fail_ = false;
  status_ = "no json";
  EXPECT_THAT(client.get("/status"), StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(client.get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(AdminServerTest, StopsWithConnectionsOpenAndAStatusOwed) {
  start();
  hold_status_ = true;
  RawClient idle(port_);
  EXPECT_THAT(idle.get("/healthz"), StartsWith("HTTP/1.1 200"));
  RawClient waiting(port_);
  waiting.send("GET /status HTTP/1.1\r\nHost: x\r\n\r\n");
  bool asked = false;
  while (!asked) on_loop([&] { asked = static_cast<bool>(held_); });
  on_loop([this] { server_.reset(); });
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_EQ(waiting.read_all(), "");
  on_loop([this] { held_("{}"); });
}

TEST_F(AdminServerTest, R120ATakenPortIsOneErrorThatNamesCauseAndFix) {
  start();
  const auto second = AdminServer::start(loop_, "127.0.0.1", port_, AdminHandlers{});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message,
            "the admin pages can't be served on 127.0.0.1:" + std::to_string(port_) +
                ": Address already in use; set admin.http to a free address of this host, or to off");
  const auto elsewhere = AdminServer::start(loop_, "192.0.2.1", 1, AdminHandlers{});
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().message, HasSubstr("192.0.2.1:1"));
  EXPECT_FALSE(AdminServer::start(loop_, "no-number", 1, AdminHandlers{}));
}

TEST_F(AdminServerTest, TheToolsClientFetchesPagesAndReportsFailures) {
  start();
  auto json = fetch_page("127.0.0.1", port_, "/status.json", 20s);
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json.value(), status_);
  ready_ = false;
  const auto not_ready = fetch_page("127.0.0.1", port_, "/readyz", 20s);
  ASSERT_FALSE(not_ready);
  EXPECT_THAT(not_ready.error().message, HasSubstr("answered 503: no server at 127.0.0.1:6379"));
  hold_status_ = true;
  const auto late = fetch_page("127.0.0.1", port_, "/status.json", 20ms);
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("could not read the reply: no answer in time"));
  const std::uint16_t port = port_;
  on_loop([this] { server_.reset(); });
  const auto refused = fetch_page("127.0.0.1", port, "/status.json", 20s);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("could not connect: Connection refused; is it running"));
}

TEST_F(AdminServerTest, FurtherReportsHavePagesOfTheirOwn) {
  start();
  RawClient client(port_);
  EXPECT_THAT(client.get("/clients.json"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("{\"clients\":[],\"asked\":\"0/5000\"}")));
  EXPECT_THAT(client.get("/clients.json?after=70&limit=3"), HasSubstr("\"asked\":\"70/3\""));
  EXPECT_THAT(client.get("/clients.json?limit=99999999"), HasSubstr("\"asked\":\"0/5000\""));
  for (const char* wrong : {"after=", "after=x", "limit=0", "after=1&user=a", "after=-1"})
    EXPECT_THAT(client.get(std::string("/clients.json?") + wrong), StartsWith("HTTP/1.1 400")) << wrong;
  EXPECT_THAT(client.get("/nothing"), HasSubstr("/status.json /clients.json\n"));
}

TEST_F(AdminServerTest, AClientIsEndedByAPostWithTheHeaderThatNoWebPageCanSend) {
  start();
  EXPECT_EQ(post_control("127.0.0.1", port_, "/kill?id=7", 20s).value(), "ended\n");
  EXPECT_EQ(killed_, 7u);
  EXPECT_THAT(post_control("127.0.0.1", port_, "/kill?id=8", 20s).error().message,
              HasSubstr("answered 404: there is no client 8"));
  killed_ = 0;
  for (const char* target : {"/kill", "/kill?id=", "/kill?id=7x", "/kill?id=-1", "/kill?id=99999999999999999999"}) {
    EXPECT_THAT(post_control("127.0.0.1", port_, target, 20s).error().message, HasSubstr("answered 400"));
  }
  EXPECT_THAT(post_control("127.0.0.1", port_, "/status.json", 20s).error().message, HasSubstr("answered 405"));
  RawClient simple(port_);
  simple.send("POST /kill?id=7 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
  EXPECT_THAT(simple.read_response(), AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("X-Keyferry-Control is missing")));
  for (const char* lines : {"Host: evil.example:9742\r\n", "Host: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n"}) {
    RawClient page(port_);
    page.send(std::string("POST /kill?id=7 HTTP/1.1\r\n") + lines + kControlHeader +
              ": 1\r\nContent-Length: 0\r\n\r\n");
    EXPECT_THAT(page.read_response(), AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("from a page"))) << lines;
  }
  EXPECT_THAT(RawClient(port_).get("/kill?id=7"), StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(killed_, 0u);
}

TEST_F(AdminServerTest, WhereClientsMayNotBeEndedThePostIsRefused) {
  may_kill_ = false;
  start();
  EXPECT_THAT(post_control("127.0.0.1", port_, "/kill?id=7", 20s).error().message,
              HasSubstr("answered 403: ending clients is not allowed here (admin.kill)"));
}

}  // namespace
}  // namespace keyferry::telemetry
