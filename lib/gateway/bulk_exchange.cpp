#include "gateway/bulk_exchange.h"

#include "gateway/drop_input.h"
#include "gateway/session.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

// What is read from the client at a time and handed to the server before more is read.
constexpr std::size_t kReadBytes = 256 * 1024;
// A longer line is handed on as it comes; none that is judged is.
constexpr std::size_t kLongestLine = 4 * 1024;

bool is_line(char type) {
  return type == '+' || type == '-' || type == ':';
}

}  // namespace

BulkSource BulkSource::whole(std::string bytes) {
  return {std::move(bytes), {}, {}, false};
}

BulkSource BulkSource::stored(std::string_view command, std::string_view key, transfer::Loan value,
                              const std::vector<std::string>& rest) {
  std::string head;
  resp::append_command_header(head, 3 + rest.size());
  resp::append_bulk(head, command);
  resp::append_bulk(head, key);
  resp::append_bulk_header(head, value.length());
  std::string tail = "\r\n";
  for (const std::string& word : rest) resp::append_bulk(tail, word);
  return {std::move(head), std::move(value), std::move(tail), false};
}

BulkSource BulkSource::from_input() {
  return {{}, {}, {}, true};
}

BulkExchange::BulkExchange(Session& session, SlotTag tag, BulkSource source)
    : Operation(session), tag_(tag), source_(std::move(source)) {}
BulkExchange::~BulkExchange() = default;

void BulkExchange::start() {
  session_.worker().bulk.borrow(
      session_.client().identity, session_.client().protocol,
      [self = shared_from_this(), this](auto connection) { on_connection(std::move(connection)); });
}

void BulkExchange::on_connection(base::Result<std::unique_ptr<upstream::Connection>> connection) {
  if (connection) connection_ = std::move(*connection);
  if (ended_) return release(true);
  if (!connection) {
    const auto self = shared_from_this();
    const int code = connection.error().code;
    fail(connection.error().message, false);
    return session_.end_of_login(code);
  }
  session_.asked(tag_);
  read_reply();
  if (!source_.input) return write_memory();
  // What the parser has seen so far leaves with the first of the body.
  const std::size_t offset = session_.parser().body_offset();
  source_.head.assign(session_.input().substr(0, offset));
  session_.consume_input(offset);
  session_.parser().begin_stream();
  streaming_ = true;
  write_memory();
}

void BulkExchange::write_memory() {
  std::vector<base::ConstBytes> pieces{base::as_bytes(source_.head)};
  if (source_.value) {
    pieces.insert(pieces.end(), source_.value.spans().begin(), source_.value.spans().end());
    pieces.push_back(base::as_bytes(source_.tail));
  }
  moved_ += source_.head.size() + source_.value.length();
  writing_ = true;
  connection_->write(std::move(pieces), [self = shared_from_this(), this](std::error_code error) {
    writing_ = false;
    if (ended_) return;
    if (!source_.input || error) return on_sent(error);
    write_input();
  });
}

/// Hands on what is here of the command, then reads more: never more than one piece is held.
void BulkExchange::write_input() {
  const resp::RequestParser::StreamStep step = session_.parser().stream(session_.input());
  if (step.error) {
    session_.protocol_error(session_.parser().error());
    return end(false, "error");
  }
  if (step.consumed == 0 && !step.finished) {
    return session_.read_input(kReadBytes, [self = shared_from_this(), this] {
      if (!ended_) write_input();
    });
  }
  writing_ = true;
  lent_ = step.consumed;
  lent_last_ = step.finished;
  moved_ += step.consumed;
  std::vector<base::ConstBytes> pieces{base::as_bytes(session_.input().substr(0, step.consumed))};
  connection_->write(std::move(pieces), [self = shared_from_this(), this](std::error_code error) {
    writing_ = false;
    if (ended_) return;
    input_written(error);
  });
}

void BulkExchange::input_written(std::error_code error) {
  session_.consume_input(std::exchange(lent_, 0));
  if (lent_last_) {
    session_.parser().next();
    session_.input_done();
    source_.input = false;
    return on_sent(error);
  }
  if (error) return on_sent(error);
  // A reply before the command's end is a refusal that the server closes after; the rest of the body has no taker.
  if (replied_) return end(false, "refused");
  write_input();
}

void BulkExchange::on_sent(std::error_code error) {
  sent_ = true;
  if (error) clean_ = false;
  if (replied_) return complete();
  // The server may have answered and then closed (a length it does not accept): what it said is read before its silence
  // is judged.
  read_reply();
}

void BulkExchange::read_reply() {
  if (reading_ || replied_ || ended_ || !connection_) return;
  if (session_.output_full()) return;
  reading_ = true;
  connection_->read([self = shared_from_this(), this](std::error_code error, std::string_view bytes) {
    reading_ = false;
    if (!ended_) on_reply(error, bytes);
  });
}

void BulkExchange::on_reply(std::error_code error, std::string_view bytes) {
  if (error) return fail("the connection to the server was lost: " + error.message(), true);
  if (!take_reply(bytes)) return fail("the server sent what is no RESP: " + std::string(scanner_.error()), true);
  if (!replied_) return read_reply();
  if (sent_) return complete();
  if (!writing_) end(false, "refused");
}

/// All of the command is written and all of its reply is here.
void BulkExchange::complete() {
  if (held_.empty()) return end(clean_, error_reply_ ? "refused" : "ok");
  Continuation::Judgement judged = continuation_->judge(std::exchange(held_, {}), source_.value);
  switch (judged.kind) {
    case Continuation::Judgement::Kind::kDeliver:
      error_reply_ = judged.bytes.starts_with('-');
      continuation_->begins();
      session_.reply(tag_, judged.bytes);
      return end(clean_, error_reply_ ? "refused" : "ok");
    case Continuation::Judgement::Kind::kHandOver:
      return hand_over(std::move(judged.operation));
    case Continuation::Judgement::Kind::kSend:
      break;
  }
  if (!clean_) return fail("the server sent more than a reply", true);
  sent_ = replied_ = false;
  source_.head = std::move(judged.bytes);
  writing_ = true;
  read_reply();
  connection_->write({base::as_bytes(source_.head)}, [self = shared_from_this(), this](std::error_code error) {
    writing_ = false;
    if (!ended_) on_sent(error);
  });
}

/// The reply was another operation's business, which answers in this one's place.
void BulkExchange::hand_over(std::shared_ptr<Operation> next) {
  ended_ = true;
  if (!counted_as_.empty()) session_.worker().metrics.count_transfer(counted_as_, "refused", 0);
  release(clean_);
  session_.continue_with(*this, std::move(next));
}

bool BulkExchange::take_reply(std::string_view bytes) {
  while (!bytes.empty() && !replied_) {
    const resp::ReplyScanner::Step step = scanner_.scan(bytes);
    if (step.event == resp::ReplyScanner::Step::Event::kError) return false;
    // A push is no reply to this command (R5), and nobody here has asked for any.
    if (scanner_.type() != '>') {
      if (continuation_ && is_line(scanner_.type()) && held_.size() + step.consumed <= kLongestLine) {
        held_.append(bytes.substr(0, step.consumed));
      } else {
        if (continuation_ && !reply_begun_) continuation_->begins();
        if (!held_.empty()) session_.reply(tag_, std::exchange(held_, {}));
        session_.reply(tag_, bytes.substr(0, step.consumed));
        reply_begun_ = true;
      }
      moved_ += step.consumed;
      error_reply_ = scanner_.type() == '-' || scanner_.type() == '!';
      replied_ = step.event == resp::ReplyScanner::Step::Event::kFrameEnd;
    }
    bytes.remove_prefix(step.consumed);
  }
  // Bytes behind the reply belong to nobody: such a connection is not lent again (R13).
  if (!bytes.empty()) clean_ = false;
  return true;
}

void BulkExchange::output_drained() {
  read_reply();
}

void BulkExchange::fail(std::string_view reason, bool may_have_run) {
  if (reply_begun_ && !session_.retract_reply(tag_)) {
    release(false);
    ended_ = true;
    if (continuation_) std::exchange(continuation_, nullptr)->ended(false);
    session_.close("the rest of a reply was lost: " + std::string(reason));
    return session_.operation_done(*this);
  }
  std::string text = "ERR keyferry: " + std::string(reason);
  text += may_have_run ? "; the command may have run" : "; the command was not sent";
  held_.clear();
  if (continuation_) {
    if (std::shared_ptr<Operation> next = continuation_->failed(text)) {
      clean_ = false;
      return hand_over(std::move(next));
    }
    continuation_.reset();
  }
  std::string bytes;
  resp::append_error(bytes, text);
  session_.reply(tag_, bytes);
  end(false, "lost");
}

void BulkExchange::end(bool clean, std::string_view outcome) {
  if (ended_) return;
  ended_ = true;
  // A reply that came before the command's end was not judged.
  if (!held_.empty()) session_.reply(tag_, std::exchange(held_, {}));
  if (!counted_as_.empty())
    session_.worker().metrics.count_transfer(counted_as_, outcome, outcome == "ok" ? moved_ : 0);
  release(clean && sent_ && replied_);
  source_.value = {};
  if (continuation_) {
    if (std::shared_ptr<Operation> next = std::exchange(continuation_, nullptr)->ended(outcome == "ok"))
      return session_.continue_with(*this, std::move(next));
  }
  session_.finish_reply(tag_);
  if (source_.input && !session_.closed() && session_.parser().error().empty())
    return session_.continue_with(*this, rest_of_input());
  session_.operation_done(*this);
}

std::shared_ptr<Operation> BulkExchange::rest_of_input() {
  if (!streaming_) return DropInput::whole_command(session_);
  session_.consume_input(std::exchange(lent_, 0));
  return DropInput::rest_of_stream(session_);
}

void BulkExchange::release(bool clean) {
  if (!connection_) return;
  if (clean) {
    session_.worker().bulk.give_back(std::move(connection_));
    return;
  }
  const upstream::Carrier carrier = connection_->carrier();
  connection_->close();
  connection_.reset();
  session_.worker().bulk.lost(carrier);
}

void BulkExchange::client_gone() {
  if (ended_) return;
  ended_ = true;
  if (!counted_as_.empty()) session_.worker().metrics.count_transfer(counted_as_, "abandoned", 0);
  if (continuation_) std::exchange(continuation_, nullptr)->ended(false);
  release(false);
  session_.operation_done(*this);
}

}  // namespace keyferry::gateway
