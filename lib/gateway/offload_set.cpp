#include "gateway/offload_set.h"

#include <utility>

#include "gateway/bulk_exchange.h"
#include "gateway/drop_input.h"
#include "gateway/expiry_options.h"
#include "gateway/offload_parts.h"
#include "gateway/session.h"
#include "resp/decode.h"

namespace keyferry::gateway {

namespace {

constexpr std::string_view kWrongType = "-WRONGTYPE";
constexpr std::string_view kUndone =
    "-ERR keyferry: the value was stored and removed again, as its expiry could not be set: ";

/// What BLOB.*_SET refuses and SET may well take: no module, no right to it, an object too large for it.
bool may_be_a_string(std::string_view error) {
  return error.starts_with("-ERR") || error.starts_with("-NOPERM");
}

/// What the server's SET may be told because of a large object at the key (GET, IFEQ).
OffloadCommand::Plan set_plan(const std::string& key) {
  const std::vector<std::string_view> args{"SET", key, "", "GET"};
  const std::vector<std::string> prefix{key};
  OffloadCommand::Plan plan;
  plan.route = OffloadRoute::kNotOnObject;
  plan.keys = {key};
  plan.object_error = classify_offload(args, prefix).object_error;
  return plan;
}

/// SET from the lease, with all its words: the server does all of it at once.
std::shared_ptr<Operation> plain_set(Session& session, SlotTag tag, const std::string& key, transfer::Loan value,
                                     const std::vector<std::string>& words, std::string_view reason) {
  session.worker().metrics.count_fallback(reason);
  auto next = std::make_shared<BulkExchange>(session, tag, BulkSource::stored("SET", key, std::move(value), words));
  next->count_as("set", false);
  next->continue_to(std::make_shared<AskWhy>(session, tag, set_plan(key)));
  return next;
}

/// BLOB.TCP_SET with what follows it, on one bulk connection.
class StoreByTcp final : public Continuation {
 public:
  StoreByTcp(Session& session, SlotTag tag, std::string key, std::vector<std::string> words, transfer::StoreSteps steps)
      : session_(session), tag_(tag), key_(std::move(key)), words_(std::move(words)), steps_(std::move(steps)) {}

  static std::shared_ptr<Operation> operation(Session& session, SlotTag tag, const std::string& key,
                                              transfer::Loan value, const std::vector<std::string>& words,
                                              const std::string& beside, std::optional<transfer::Expiry> expiry) {
    const bool direct = beside.empty();
    const std::string& at = direct ? key : beside;
    auto next = std::make_shared<BulkExchange>(session, tag, BulkSource::stored("BLOB.TCP_SET", at, std::move(value)));
    next->count_as("set", false);
    next->continue_to(std::make_shared<StoreByTcp>(session, tag, key, words,
                                                   transfer::StoreSteps(at, {expiry, direct ? std::string() : key})));
    return next;
  }

  Judgement judge(std::string_view line, transfer::Loan& value) override {
    if (stepping_) {
      steps_.replied(resp::decode(line).value);
    } else if (line != "+OK\r\n") {
      return refused(line, value);
    }
    stepping_ = true;
    if (std::optional<std::string> command = steps_.next()) return {Judgement::Kind::kSend, *std::move(command), {}};
    stepping_ = false;
    if (steps_.error().empty()) {
      stored_ = true;
      return {Judgement::Kind::kDeliver, "+OK\r\n", {}};
    }
    if (beside()) return plain(value, "rename_refused");
    return {Judgement::Kind::kDeliver, std::string(kUndone) + steps_.error() + "\r\n", {}};
  }

  std::shared_ptr<Operation> ended(bool) override {
    if (!stored_ && (stepping_ || beside())) remove_leftover(session_, steps_.key());
    return nullptr;
  }

  std::shared_ptr<Operation> failed(std::string& text) override {
    if (stepping_ && !beside()) text += "; its expiry may not be set, so the value is removed";
    if (!stepping_ && !beside() && steps_.extras().expiry) text += ", without its expiry";
    ended(false);
    return nullptr;
  }

 private:
  bool beside() const { return !steps_.extras().rename_to.empty(); }

  Judgement refused(std::string_view line, transfer::Loan& value) {
    if (line.starts_with(kWrongType) && !beside()) {
      return {Judgement::Kind::kHandOver,
              {},
              operation(session_, tag_, key_, std::move(value), words_, temporary_key(key_), steps_.extras().expiry)};
    }
    if (may_be_a_string(line)) return plain(value, "object_refused");
    return {Judgement::Kind::kDeliver, std::string(line), {}};
  }

  Judgement plain(transfer::Loan& value, std::string_view reason) {
    stored_ = true;
    return {Judgement::Kind::kHandOver, {}, plain_set(session_, tag_, key_, std::move(value), words_, reason)};
  }

  Session& session_;
  SlotTag tag_;
  std::string key_;
  std::vector<std::string> words_;
  transfer::StoreSteps steps_;
  /// It is stored, and what follows is under way.
  bool stepping_ = false;
  /// Nothing is left to be removed.
  bool stored_ = false;
};

}  // namespace

OffloadSet::OffloadSet(Session& session, SlotTag tag, std::string key, std::uint64_t length, bool patient, bool more)
    : BlobSet(session, tag, std::move(key), length, patient), more_(more) {}

std::shared_ptr<Operation> OffloadSet::streamed(Session& session, SlotTag tag, const std::string& key,
                                                std::string_view reason) {
  auto next = std::make_shared<BulkExchange>(session, tag, BulkSource::from_input());
  if (!reason.empty()) {
    session.worker().metrics.count_fallback(reason);
    next->count_as("set", false);
  }
  next->continue_to(std::make_shared<AskWhy>(session, tag, set_plan(key)));
  return next;
}

void OffloadSet::no_room_now() {
  session_.continue_with(*this, streamed(session_, tag(), key(), "no_room_before_undelivered_replies"));
}

void OffloadSet::body_here() {
  if (more_) return read_words();
  session_.input_done();
  decide();
}

void OffloadSet::read_words() {
  using Event = resp::RequestParser::Event;
  resp::RequestParser& parser = session_.parser();
  switch (parser.parse(session_.input())) {
    case Event::kNeedMore:
      return session_.read_input(2 * session_.input().size(), [self = shared_from_this(), this] { read_words(); });
    case Event::kCommand:
      for (const std::string_view word : parser.args(session_.input())) words_.emplace_back(word);
      session_.consume_input(parser.size());
      parser.next();
      session_.input_done();
      return decide();
    case Event::kBody:
      // No option is that long.
      loan() = {};
      session_.reply_error(tag(), "ERR syntax error");
      return session_.continue_with(*this, DropInput::whole_command(session_));
    case Event::kSkip:
    case Event::kError:
      loan() = {};
      session_.reply_error(tag(), "ERR " + std::string(parser.error()));
      session_.close_after_output();
      return session_.operation_done(*this);
  }
}

void OffloadSet::decide() {
  using Kind = ExpiryOptions::Kind;
  const ExpiryOptions options = parse_expiry_options(std::vector<std::string_view>(words_.begin(), words_.end()));
  if (options.kind != Kind::kNone && options.kind != Kind::kExpiry) {
    return session_.continue_with(*this, plain_set(session_, tag(), key(), std::move(loan()), words_, "set_options"));
  }
  if (options.kind == Kind::kExpiry) extras_.expiry = options.expiry;
  send(key(), extras_);
}

void OffloadSet::on_result(transfer::SetResult result) {
  using Kind = transfer::SetResult::Kind;
  switch (result.kind) {
    case Kind::kStored:
      return answer("+OK\r\n");
    case Kind::kRefused:
      return refused(std::move(result));
    case Kind::kUndone:
      if (beside_.empty()) return answer(std::string(kUndone) + result.text.substr(1) + "\r\n");
      return session_.continue_with(
          *this, plain_set(session_, tag(), key(), std::move(result.loan), words_, "rename_refused"));
    case Kind::kRepeat:
      session_.worker().metrics.count_fallback(result.text);
      return session_.continue_with(*this, StoreByTcp::operation(session_, tag(), key(), std::move(result.loan), words_,
                                                                 beside_, extras_.expiry));
    case Kind::kLost:
      return lost(result);
  }
}

void OffloadSet::refused(transfer::SetResult result) {
  if (result.text.starts_with(kWrongType) && beside_.empty()) {
    beside_ = temporary_key(key());
    loan() = std::move(result.loan);
    return send(beside_, {extras_.expiry, key()});
  }
  if (may_be_a_string(result.text)) {
    return session_.continue_with(*this,
                                  plain_set(session_, tag(), key(), std::move(result.loan), words_, "object_refused"));
  }
  answer(result.text + "\r\n");
}

/// No reply came.
void OffloadSet::lost(const transfer::SetResult& result) {
  std::string text = "ERR keyferry: " + result.text;
  if (!beside_.empty()) {
    remove_leftover(session_, beside_);
    text += "; the value may have been stored";
  } else if (result.stored) {
    remove_leftover(session_, key());
    text += "; the value was stored, its expiry may not be set, so it is removed";
  } else {
    text +=
        extras_.expiry ? "; the value may have been stored, without its expiry" : "; the value may have been stored";
  }
  session_.reply_error(tag(), text);
  session_.operation_done(*this);
}

void OffloadSet::answer(std::string_view bytes) {
  session_.reply(tag(), bytes);
  session_.finish_reply(tag());
  session_.operation_done(*this);
}

}  // namespace keyferry::gateway
