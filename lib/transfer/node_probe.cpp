#include "transfer/node_probe.h"

#include <array>
#include <cerrno>
#include <utility>

#include "base/bytes.h"

namespace keyferry::transfer {

namespace {

constexpr std::string_view kPing = "*1\r\n$4\r\nPING\r\n";

/// Codes of a failed connect() by which the node, or the way to it, is gone.
constexpr std::array kGone{ETIMEDOUT, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EHOSTDOWN, ENETUNREACH, ENETDOWN};

base::TimePoint now() {
  return base::Clock::steady().now();
}

}  // namespace

template <typename Callable>
auto NodeProbe::guarded(Callable callable) {
  return [turn = std::weak_ptr(turn_), callable = std::move(callable)](auto&&... args) mutable {
    if (!turn.expired()) callable(std::forward<decltype(args)>(args)...);
  };
}

NodeProbe::NodeProbe(base::Loop& loop, const upstream::ConnectOptions& connect, Options options, Owed owed, Dead dead)
    : loop_(loop), connect_(connect), options_(options), owed_(std::move(owed)), dead_(std::move(dead)), timer_(loop) {
  connect_.timeout = options_.wait;
}

NodeProbe::~NodeProbe() {
  drop();
}

void NodeProbe::watch() {
  if (std::exchange(watching_, true)) return;
  again(options_.after);
}

void NodeProbe::stop() {
  watching_ = true;
  asking_ = false;
  timer_.cancel();
  drop();
}

void NodeProbe::again(base::Duration pause) {
  timer_.start(pause, [this] { look(); });
}

void NodeProbe::look() {
  const std::optional<base::TimePoint> since = owed_();
  if (!since) {
    watching_ = false;
    return drop();
  }
  const base::Duration owed_for = now() - *since;
  if (owed_for < options_.after) return again(options_.after - owed_for);
  ask();
}

void NodeProbe::ask() {
  asking_ = true;
  asked_ = now();
  timer_.cancel();
  if (connection_) return ping();
  upstream::Connection::connect(
      loop_, connect_,
      guarded([this](base::Result<std::unique_ptr<upstream::Connection>> result) { connected(std::move(result)); }));
}

void NodeProbe::connected(base::Result<std::unique_ptr<upstream::Connection>> result) {
  if (result) {
    connection_ = std::move(*result);
    read();
    // The handshake was an answer already.
    return go_on();
  }
  const int code = result.error().code;
  for (const int gone : kGone) {
    if (code == gone) return failed(result.error().message);
  }
  // Turned away by the server, or by something on this side.
  go_on();
}

void NodeProbe::ping() {
  timer_.start(options_.wait, [this] { failed(connect_.address.text() + ": no answer to PING"); });
  connection_->write({base::as_bytes(kPing)}, [](std::error_code) {});
}

void NodeProbe::read() {
  connection_->read(guarded([this](std::error_code error, std::string_view bytes) { received(error, bytes); }));
}

void NodeProbe::received(std::error_code error, std::string_view) {
  if (error) {
    // Whoever closed this one may still be alive: a new one will tell.
    drop();
    if (asking_) ask();
    return;
  }
  read();
  if (asking_) go_on();
}

void NodeProbe::go_on() {
  asking_ = false;
  again(options_.after);
}

void NodeProbe::failed(std::string text) {
  asking_ = false;
  drop();
  again(options_.after);
  dead_(asked_, std::move(text));
}

void NodeProbe::drop() {
  turn_ = std::make_shared<int>(0);
  if (!connection_) return;
  connection_->close();
  // Maybe one of its own handlers is running: it is destroyed a turn later.
  loop_.post([connection = std::shared_ptr<upstream::Connection>(std::move(connection_))] {});
}

}  // namespace keyferry::transfer
