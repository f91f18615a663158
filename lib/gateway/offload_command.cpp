#include "gateway/offload_command.h"

#include <chrono>
#include <utility>

#include "gateway/blob_get.h"
#include "gateway/expiry_options.h"
#include "gateway/offload_parts.h"
#include "gateway/session.h"
#include "resp/decode.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

// Of the replies that are looked at: a number, a null, a status or an error.
constexpr std::size_t kLongestReply = 4 * 1024;
constexpr std::string_view kWrongType = "-WRONGTYPE";
// A key that changes its kind each time it is looked at is not worth more, and a list stays a list.
constexpr unsigned kMostRounds = 3;

bool is_past(const transfer::Expiry& expiry) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return expiry.absolute && expiry.milliseconds <= std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

ExpiryOptions options_of(const std::vector<std::string>& words) {
  return parse_expiry_options(std::vector<std::string_view>(words.begin(), words.end()));
}

}  // namespace

OffloadCommand::OffloadCommand(Session& session, SlotTag tag, Plan plan)
    : Operation(session), tag_(tag), plan_(std::move(plan)) {}
OffloadCommand::~OffloadCommand() = default;

void OffloadCommand::start() {
  if (!wrong_type_.empty()) return ask_info();
  const bool reads = plan_.route == OffloadRoute::kGet || plan_.route == OffloadRoute::kStrlen;
  if (plan_.route == OffloadRoute::kNeverOnObject ||
      (reads && session_.worker().kind_hints.is_object(session_.client().identity, plan_.keys.front())))
    return ask_info();
  ask_command();
}

void OffloadCommand::ask(Asked what, const std::string& command) {
  asked_ = what;
  reply_.clear();
  const bool reads = what == Asked::kInfo || plan_.route == OffloadRoute::kGet || plan_.route == OffloadRoute::kStrlen;
  const upstream::Access access = reads ? upstream::Access::kReads : upstream::Access::kWrites;
  channel_ = session_.channel(access);
  channel_->send(command, *this, tag_, access);
}

void OffloadCommand::ask_command() {
  key_ = 0;
  ask(Asked::kCommand, plan_.command);
}

void OffloadCommand::ask_info() {
  std::string command;
  resp::append_command(command, {"BLOB.INFO", plan_.keys[key_], "LEN"});
  ask(Asked::kInfo, command);
}

bool OffloadCommand::on_reply(std::uint64_t, std::string_view bytes, bool last) {
  const auto keep = shared_from_this();
  if (asked_ == Asked::kCommand) return command_replied(bytes, last);
  if (reply_.size() + bytes.size() <= kLongestReply) reply_.append(bytes);
  if (!last) return true;
  resp::Value reply = resp::decode(reply_).value;
  if (asked_ == Asked::kMove) {
    move_replied(reply);
  } else if (gone_) {
    end();
  } else if (asked_ == Asked::kInfo) {
    info_replied(reply);
  } else {
    expiry_replied(reply);
  }
  return true;
}

bool OffloadCommand::command_replied(std::string_view bytes, bool last) {
  if (gone_) {
    if (last) end();
    return true;
  }
  if (passing_) {
    session_.reply(tag_, bytes);
  } else {
    reply_.append(bytes);
    if (reply_.starts_with(kWrongType) || (!last && reply_.size() < kWrongType.size())) {
      if (!last) return true;
      wrong_type_ = std::move(reply_);
      ask_info();
      return true;
    }
    passing_ = true;
    session_.reply(tag_, reply_);
  }
  if (last) {
    session_.worker().kind_hints.note(session_.client().identity, plan_.keys.front(), false);
    session_.finish_reply(tag_);
    end();
    return true;
  }
  paused_ = session_.output_full() && channel_->retired();
  return !paused_;
}

void OffloadCommand::on_reply_lost(std::uint64_t, upstream::Lost lost, bool begun, std::string_view reason) {
  const auto keep = shared_from_this();
  paused_ = false;
  // Whether it was moved is unknown: then this does nothing.
  if (asked_ == Asked::kMove) put_back(session_, moved_to_, plan_.keys[key_]);
  if (!gone_ && begun && passing_ && !session_.retract_reply(tag_)) {
    gone_ = true;
    session_.close("the rest of a reply was lost: " + std::string(reason));
    return end();
  }
  if (!gone_) {
    std::string text = "ERR keyferry: " + std::string(reason);
    text += asked_ == Asked::kInfo             ? "; nothing was done"
            : lost == upstream::Lost::kNotSent ? "; the command was not sent"
                                               : "; the command may have run";
    session_.reply_error(tag_, text);
  }
  end();
}

void OffloadCommand::info_replied(const resp::Value& info) {
  if (info.kind == resp::Value::Kind::kInteger && info.integer >= 0) {
    session_.worker().kind_hints.note(session_.client().identity, plan_.keys[key_], true);
    return on_object(static_cast<std::uint64_t>(info.integer));
  }
  session_.worker().kind_hints.note(session_.client().identity, plan_.keys[key_], false);
  if (++key_ < plan_.keys.size()) return ask_info();
  asked_all(info);
}

/// None of the keys holds a large object.
void OffloadCommand::asked_all(const resp::Value& info) {
  key_ = 0;
  if (wrong_type_.empty()) return ask_command();
  const bool other_kind = info.is_null() || info.text.starts_with("WRONGTYPE");
  const bool no_module = info.text.find("unknown") != std::string::npos;
  if (!other_kind && !no_module) return answer(reply_);
  // It may have been an object a moment ago.
  if (!plan_.command.empty() && other_kind && ++plan_.rounds < kMostRounds) return ask_command();
  answer(wrong_type_);
}

void OffloadCommand::on_object(std::uint64_t length) {
  length_ = length;
  switch (plan_.route) {
    case OffloadRoute::kGet:
      return read_value();
    case OffloadRoute::kGetDel:
      return move_aside();
    case OffloadRoute::kGetEx:
      return set_expiry();
    case OffloadRoute::kStrlen: {
      std::string number;
      resp::append_integer(number, static_cast<std::int64_t>(length));
      return answer(number);
    }
    default:
      std::string error;
      resp::append_error(error, plan_.object_error);
      return answer(error);
  }
}

/// Before the value is read, so that an error changes nothing.
void OffloadCommand::set_expiry() {
  using Kind = ExpiryOptions::Kind;
  const ExpiryOptions options = options_of(plan_.options);
  const std::string& key = plan_.keys.front();
  std::string command;
  switch (options.kind) {
    case Kind::kNone:
      return read_value();
    case Kind::kPersist:
      resp::append_command(command, {"PERSIST", key});
      return ask(Asked::kExpiry, command);
    case Kind::kExpiry:
      // The server removes the key then, and the value would be gone before it is read.
      if (is_past(options.expiry)) return move_aside();
      resp::append_command(command, {options.expiry.absolute ? "PEXPIREAT" : "PEXPIRE", key,
                                     std::to_string(options.expiry.milliseconds)});
      return ask(Asked::kExpiry, command);
    case Kind::kNoInteger:
      return answer("-ERR value is not an integer or out of range\r\n");
    case Kind::kNoTime:
      return answer("-ERR invalid expire time in 'getex' command\r\n");
    case Kind::kOther:
      return answer("-ERR syntax error\r\n");
  }
}

void OffloadCommand::expiry_replied(const resp::Value& reply) {
  if (reply.kind != resp::Value::Kind::kInteger) return answer(reply_);
  read_value();
}

/// Of two clients that take a value away only one may get it, and RENAME is what the server does at once.
void OffloadCommand::move_aside() {
  moved_to_ = temporary_key(plan_.keys[key_]);
  std::string command;
  resp::append_command(command, {"RENAME", plan_.keys[key_], moved_to_});
  ask(Asked::kMove, command);
}

void OffloadCommand::move_replied(const resp::Value& reply) {
  const bool moved = reply.kind == resp::Value::Kind::kSimple && reply.text == "OK";
  if (gone_) {
    if (moved) put_back(session_, moved_to_, plan_.keys[key_]);
    return end();
  }
  if (moved) return read_value();
  // Somebody was faster: now it is missing, or another value.
  if (reply.text.find("no such key") != std::string::npos && ++plan_.rounds < kMostRounds) return ask_command();
  answer(reply_);
}

void OffloadCommand::read_value() {
  const std::string& key = plan_.keys[key_];
  std::shared_ptr<Continuation> continuation;
  auto next = std::make_shared<BlobGet>(session_, tag_, moved_to_.empty() ? key : moved_to_);
  next->length_is(length_);
  if (!moved_to_.empty()) {
    continuation = std::make_shared<TakenAway>(session_, moved_to_, key);
  } else {
    ++plan_.rounds;
    continuation = std::make_shared<AskAgain>(session_, tag_, plan_);
  }
  if (plan_.route != OffloadRoute::kGet) next->stay_alone();
  next->continue_to(std::move(continuation));
  session_.classify(tag_, CommandClass::kTransferGet);
  session_.continue_with(*this, std::move(next));
}

void OffloadCommand::answer(std::string_view bytes) {
  session_.reply(tag_, bytes);
  session_.finish_reply(tag_);
  end();
}

void OffloadCommand::end() {
  session_.operation_done(*this);
}

void OffloadCommand::output_drained() {
  if (!std::exchange(paused_, false)) return;
  channel_->resume();
}

void OffloadCommand::client_gone() {
  // What was asked is answered in any case, and that ends this.
  gone_ = true;
  output_drained();
}

}  // namespace keyferry::gateway
