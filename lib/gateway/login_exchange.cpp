#include "gateway/login_exchange.h"

#include <utility>

#include "gateway/client_ids.h"
#include "gateway/session.h"

namespace keyferry::gateway {

namespace {

// HELLO's reply, with a line for each module.
constexpr std::size_t kLongestReply = 64 * base::kKiB;

}  // namespace

LoginExchange::LoginExchange(Session& session, SlotTag tag, std::string command, base::Task then)
    : Operation(session),
      tag_(tag),
      command_(std::move(command)),
      then_(std::move(then)),
      limit_(session.worker().loop) {}
LoginExchange::~LoginExchange() = default;

void LoginExchange::start() {
  session_.worker().pinned_short.borrow_bare(
      [self = shared_from_this(), this](auto connection) { on_connection(std::move(connection)); });
}

void LoginExchange::on_connection(base::Result<std::unique_ptr<upstream::Connection>> connection) {
  if (connection) connection_ = std::move(*connection);
  if (gone_) return end();
  if (!connection) return fail(connection.error().message + "; the command was not sent");
  session_.asked(tag_);
  // A write that fails shows at the read, which may still find the server's reason.
  connection_->write({base::as_bytes(command_)}, [self = shared_from_this()](std::error_code) {});
  limit_.start(connection_->options().timeout, [weak = weak_from_this(), this] {
    const auto self = weak.lock();
    if (self && connection_) fail("the server did not answer the login within limits.upstream_wait");
  });
  read();
}

void LoginExchange::read() {
  connection_->read([self = shared_from_this(), this](std::error_code error, std::string_view bytes) {
    if (connection_) on_reply(error, bytes);
  });
}

void LoginExchange::on_reply(std::error_code error, std::string_view bytes) {
  if (error) return fail("the connection to the server was lost: " + error.message());
  const resp::ReplyScanner::Step step = scanner_.scan(bytes);
  reply_.append(bytes.substr(0, step.consumed));
  if (step.event == resp::ReplyScanner::Step::Event::kError || reply_.size() > kLongestReply)
    return fail("the server sent what is no reply to this");
  if (step.event != resp::ReplyScanner::Step::Event::kFrameEnd) return read();
  if (!reply_.starts_with('-') && then_) std::exchange(then_, {})();
  session_.reply(tag_, with_id(std::move(reply_), kHelloId, session_.client().id));
  session_.finish_reply(tag_);
  end();
}

void LoginExchange::fail(const std::string& reason) {
  session_.reply_error(tag_, "ERR keyferry: " + reason);
  end();
}

/// The connection has the new rights now, and was nobody else's before: it is of no more use.
void LoginExchange::end() {
  const auto self = shared_from_this();
  limit_.cancel();
  if (connection_) {
    const upstream::Carrier carrier = connection_->carrier();
    connection_->close();
    connection_.reset();
    session_.worker().pinned_short.lost(carrier);
  }
  session_.operation_done(*this);
}

void LoginExchange::client_gone() {
  gone_ = true;
  // Waiting for a connection: its coming ends this.
  if (connection_) end();
}

}  // namespace keyferry::gateway
