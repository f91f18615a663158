#pragma once

// What the tests of lib/upstream share: a loop turned by hand, a sink that writes down what it is told, options for a
// scripted server.

#include <boost/asio.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/loop.h"
#include "resp/writer.h"
#include "tests/support/scripted_server.h"
#include "upstream/channel.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

using test::Script;
using test::ScriptedServer;

/// Runs the loop on this thread, one handler at a time, until the condition holds.
template <typename Condition>
void run_until(base::Loop& loop, const Condition& condition) {
  while (!condition()) loop.context().run_one();
}

/// Runs whatever is ready now.
inline void run_ready(base::Loop& loop) {
  loop.context().poll();
}

inline ConnectOptions options_for(std::uint16_t port) {
  ConnectOptions options;
  options.address = {"127.0.0.1", port};
  return options;
}
inline ConnectOptions options_for(const ScriptedServer& server) {
  return options_for(server.port());
}

/// The outcome of one connect().
struct Connected {
  bool done = false;
  std::unique_ptr<Connection> connection;
  std::string error;

  Connection::Callback callback() {
    return [this](base::Result<std::unique_ptr<Connection>> result) {
      done = true;
      if (result) {
        connection = std::move(result.value());
      } else {
        error = result.error().message;
      }
    };
  }
};

inline Connected connect(base::Loop& loop, const ConnectOptions& options) {
  Connected outcome;
  Connection::connect(loop, options, outcome.callback());
  run_until(loop, [&] { return outcome.done; });
  return outcome;
}

/// A port of 127.0.0.1 that listens (a connection is made, nothing is ever said) or not.
class Port {
 public:
  explicit Port(bool listening) : acceptor_(context_, {boost::asio::ip::address_v4::loopback(), 0}) {
    number_ = acceptor_.local_endpoint().port();
    if (!listening) acceptor_.close();
  }
  std::uint16_t number() const { return number_; }

 private:
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::uint16_t number_ = 0;
};

/// Writes down every reply and loss. `hold_after`: says false once that many bytes have come since the last time.
class RecordingSink : public ReplySink {
 public:
  bool on_reply(std::uint64_t tag, std::string_view bytes, bool last) override {
    EXPECT_FALSE(sending) << "a sink was called inside send()";
    EXPECT_FALSE(bytes.empty());
    replies[tag] += bytes;
    total += bytes.size();
    if (last) ended.push_back(tag);
    if (then) then();
    if (hold_after == 0 || (since_hold += bytes.size()) < hold_after) return true;
    since_hold = 0;
    ++holds;
    return false;
  }
  void on_reply_lost(std::uint64_t tag, Lost how, bool begun, std::string_view reason) override {
    EXPECT_FALSE(sending) << "a sink was called inside send()";
    ended.push_back(tag);
    lost.push_back({tag, how, begun, std::string(reason)});
    if (then) then();
  }
  void send(Channel& channel, std::initializer_list<std::string_view> args, std::uint64_t tag,
            Access access = Access::kReads) {
    std::string command;
    resp::append_command(command, args);
    sending = true;
    channel.send(command, *this, tag, access);
    sending = false;
  }

  struct Loss {
    std::uint64_t tag;
    Lost how;
    bool begun;
    std::string reason;
  };
  std::map<std::uint64_t, std::string> replies;
  std::vector<std::uint64_t> ended;
  std::vector<Loss> lost;
  std::size_t total = 0;
  std::size_t hold_after = 0;
  std::size_t since_hold = 0;
  std::size_t holds = 0;
  bool sending = false;
  std::function<void()> then;
};

}  // namespace keyferry::upstream
