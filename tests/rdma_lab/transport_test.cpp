// The transport by itself against a real server with valkey-rdma.so, in the guest: test_transport.py starts both.
// RDMA_SERVER=ADDRESS:PORT, RDMA_WINDOW=the server's rdma-rx-size.

#include "upstream/transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

#include "tests/unit/upstream/harness.h"
#include "upstream/rdma_transport.h"
#include "upstream/rdma_tuning.h"

namespace keyferry::upstream {

namespace {

Address server() {
  const std::string text = std::getenv("RDMA_SERVER");
  const std::size_t colon = text.rfind(':');
  return {text.substr(0, colon), static_cast<std::uint16_t>(std::stoi(text.substr(colon + 1)))};
}

RdmaSettings settings() {
  RdmaSettings settings;
  settings.port = server().port;
  settings.resolve_timeout = std::chrono::seconds(20);
  return settings;
}

std::size_t window() {
  return static_cast<std::size_t>(std::stoul(std::getenv("RDMA_WINDOW")));
}

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

/// Queue pairs, completion queues, registrations and protection domains that the kernel keeps for this process.
std::size_t own_resources() {
  std::size_t count = 0;
  const std::string own = " pid " + std::to_string(::getpid()) + " ";
  for (const char* kind : {"qp", "cq", "mr", "pd"}) {
    FILE* shown = ::popen((std::string("rdma resource show ") + kind).c_str(), "r");
    char line[1024];
    while (std::fgets(line, sizeof(line), shown) != nullptr) {
      if (std::string_view(line).find(own) != std::string_view::npos) ++count;
    }
    ::pclose(shown);
  }
  return count;
}

/// The outcome of one dial: a byte stream to the server before any handshake, or the step and the cause.
struct Dialled {
  std::unique_ptr<base::Stream> stream;
  std::string error;
};

Dialled dial(base::Loop& loop, const RdmaSettings& settings, const Address& address = server()) {
  std::vector<Endpoint> endpoints;
  Resolver resolver(loop);
  resolver.resolve(address, [&](base::Result<std::vector<Endpoint>> found) { endpoints = found.value(); });
  run_until(loop, [&] { return !endpoints.empty(); });
  auto transport = make_rdma_transport(loop, settings);
  Dialled outcome;
  transport.value()->dial(endpoints[0], [&](base::Result<std::unique_ptr<base::Stream>> result) {
    if (result) {
      outcome.stream = std::move(result.value());
    } else {
      outcome.error = std::string(transport.value()->step()) + ": " + result.error().message;
    }
  });
  run_until(loop, [&] { return outcome.stream || !outcome.error.empty(); });
  return outcome;
}

/// Writes all of it; several writes only where the stream takes less.
void write(base::Loop& loop, base::Stream& stream, std::string_view text) {
  while (!text.empty()) {
    std::size_t written = 0;
    const base::ConstBytes bytes = base::as_bytes(text);
    stream.async_write(std::span(&bytes, 1), [&](std::error_code error, std::size_t count) {
      ASSERT_FALSE(error) << error.message();
      written = count;
    });
    run_until(loop, [&] { return written != 0 || testing::Test::HasFatalFailure(); });
    if (testing::Test::HasFatalFailure()) return;
    text.remove_prefix(written);
  }
}

std::string read(base::Loop& loop, base::Stream& stream, std::size_t bytes) {
  std::string text;
  std::string room(64 * base::kKiB, '\0');
  while (text.size() < bytes) {
    const base::MutableBytes target(reinterpret_cast<std::byte*>(room.data()), room.size());
    bool done = false;
    std::error_code failed;
    stream.async_read(std::span(&target, 1), [&](std::error_code error, std::size_t count) {
      failed = error;
      text.append(room, 0, count);
      done = true;
    });
    run_until(loop, [&] { return done; });
    EXPECT_FALSE(failed) << failed.message();
    if (failed) break;
  }
  return text;
}

std::string pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  std::uint32_t state = static_cast<std::uint32_t>(bytes) | 1;
  for (char& each : text) {
    state = state * 1664525 + 1013904223;
    each = static_cast<char>(state >> 24);
  }
  return text;
}

/// Stores and reads values of these sizes, every byte checked.
void set_and_get(std::initializer_list<std::size_t> sizes) {
  base::Loop loop;
  const auto [stream, error] = dial(loop, settings());
  ASSERT_TRUE(stream) << error;
  for (const std::size_t size : sizes) {
    const std::string value = pattern(size);
    std::string command;
    resp::append_command(command, {"SET", "edge", value});
    write(loop, *stream, command);
    ASSERT_EQ(read(loop, *stream, 5), "+OK\r\n") << size;
    command.clear();
    resp::append_command(command, {"GET", "edge"});
    write(loop, *stream, command);
    const std::string expected = "$" + std::to_string(size) + "\r\n" + value + "\r\n";
    ASSERT_TRUE(read(loop, *stream, expected.size()) == expected) << size;
  }
}

TEST(RdmaTransport, R62_values_at_the_edges_of_the_window_come_back_whole) {
  set_and_get({1, window() - 1, window(), window() + 1, 3 * window(), base::kMiB - 1, base::kMiB, base::kMiB + 1,
               3 * base::kMiB});
}

TEST(RdmaTransport, a_value_of_64_MiB_comes_back_whole) {
  set_and_get({64 * base::kMiB});
}

TEST(RdmaTransport, commands_and_replies_that_end_exactly_with_a_window_are_followed_by_others) {
  base::Loop loop;
  const auto [stream, error] = dial(loop, settings());
  ASSERT_TRUE(stream) << error;
  // Commands whose bytes fill the server's window exactly, three times; then replies that fill ours exactly.
  for (int i = 0; i < 3; ++i) {
    std::string command;
    for (std::size_t value = window() - 64; command.size() != window(); ++value) {
      command.clear();
      resp::append_command(command, {"SET", "exact", std::string(value, 'x')});
      ASSERT_LE(command.size(), window());
    }
    write(loop, *stream, command);
    ASSERT_EQ(read(loop, *stream, 5), "+OK\r\n");
  }
}

TEST(RdmaTransport, a_server_busy_in_one_command_while_5000_small_ones_wait_loses_none_and_keeps_the_connection) {
  base::Loop loop;
  const auto [stream, error] = dial(loop, settings());
  ASSERT_TRUE(stream) << error;
  write(loop, *stream, "*3\r\n$5\r\nDEBUG\r\n$5\r\nSLEEP\r\n$1\r\n5\r\n");
  std::string expected = "+OK\r\n";
  for (int i = 0; i < 5'000; ++i) {
    const std::string text = std::to_string(i);
    std::string command;
    resp::append_command(command, {"ECHO", text});
    // Each in a write of its own, so that each would notify the server if there were no credit to keep.
    write(loop, *stream, command);
    if (HasFatalFailure()) return;
    expected += "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  EXPECT_TRUE(read(loop, *stream, expected.size()) == expected);
}

TEST(RdmaTransport, a_pipeline_of_10_000_commands_is_answered_in_order) {
  base::Loop loop;
  const auto restore = std::exchange(rdma_tuning().spin, std::chrono::microseconds(200));
  const auto [stream, error] = dial(loop, settings());
  ASSERT_TRUE(stream) << error;
  std::string commands, expected;
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = std::to_string(i);
    resp::append_command(commands, {"ECHO", text});
    expected += "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  write(loop, *stream, commands);
  EXPECT_TRUE(read(loop, *stream, expected.size()) == expected);
  rdma_tuning().spin = restore;
}

TEST(RdmaTransport, a_thousand_connects_and_disconnects_leave_nothing) {
  base::Loop loop;
  RdmaSettings small = settings();
  small.buffer = 64 * base::kKiB;
  const auto once = [&] {
    const auto [stream, error] = dial(loop, small);
    ASSERT_TRUE(stream) << error;
    write(loop, *stream, "*1\r\n$4\r\nPING\r\n");
    ASSERT_EQ(read(loop, *stream, 7), "+PONG\r\n");
  };
  // The first opens the device, which stays open.
  {
    const auto [stream, error] = dial(loop, small);
    ASSERT_TRUE(stream) << error;
    EXPECT_GE(own_resources(), 4U);
  }
  run_until(loop, [&, files = open_files()] { return open_files() < files; });
  const std::size_t before = open_files();
  // A protection domain of the library's own, which it keeps.
  const std::size_t kept = own_resources();
  EXPECT_LE(kept, 1U);
  for (int i = 0; i < 1'000 && !HasFatalFailure(); ++i) once();
  run_until(loop, [&] { return open_files() <= before; });
  EXPECT_EQ(own_resources(), kept);
}

TEST(RdmaTransport, R63_the_end_of_the_loop_is_an_orderly_farewell_too) {
  auto loop = std::make_unique<base::Loop>();
  const std::size_t before = open_files();
  auto [stream, error] = dial(*loop, settings());
  ASSERT_TRUE(stream) << error;
  write(*loop, *stream, "*1\r\n$4\r\nPING\r\n");
  stream.reset();
  loop.reset();
  EXPECT_LE(open_files(), before);
}

TEST(RdmaTransport, a_port_where_nobody_listens_is_named) {
  base::Loop loop;
  RdmaSettings elsewhere = settings();
  elsewhere.port = 1;
  EXPECT_EQ(dial(loop, elsewhere).error, "RDMA connect: nobody listens for RDMA on this port");
}

TEST(RdmaTransport, an_address_without_an_rdma_device_is_named) {
  base::Loop loop;
  EXPECT_EQ(dial(loop, settings(), {"192.0.2.1", 6379}).error,
            "RDMA address: no RDMA device has a route to this address");
}

}  // namespace

}  // namespace keyferry::upstream
