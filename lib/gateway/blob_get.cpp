#include "gateway/blob_get.h"

#include <spdlog/spdlog.h>

#include "gateway/bulk_exchange.h"
#include "gateway/session.h"
#include "resp/decode.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

// Hashed between other work: a worker is never busy with one value for longer than this takes.
constexpr std::size_t kSlice = 512 * 1024;
// BLOB.INFO answers with a number, a null or an error line.
constexpr std::size_t kLongestInfo = 4 * 1024;

}  // namespace

BlobGet::BlobGet(Session& session, SlotTag tag, std::string key)
    : Operation(session), tag_(tag), key_(std::move(key)) {}
BlobGet::~BlobGet() = default;

void BlobGet::start() {
  auto& engine = session_.worker().engine;
  if (!engine.available()) return go_by_tcp(engine.unavailable_reason());
  std::string command;
  resp::append_command(command, {"BLOB.INFO", key_, "LEN"});
  session_.worker().metrics.server_out.add(command.size());
  owes_reply_ = true;
  channel_ = session_.channel();
  channel_->send(command, *this, tag_);
}

bool BlobGet::on_reply(std::uint64_t, std::string_view bytes, bool last) {
  session_.worker().metrics.server_in.add(bytes.size());
  if (info_.size() + bytes.size() <= kLongestInfo) info_.append(bytes);
  if (!last) return true;
  owes_reply_ = false;
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
    session_.reply(tag_, info_);
    session_.finish_reply(tag_);
    end();
  } else if (info.value.kind == resp::Value::Kind::kInteger && info.value.integer >= 0) {
    on_length(static_cast<std::uint64_t>(info.value.integer));
  } else {
    go_by_tcp("unexpected_info");
  }
  return true;
}

void BlobGet::on_reply_lost(std::uint64_t, upstream::Lost, bool, std::string_view reason) {
  owes_reply_ = false;
  const auto keep = shared_from_this();
  if (!gone_) session_.reply_error(tag_, "ERR keyferry: " + std::string(reason) + "; nothing was read");
  end();
}

void BlobGet::on_length(std::uint64_t length) {
  if (length < session_.worker().options.threshold) return go_by_tcp({});
  if (length > session_.worker().engine.largest_value()) return go_by_tcp("larger_than_half_the_pool");
  length_ = length;
  state_ = State::kWantsLease;
  session_.advance_gets();
}

void BlobGet::ask_for_lease() {
  state_ = State::kLeasing;
  ticket_ = session_.worker().engine.lease(
      session_.client().id, length_, true, session_.worker().loop,
      [self = shared_from_this(), this](base::Result<transfer::Loan> loan) { on_lease(std::move(loan)); });
}

void BlobGet::on_lease(base::Result<transfer::Loan> loan) {
  ticket_ = 0;
  if (gone_) return;
  if (!loan) {
    session_.reply_error(tag_, "ERR " + loan.error().message);
    return end();
  }
  state_ = State::kLeased;
  transfer_ = session_.worker().engine.get(
      key_, std::move(*loan), session_.worker().loop,
      [self = shared_from_this(), this](transfer::GetResult result) { on_result(std::move(result)); });
  session_.advance_gets();
}

void BlobGet::on_result(transfer::GetResult result) {
  using Kind = transfer::GetResult::Kind;
  if (gone_) return end();
  switch (result.kind) {
    case Kind::kLanded:
      state_ = State::kChecking;
      landed_at_ = base::Clock::steady().now();
      checker_ = std::make_unique<transfer::Checker>(std::move(result.value), kSlice);
      return check();
    case Kind::kRepeat:
      return go_by_tcp(result.text);
    case Kind::kMissing: {
      std::string null;
      resp::append_null(null, session_.client().protocol);
      session_.reply(tag_, null);
      session_.finish_reply(tag_);
      return end();
    }
    case Kind::kRefused:
      session_.reply(tag_, result.text + "\r\n");
      session_.finish_reply(tag_);
      return end();
    case Kind::kLost:
      session_.reply_error(tag_, "ERR keyferry: " + result.text);
      return end();
  }
}

/// One slice, then other work.
void BlobGet::check() {
  if (gone_) return end();
  if (!checker_->step()) {
    session_.worker().loop.post([self = shared_from_this(), this] { check(); });
    return;
  }
  session_.worker().metrics.verify_get.observe(base::seconds(base::Clock::steady().now() - landed_at_));
  base::Result<transfer::CheckedValue> value = checker_->take();
  // If it was wrong its memory goes back before the repeat asks for anything: that costs neither region nor lane
  // (blob-rdma spec C6).
  checker_.reset();
  if (!value) {
    session_.worker().metrics.count_mismatch();
    spdlog::error("a value from the fabric was wrong and is read again as BLOB.TCP_GET: {}", value.error().message);
    return go_by_tcp("checksum");
  }
  session_.reply_value(tag_, std::move(*value));
  session_.finish_reply(tag_);
  end();
}

void BlobGet::go_by_tcp(std::string_view reason) {
  if (gone_) return end();
  if (!reason.empty()) session_.worker().metrics.count_fallback(reason);
  state_ = State::kDone;
  std::string command;
  resp::append_command(command, {"BLOB.TCP_GET", key_});
  auto next = std::make_shared<BulkExchange>(session_, tag_, BulkSource::whole(std::move(command)));
  next->count_as("get", true);
  session_.continue_with(*this, std::move(next));
}

void BlobGet::end() {
  state_ = State::kDone;
  session_.operation_done(*this);
}

void BlobGet::client_gone() {
  gone_ = true;
  // A lease that was granted meanwhile comes back when its answer is dropped. Asking or transferring: the answer ends
  // this. Hashing: the next slice does.
  if (ticket_ != 0) session_.worker().engine.cancel_lease(ticket_);
  if (ticket_ != 0 || state_ == State::kWantsLease) return end();
  if (state_ == State::kLeased) session_.worker().engine.abandon_get(transfer_);
}

}  // namespace keyferry::gateway
