#include "gateway/blob_get.h"

#include <utility>

#include "gateway/bulk_exchange.h"
#include "gateway/session.h"
#include "resp/decode.h"
#include "resp/writer.h"
#include "transfer/checked_value.h"

namespace keyferry::gateway {

namespace {

// BLOB.INFO answers with a number, a null or an error line.
constexpr std::size_t kLongestInfo = 4 * 1024;

}  // namespace

BlobGet::BlobGet(Session& session, SlotTag tag, std::string key)
    : Operation(session), tag_(tag), key_(std::move(key)) {}
BlobGet::~BlobGet() = default;

void BlobGet::start() {
  auto& engine = session_.worker().engine;
  const std::string_view reason = engine.unavailable_reason(session_.client().identity);
  if (!reason.empty()) return go_by_tcp(reason);
  if (known_length_) {
    asked_ = true;
    return on_length(*known_length_);
  }
  if (const auto length = session_.worker().lengths.find(session_.client().identity, key_)) return on_length(*length);
  ask_for_length();
}

void BlobGet::ask_for_length() {
  asked_ = true;
  state_ = State::kAsking;
  info_.clear();
  std::string command;
  resp::append_command(command, {"BLOB.INFO", key_, "LEN"});
  channel_ = session_.channel(upstream::Access::kReads);
  channel_->send(command, *this, tag_);
}

bool BlobGet::on_reply(std::uint64_t, std::string_view bytes, bool last) {
  if (info_.size() + bytes.size() <= kLongestInfo) info_.append(bytes);
  if (!last) return true;
  const auto keep = shared_from_this();
  if (gone_) {
    end();
    return true;
  }
  const resp::DecodeResult info = resp::decode(info_);
  if (!info.ok() || info.value.kind == resp::Value::Kind::kError || info.value.kind == resp::Value::Kind::kBlobError) {
    // The server judges: what it refuses to say of the key it may still give.
    go_by_tcp({});
  } else if (info.value.kind == resp::Value::Kind::kNull) {
    missing(info_);
  } else if (info.value.kind == resp::Value::Kind::kInteger && info.value.integer >= 0) {
    on_length(static_cast<std::uint64_t>(info.value.integer));
  } else {
    go_by_tcp("unexpected_info");
  }
  return true;
}

void BlobGet::on_reply_lost(std::uint64_t, upstream::Lost, bool, std::string_view reason) {
  const auto keep = shared_from_this();
  if (gone_) return end();
  const int code = channel_->failure();
  fail("ERR keyferry: " + std::string(reason) + "; nothing was read");
  session_.end_of_login(code);
}

void BlobGet::on_length(std::uint64_t length) {
  if (length < session_.worker().options.threshold) return go_by_tcp({});
  if (length > session_.worker().engine.largest_value()) return go_by_tcp("larger_than_half_the_pool");
  length_ = length;
  state_ = State::kWantsLease;
  session_.advance_gets();
}

void BlobGet::ask_for_lease() {
  state_ = State::kFetching;
  transfer::FetchRequest request;
  request.client = session_.client().id;
  request.identity = session_.client().identity;
  request.key = key_;
  request.length = length_;
  if (length_ >= kCopierFrom) request.hash_on = &session_.worker().copier;
  const auto self = std::static_pointer_cast<BlobGet>(shared_from_this());
  ticket_ = session_.worker().engine.fetch(std::move(request), session_.worker().loop, self);
}

void BlobGet::fetch_leased() {
  if (gone_) return;
  state_ = State::kLeased;
  session_.asked(tag_);
  session_.advance_gets();
}

void BlobGet::fetched(transfer::FetchResult result) {
  using Kind = transfer::FetchResult::Kind;
  ticket_ = 0;
  if (gone_) return end();
  if (result.kind == Kind::kValue) return deliver(result);
  session_.worker().lengths.forget(session_.client().identity, key_);
  switch (result.kind) {
    case Kind::kValue:
      return end();
    case Kind::kLeft:
      return fail("ERR keyferry: this client was ended");
    case Kind::kMissing: {
      std::string null;
      resp::append_null(null, session_.client().protocol);
      return missing(null);
    }
    case Kind::kRefused:
      return refused(result.text + "\r\n");
    case Kind::kRepeat:
      return go_by_tcp(result.text);
    case Kind::kOutgrown:
      return outgrown();
    case Kind::kNoRoom:
      return fail("ERR " + result.text);
    case Kind::kLost:
      return fail("ERR keyferry: " + result.text);
  }
}

void BlobGet::deliver(transfer::FetchResult& result) {
  LengthTable& lengths = session_.worker().lengths;
  // A value that has become small goes the other way next time.
  if (result.value->length() >= session_.worker().options.threshold) {
    lengths.remember(session_.client().identity, key_, result.value->length());
  } else {
    lengths.forget(session_.client().identity, key_);
  }
  begin_reply();
  session_.reply_value(tag_, std::move(result.value));
  finish(true);
}

/// Its lease went back. It waits for another only if nobody behind it holds one that can't be delivered before it has.
void BlobGet::outgrown() {
  if (asked_ || !session_.only(*this)) return go_by_tcp("window");
  ask_for_length();
}

void BlobGet::begin_reply() {
  if (continuation_) continuation_->begins();
}

void BlobGet::missing(std::string_view null) {
  begin_reply();
  session_.reply(tag_, null);
  finish(true);
}

void BlobGet::refused(std::string line) {
  if (continuation_) {
    transfer::Loan none;
    Continuation::Judgement judged = continuation_->judge(line, none);
    if (judged.kind == Continuation::Judgement::Kind::kHandOver) {
      state_ = State::kDone;
      return session_.continue_with(*this, std::move(judged.operation));
    }
    line = std::move(judged.bytes);
  }
  begin_reply();
  session_.reply(tag_, line);
  finish(false);
}

/// `text` starts with its code.
void BlobGet::fail(std::string text) {
  state_ = State::kDone;
  if (continuation_) {
    if (std::shared_ptr<Operation> next = continuation_->failed(text))
      return session_.continue_with(*this, std::move(next));
    continuation_.reset();
  }
  session_.reply_error(tag_, text);
  session_.operation_done(*this);
}

void BlobGet::finish(bool delivered) {
  state_ = State::kDone;
  if (continuation_) {
    if (std::shared_ptr<Operation> next = std::exchange(continuation_, nullptr)->ended(delivered))
      return session_.continue_with(*this, std::move(next));
  }
  session_.finish_reply(tag_);
  session_.operation_done(*this);
}

void BlobGet::go_by_tcp(std::string_view reason) {
  if (gone_) return end();
  if (!reason.empty()) session_.worker().metrics.count_fallback(reason);
  state_ = State::kDone;
  std::string command;
  resp::append_command(command, {"BLOB.TCP_GET", key_});
  auto next = std::make_shared<BulkExchange>(session_, tag_, BulkSource::whole(std::move(command)));
  next->count_as("get", !alone_);
  next->continue_to(std::move(continuation_));
  session_.continue_with(*this, std::move(next));
}

/// Its client is gone.
void BlobGet::end() {
  state_ = State::kDone;
  if (continuation_) std::exchange(continuation_, nullptr)->ended(false);
  session_.operation_done(*this);
}

void BlobGet::client_gone() {
  gone_ = true;
  if (ticket_ != 0) return session_.worker().engine.leave(ticket_);
  // Asking: the answer ends this.
  if (state_ == State::kWantsLease) end();
}

}  // namespace keyferry::gateway
