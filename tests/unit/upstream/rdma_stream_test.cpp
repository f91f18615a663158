// What no device here can be told to do, and the refusals without a text: the transport before a scripted connection
// manager.

#include <array>
#include <filesystem>
#include <fstream>

#include "tests/unit/upstream/harness.h"
#include "tests/unit/upstream/scripted_rdma.h"
#include "upstream/rdma_route.h"
#include "upstream/rdma_transport.h"
#include "upstream/rdma_tuning.h"

namespace keyferry::upstream {

namespace {

using std::chrono::milliseconds;
using test::ScriptedRdma;
using testing::HasSubstr;

class RdmaStream : public testing::Test {
 protected:
  RdmaStream() {
    std::string name = std::filesystem::temp_directory_path() / "keyferry-XXXXXX";
    devices_ = ::mkdtemp(name.data());
    std::ofstream(devices_ / "scripted0");
    rdma_tuning().devices = devices_;
  }
  ~RdmaStream() override {
    rdma_tuning() = {};
    std::filesystem::remove_all(devices_);
  }

  void dial() {
    const sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    Endpoint endpoint;
    std::memcpy(&endpoint.storage, &address, sizeof(address));
    endpoint.length = sizeof(address);
    transport = std::move(make_rdma_transport(loop, {.port = 6379, .completion_vector = vector}).value());
    transport->dial(endpoint, [this](base::Result<std::unique_ptr<base::Stream>> result) {
      if (result) {
        stream = std::move(result.value());
      } else {
        error = std::string(transport->step()) + ": " + result.error().message;
      }
    });
  }
  void connect() {
    dial();
    run_until(loop, [&] { return stream || !error.empty(); });
    ASSERT_TRUE(stream) << error;
  }
  /// Why the dial failed.
  std::string refusal() {
    dial();
    run_until(loop, [&] { return stream || !error.empty(); });
    return error;
  }

  struct Read {
    bool done = false;
    std::string text;
    std::string error;
  };
  void start_read(Read& into) {
    const base::MutableBytes target(reinterpret_cast<std::byte*>(room_.data()), room_.size());
    stream->async_read(std::span(&target, 1), [this, &into](std::error_code code, std::size_t count) {
      into = {true, room_.substr(0, count), code ? code.message() : ""};
    });
  }
  Read read() {
    Read outcome;
    start_read(outcome);
    run_until(loop, [&] { return outcome.done; });
    return outcome;
  }
  /// Runs what is ready until nothing is.
  void settle() {
    int turns = 0;
    while (turns < 1000 && loop.context().poll_one() != 0) ++turns;
    ASSERT_LT(turns, 1000) << "the loop turns in circles";
  }
  void expect_rest() {
    settle();
    EXPECT_EQ(rdma.asked_in_vain(), 0U);
  }

  ScriptedRdma rdma;
  base::Loop loop;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<base::Stream> stream;
  std::string error;
  std::filesystem::path devices_;
  unsigned vector = 0;

 private:
  std::string room_ = std::string(4096, '\0');
};

TEST_F(RdmaStream, what_is_written_arrives_and_what_is_answered_is_read) {
  connect();
  bool written = false;
  const base::ConstBytes bytes = base::as_bytes(std::string_view("PING\r\n"));
  stream->async_write(std::span(&bytes, 1), [&](std::error_code code, std::size_t count) {
    EXPECT_FALSE(code);
    EXPECT_EQ(count, 6U);
    written = true;
  });
  run_until(loop, [&] { return written; });
  EXPECT_EQ(rdma.received(0), "PING\r\n");
  rdma.reply(0, "+PONG\r\n");
  EXPECT_EQ(read().text, "+PONG\r\n");
  stream.reset();
  run_until(loop, [&] { return rdma.objects() == 0; });
}

TEST_F(RdmaStream, commands_that_are_written_together_notify_the_server_once) {
  connect();
  std::size_t written = 0;
  const std::array<base::ConstBytes, 3> commands = {base::as_bytes(std::string_view("PING\r\n")),
                                                    base::as_bytes(std::string_view("ECHO a\r\n")),
                                                    base::as_bytes(std::string_view("PING\r\n"))};
  stream->async_write(commands, [&](std::error_code, std::size_t count) { written = count; });
  run_until(loop, [&] { return written != 0; });
  EXPECT_EQ(rdma.received(0), "PING\r\nECHO a\r\nPING\r\n");
  EXPECT_EQ(rdma.notices(0), 1U);
}

TEST_F(RdmaStream, R64_an_idle_connection_says_Keepalive) {
  connect();
  EXPECT_EQ(rdma.keepalives(0), 0U);
  // The first interval has seen the announcement go out.
  run_until(loop, [&] { return rdma.keepalives(0) == 1; });
}

TEST_F(RdmaStream, the_queue_of_a_connection_signals_by_the_completion_vector_asked_for_modulo_their_number) {
  rdma.vectors = 4;
  for (const unsigned wanted : {0U, 3U, 6U}) {
    vector = wanted;
    connect();
    stream.reset();
  }
  EXPECT_THAT(rdma.vectors_taken, testing::ElementsAre(0, 3, 2));
}

TEST_F(RdmaStream, a_device_that_is_removed_ends_the_connection_and_the_loop_rests) {
  connect();
  Read outcome;
  start_read(outcome);
  rdma.remove_device();
  run_until(loop, [&] { return outcome.done; });
  EXPECT_EQ(outcome.error, "the RDMA device was removed");
  expect_rest();
  const base::ConstBytes bytes = base::as_bytes(std::string_view("PING\r\n"));
  stream->async_write(std::span(&bytes, 1), [](std::error_code code, std::size_t) { EXPECT_TRUE(code); });
  expect_rest();
  // No farewell is waited for.
  stream.reset();
  settle();
  EXPECT_EQ(rdma.objects(), 0U);
}

TEST_F(RdmaStream, a_removed_device_that_the_completion_queue_shows_first_ends_the_connection_and_the_loop_rests) {
  for (const bool descriptor_fails : {true, false}) {
    ScriptedRdma fresh;
    fresh.descriptor_fails = descriptor_fails;
    connect();
    Read outcome;
    start_read(outcome);
    fresh.remove_device(false);
    run_until(loop, [&] { return outcome.done; });
    EXPECT_EQ(outcome.error, "the RDMA device was removed");
    settle();
    // Arming says it once, where reading has not.
    EXPECT_EQ(fresh.asked_in_vain(), descriptor_fails ? 0U : 1U);
    // The connection manager's word comes to one that is over already.
    fresh.tell_removal();
    settle();
    stream.reset();
    settle();
    EXPECT_EQ(fresh.objects(), 0U);
  }
}

TEST_F(RdmaStream, a_removed_device_that_the_completion_queue_shows_first_ends_a_dial_and_a_farewell_too) {
  connect();
  rdma.says_farewell = false;
  stream.reset();
  settle();
  EXPECT_GT(rdma.objects(), 0U) << "the server's answer is waited for";
  rdma.remove_device(false);
  settle();
  EXPECT_EQ(rdma.objects(), 0U);

  ScriptedRdma fresh;
  fresh.announces = false;
  dial();
  settle();
  fresh.remove_device(false);
  run_until(loop, [&] { return !error.empty(); });
  EXPECT_THAT(error, HasSubstr("the RDMA device was removed"));
  settle();
  EXPECT_EQ(fresh.objects(), 0U);
}

TEST_F(RdmaStream, what_had_arrived_before_the_device_was_removed_is_still_read) {
  connect();
  rdma.reply(0, "+early\r\n");
  settle();
  rdma.remove_device();
  settle();
  expect_rest();
  EXPECT_EQ(read().text, "+early\r\n");
  EXPECT_EQ(read().error, "the RDMA device was removed");
}

TEST_F(RdmaStream, a_connection_that_spins_rests_too_when_its_device_is_removed) {
  rdma_tuning().spin = std::chrono::hours(1);
  connect();
  rdma.reply(0, "+spin\r\n");
  EXPECT_EQ(read().text, "+spin\r\n");
  rdma.remove_device();
  Read outcome;
  start_read(outcome);
  run_until(loop, [&] { return outcome.done; });
  EXPECT_EQ(outcome.error, "the RDMA device was removed");
  settle();
}

TEST_F(RdmaStream, a_device_that_is_removed_in_the_middle_of_a_farewell_ends_that_at_once) {
  connect();
  rdma.says_farewell = false;
  stream.reset();
  settle();
  EXPECT_GT(rdma.objects(), 0U) << "the server's answer is waited for";
  rdma.remove_device();
  settle();
  EXPECT_EQ(rdma.objects(), 0U);
}

TEST_F(RdmaStream, a_device_that_is_removed_while_a_connection_is_dialled_fails_the_dial) {
  for (const ScriptedRdma::Step step :
       {ScriptedRdma::Step::kAddress, ScriptedRdma::Step::kRoute, ScriptedRdma::Step::kConnect}) {
    rdma.answer(step, RDMA_CM_EVENT_DEVICE_REMOVAL);
    error.clear();
    EXPECT_THAT(refusal(), HasSubstr("the RDMA device was removed"));
    settle();
    EXPECT_EQ(rdma.objects(), 0U);
    rdma.answer(step, step == ScriptedRdma::Step::kAddress ? RDMA_CM_EVENT_ADDR_RESOLVED
                      : step == ScriptedRdma::Step::kRoute ? RDMA_CM_EVENT_ROUTE_RESOLVED
                                                           : RDMA_CM_EVENT_ESTABLISHED);
  }
  rdma.announces = false;
  error.clear();
  dial();
  settle();
  rdma.remove_device();
  run_until(loop, [&] { return !error.empty(); });
  EXPECT_THAT(error, HasSubstr("the RDMA device was removed"));
  settle();
  EXPECT_EQ(rdma.objects(), 0U);
}

TEST_F(RdmaStream, R66_commands_go_by_tcp_when_the_device_was_removed) {
  ScriptedServer server({Script().handshake().until_closed()});
  ConnectOptions options = options_for(server);
  options.rdma = RdmaOptions{{.port = 6379}, std::make_shared<RdmaRoute>(false)};
  options.bare = true;
  Connected by_rdma = upstream::connect(loop, options);
  ASSERT_TRUE(by_rdma.connection) << by_rdma.error;
  EXPECT_EQ(by_rdma.connection->carrier(), Carrier::kRdma);
  std::string lost;
  by_rdma.connection->read([&](std::error_code code, std::string_view) { lost = code.message(); });
  rdma.remove_device();
  std::filesystem::remove(devices_ / "scripted0");
  run_until(loop, [&] { return !lost.empty(); });
  EXPECT_EQ(lost, "the RDMA device was removed");
  options.bare = false;
  const Connected after = upstream::connect(loop, options);
  ASSERT_TRUE(after.connection) << after.error;
  EXPECT_EQ(after.connection->carrier(), Carrier::kTcp);
  EXPECT_THAT(options.rdma->route->state().reason, HasSubstr("this host has no RDMA device"));
}

TEST_F(RdmaStream, a_server_that_closes_before_it_says_anything_may_be_in_protected_mode) {
  rdma.hangs_up = true;
  ConnectOptions options = options_for(6379);
  options.rdma = RdmaOptions{{.port = 6379}, std::make_shared<RdmaRoute>(true)};
  EXPECT_THAT(upstream::connect(loop, options).error,
              HasSubstr("handshake: closed by the server (protected-mode, or maxclients reached?)"));
}

TEST_F(RdmaStream, a_server_that_announces_nothing_is_named_by_that) {
  rdma.announces = false;
  rdma_tuning().connect_timeout = milliseconds(20);
  const std::string why = refusal();
  EXPECT_THAT(why, HasSubstr("announces no buffer (protected-mode, or maxclients reached?)"));
  EXPECT_THAT(why, HasSubstr("no answer within 0.02 s"));
  run_until(loop, [&] { return rdma.objects() == 0; });
}

TEST_F(RdmaStream, a_server_that_has_its_maxclients_gives_up_in_the_middle_and_is_named_by_that) {
  rdma.answer(ScriptedRdma::Step::kConnect, RDMA_CM_EVENT_CONNECT_ERROR);
  EXPECT_THAT(refusal(), HasSubstr("is its maxclients reached?"));
  rdma.answer(ScriptedRdma::Step::kConnect, RDMA_CM_EVENT_ESTABLISHED);
  rdma.announces = false;
  error.clear();
  dial();
  settle();
  rdma.event(rdma.links() - 1, RDMA_CM_EVENT_DISCONNECTED);
  run_until(loop, [&] { return !error.empty(); });
  EXPECT_THAT(error, HasSubstr("maxclients reached?"));
}

}  // namespace

}  // namespace keyferry::upstream
