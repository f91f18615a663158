#include "transfer/lane.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "resp/decode.h"

namespace keyferry::transfer {

namespace {

// The longest reply that belongs here is a HELLO's: an address per service.
constexpr std::size_t kMaxReply = 64 * base::kKiB;
constexpr resp::DecodeLimits kReplyLimits{kMaxReply, 1024, 8};
constexpr std::size_t kMaxAddressTries = 4;
constexpr std::string_view kPing = "*1\r\n$4\r\nPING\r\n";

base::TimePoint now() {
  return base::Clock::steady().now();
}

}  // namespace

template <typename Callable>
auto Lane::guarded(Callable callable) {
  return [weak = weak_from_this(), callable = std::move(callable)](auto&&... args) mutable {
    if (const std::shared_ptr<Lane> self = weak.lock()) callable(*self, std::forward<decltype(args)>(args)...);
  };
}

Lane::Lane(base::Loop& loop, LaneSetup setup, const upstream::ConnectOptions& options, std::uint64_t number,
           Owner& owner)
    : loop_(loop),
      setup_(std::move(setup)),
      options_(options),
      number_(number),
      owner_(owner),
      made_(now()),
      entered_(made_),
      answer_timer_(loop) {
  owner_.lane_moved(*this, LaneState::kClosed, LaneState::kConnecting);
}

Lane::~Lane() {
  lower_owed();
}

void Lane::start() {
  upstream::Connection::connect(loop_, options_,
                                guarded([](Lane& lane, base::Result<std::unique_ptr<upstream::Connection>> result) {
                                  lane.connected(std::move(result));
                                }));
}

void Lane::move(LaneState to) {
  const LaneState from = machine_.state();
  if (!machine_.move(to)) return;
  entered_ = now();
  owner_.lane_moved(*this, from, to);
}

void Lane::connected(base::Result<std::unique_ptr<upstream::Connection>> result) {
  // Retired while it dialled: the connection is dropped with the result.
  if (!machine_.in(LaneState::kConnecting)) return;
  if (!result) return fail({LaneFailure::Kind::kUnreachable, "", result.error().message});
  connection_ = std::move(*result);
  options_.login = connection_->options().login;
  open_endpoint();
}

void Lane::open_endpoint() {
  opening_ = true;
  setup_.fabric.open_endpoint(loop_, guarded([](Lane& lane, base::Result<fabric::Endpoint> result) {
                                lane.endpoint_opened(std::move(result));
                              }));
}

void Lane::endpoint_opened(base::Result<fabric::Endpoint> result) {
  opening_ = false;
  if (result) endpoints_.push_back(*result);
  // Retired meanwhile: draining waited for this answer.
  if (!machine_.in(LaneState::kConnecting)) return close_endpoints();
  if (!result)
    return fail(
        {LaneFailure::Kind::kNoEndpoint, "no_endpoint", "the fabric gave no endpoint: " + result.error().message});
  if (!owner_.may_use_address(endpoints_.back().address) && endpoints_.size() < kMaxAddressTries)
    return open_endpoint();
  hello();
}

void Lane::hello() {
  move(LaneState::kHello);
  answer_timer_.start(options_.timeout, guarded([](Lane& lane) { lane.broken("timeout", "no reply came in time"); }));
  awaiting_ = true;
  read();
  write(hello_command(endpoints_.back().address, setup_.dialect));
}

void Lane::hello_answered(const resp::Value& reply) {
  HelloOutcome outcome = parse_hello(reply);
  if (outcome.kind == HelloOutcome::Kind::kRefused)
    return fail({LaneFailure::Kind::kRefused, outcome.reason, std::move(outcome.text)});
  if (outcome.kind == HelloOutcome::Kind::kUnsettled)
    return fail({LaneFailure::Kind::kUnsettled, outcome.reason, std::move(outcome.text)});
  setup_.fabric.insert_peers(
      endpoints_.back().id, std::move(outcome.addresses), loop_,
      guarded([](Lane& lane, base::Result<void> result) { lane.peers_inserted(std::move(result)); }));
}

void Lane::peers_inserted(base::Result<void> result) {
  if (!machine_.in(LaneState::kHello)) return;
  if (!result)
    return fail({LaneFailure::Kind::kUnsettled, "hello_failed",
                 "the server's addresses can't be used: " + result.error().message});
  answer_timer_.cancel();
  move(LaneState::kIdle);
  owner_.lane_idle(*this);
}

void Lane::check() {
  move(LaneState::kChecking);
  answer_timer_.start(options_.timeout, guarded([](Lane& lane) { lane.broken("timeout", "no answer came to PING"); }));
  awaiting_ = true;
  if (!options_.login_is_old()) return write(std::string(kPing));
  options_.take_login();
  write(options_.auth_command());
}

void Lane::claim() {
  move(LaneState::kBusy);
}

void Lane::exchange(std::string command, base::UniqueFunction<void(LaneReply)> done) {
  done_ = std::move(done);
  if (!owed_) {
    owed_ = true;
    setup_.fabric.raise_owed();
  }
  if (!broken_after_reply_.empty()) {
    // Only for a command that follows another: nothing of this one is written.
    loop_.post(guarded([](Lane& lane) { lane.finish({std::nullopt, "connection_lost", lane.broken_after_reply_}); }));
    return;
  }
  ++transfers_;
  awaiting_ = true;
  write(std::move(command));
}

void Lane::release() {
  lower_owed();
  if (!broken_after_reply_.empty()) {
    fail({LaneFailure::Kind::kIdleLost, "", broken_after_reply_});
    return;
  }
  move(LaneState::kIdle);
  owner_.lane_idle(*this);
}

void Lane::replace(const char* why) {
  lower_owed();
  fail({LaneFailure::Kind::kIdleLost, "", why});
}

void Lane::fence(base::UniqueFunction<void(base::Result<void>)> confirmed) {
  confirmed_ = std::move(confirmed);
  move(LaneState::kFenced);
  owner_.address_fenced(endpoints_.back().address);
  // The connection goes first: a session whose endpoint is gone costs the server a second for each further transfer
  // (C9).
  close_connection();
  close_endpoints();
}

void Lane::interrupt(const char* reason, std::string text) {
  if (!machine_.in(LaneState::kBusy) || !done_) return;
  if (early_) {
    // A reply that is here already wins (C8), but the lane ends: its command was not written to the end.
    broken_after_reply_ = std::move(text);
    return deliver(*std::exchange(early_, std::nullopt));
  }
  finish({std::nullopt, reason, std::move(text)});
}

void Lane::retire() {
  move(LaneState::kDraining);
  close_connection();
  if (!opening_) close_endpoints();
}

void Lane::write(std::string text) {
  // The bytes live until the connection has reported, even if the lane doesn't.
  auto kept = std::make_shared<const std::string>(std::move(text));
  writing_ = true;
  connection_->write({base::as_bytes(*kept)},
                     guarded([kept](Lane& lane, std::error_code error) { lane.written(error); }));
}

void Lane::written(std::error_code error) {
  if (!connection_) return;
  writing_ = false;
  written_at_ = now();
  if (early_) {
    if (error) broken_after_reply_ = "the connection was lost: " + error.message();
    return deliver(*std::exchange(early_, std::nullopt));
  }
  if (error) broken("connection_lost", "the connection was lost: " + error.message());
}

void Lane::read() {
  connection_->read(
      guarded([](Lane& lane, std::error_code error, std::string_view bytes) { lane.received(error, bytes); }));
}

void Lane::received(std::error_code error, std::string_view bytes) {
  if (!connection_) return;
  if (error) return broken("connection_lost", "the connection was lost: " + error.message());
  if (!awaiting_) return broken("malformed_reply", "the server sent something that was not asked for");
  buffer_.append(bytes);
  resp::DecodeResult result = resp::decode(buffer_, kReplyLimits);
  if (result.status == resp::DecodeResult::Status::kError)
    return broken("malformed_reply", "the server's reply is malformed: " + result.error);
  if (result.status == resp::DecodeResult::Status::kIncomplete) {
    if (buffer_.size() > kMaxReply)
      return broken("malformed_reply", "the server's reply is longer than any that belongs here");
    return read();
  }
  if (result.consumed != buffer_.size()) return broken("malformed_reply", "the server sent more than the reply");
  buffer_.clear();
  awaiting_ = false;
  // The connection is watched while it is idle, too.
  read();
  reply_complete(std::move(result.value));
}

void Lane::reply_complete(resp::Value value) {
  if (writing_) {
    early_ = std::move(value);
  } else {
    deliver(std::move(value));
  }
}

void Lane::deliver(resp::Value value) {
  if (machine_.in(LaneState::kHello)) {
    hello_answered(value);
  } else if (machine_.in(LaneState::kChecking)) {
    answer_timer_.cancel();
    if (!broken_after_reply_.empty()) return fail({LaneFailure::Kind::kIdleLost, "", broken_after_reply_});
    move(LaneState::kIdle);
    owner_.lane_alive(*this);
  } else if (machine_.in(LaneState::kBusy)) {
    finish({std::move(value), "", {}});
  }
}

void Lane::broken(const char* reason, std::string text) {
  switch (machine_.state()) {
    case LaneState::kHello:
      return fail({LaneFailure::Kind::kUnsettled, "hello_failed", std::move(text)});
    case LaneState::kIdle:
    case LaneState::kChecking:
      return fail({LaneFailure::Kind::kIdleLost, "", std::move(text)});
    case LaneState::kBusy:
      // A reply that is whole counts, whatever becomes of the connection after it.
      if (early_) {
        broken_after_reply_ = std::move(text);
      } else {
        finish({std::nullopt, reason, std::move(text)});
      }
      return;
    default:
      return;
  }
}

void Lane::fail(LaneFailure failure) {
  answer_timer_.cancel();
  retire();
  owner_.lane_failed(*this, failure);
}

void Lane::finish(LaneReply reply) {
  awaiting_ = false;
  auto done = std::exchange(done_, nullptr);
  if (done) done(std::move(reply));
}

void Lane::close_connection() {
  if (!connection_) return;
  connection_->close();
  // Maybe one of its own handlers is running: it is destroyed a turn later.
  loop_.post([connection = std::shared_ptr<upstream::Connection>(std::move(connection_))] {});
}

void Lane::close_endpoints() {
  if (endpoints_.empty()) {
    loop_.post(guarded([](Lane& lane) { lane.closed(); }));
    return;
  }
  closing_ = endpoints_.size();
  for (const fabric::Endpoint& endpoint : endpoints_) {
    setup_.fabric.close_endpoint(endpoint.id, loop_, guarded([](Lane& lane, base::Result<void> result) {
                                   lane.endpoint_closed(std::move(result));
                                 }));
  }
}

void Lane::endpoint_closed(base::Result<void> result) {
  // One answer too many must not pass for another endpoint's.
  if (closing_ == 0) return;
  if (!result) {
    spdlog::critical("lane {}: its endpoint could not be closed: {}", number_, result.error().message);
    close_result_ = std::move(result);
  }
  if (--closing_ == 0) closed();
}

void Lane::closed() {
  const std::shared_ptr<Lane> self = shared_from_this();
  lower_owed();
  move(LaneState::kClosed);
  auto confirmed = std::exchange(confirmed_, nullptr);
  if (confirmed) confirmed(std::move(close_result_));
  owner_.lane_closed(*this);
}

void Lane::lower_owed() {
  if (std::exchange(owed_, false)) setup_.fabric.lower_owed();
}

}  // namespace keyferry::transfer
