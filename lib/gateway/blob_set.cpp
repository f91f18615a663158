#include "gateway/blob_set.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "gateway/bulk_exchange.h"
#include "gateway/drop_input.h"
#include "gateway/session.h"

namespace keyferry::gateway {

namespace {

// Read and hashed between other work: a worker is never busy with one value for longer than this takes.
constexpr std::size_t kSlice = 256 * 1024;

}  // namespace

BlobSet::BlobSet(Session& session, SlotTag tag, std::string key, std::uint64_t length, bool patient)
    : Operation(session), tag_(tag), key_(std::move(key)), length_(length), patient_(patient) {}

void BlobSet::start() {
  WorkerContext& worker = session_.worker();
  if (transfer::Loan kept = worker.kept_loan.take(session_.client().id, length_, worker.engine.memory_wanted()))
    return on_lease(std::move(kept));
  ticket_ = worker.engine.lease(
      session_.client().id, length_, patient_, worker.loop,
      [self = shared_from_this(), this](base::Result<transfer::Loan> loan) { on_lease(std::move(loan)); });
}

void BlobSet::on_lease(base::Result<transfer::Loan> loan) {
  ticket_ = 0;
  if (gone_) return;
  if (!loan && !patient_) return no_room_now();
  if (!loan) {
    session_.reply_error(tag_, "ERR " + loan.error().message);
    return session_.continue_with(*this, DropInput::whole_command(session_));
  }
  loan_ = std::move(*loan);
  leased_at_ = base::Clock::steady().now();
  session_.consume_input(session_.parser().body_offset());
  receive();
}

void BlobSet::no_room_now() {
  session_.worker().metrics.count_fallback("no_room_before_undelivered_replies");
  auto next = std::make_shared<BulkExchange>(session_, tag_, BulkSource::from_input());
  next->count_as("set", false);
  session_.continue_with(*this, std::move(next));
}

/// First what was read together with the header, then straight from the socket.
void BlobSet::receive() {
  while (received_ != length_ && !session_.input().empty()) {
    const base::MutableBytes memory = next_memory().front();
    const std::size_t count = std::min(memory.size(), session_.input().size());
    std::memcpy(memory.data(), session_.input().data(), count);
    session_.consume_input(count);
    received(memory.first(count));
  }
  if (received_ == length_) return receive_end();
  // With the last of the body comes what ends it.
  const auto behind = length_ - received_ <= kSlice ? Session::Behind::kComesToo : Session::Behind::kStays;
  session_.read_into(next_memory(), behind, [self = shared_from_this(), this](std::size_t count) {
    for (const base::MutableBytes& memory : next_memory()) {
      const std::size_t here = std::min(count, memory.size());
      received(memory.first(here));
      count -= here;
      if (count == 0) break;
    }
    receive();
  });
}

void BlobSet::received(base::ConstBytes bytes) {
  crc_ = base::crc32c(bytes, crc_);
  received_ += bytes.size();
}

/// Where the next bytes go: at most one slice, which may end in one region and begin in the next.
std::vector<base::MutableBytes> BlobSet::next_memory() const {
  std::vector<base::MutableBytes> memory;
  std::uint64_t skip = received_;
  std::size_t left = kSlice;
  for (const base::MutableBytes& span : loan_.spans()) {
    if (skip >= span.size()) {
      skip -= span.size();
      continue;
    }
    const std::size_t at = static_cast<std::size_t>(skip);
    const std::size_t count = std::min(left, span.size() - at);
    memory.push_back(span.subspan(at, count));
    left -= count;
    skip = 0;
    if (left == 0) break;
  }
  return memory;
}

void BlobSet::receive_end() {
  if (session_.input().size() < 2) {
    return session_.read_input(0, [self = shared_from_this(), this] { receive_end(); });
  }
  if (!session_.parser().body_ends_well(session_.input().substr(0, 2))) {
    loan_ = {};
    session_.reply_error(tag_, "ERR " + std::string(session_.parser().error()));
    session_.close_after_output();
    return session_.operation_done(*this);
  }
  session_.consume_input(2);
  session_.parser().body_taken();
  session_.worker().metrics.receive_set.observe(base::seconds(base::Clock::steady().now() - leased_at_));
  body_here();
}

void BlobSet::body_here() {
  session_.input_done();
  send(key_, {});
}

void BlobSet::send(const std::string& key, transfer::StoreExtras extras) {
  session_.asked(tag_);
  session_.worker().engine.set(
      key, crc_, std::move(loan_), session_.worker().loop,
      [self = shared_from_this(), this](transfer::SetResult result) {
        const bool stored = result.kind == transfer::SetResult::Kind::kStored;
        if (stored && result.loan && !session_.closed())
          session_.worker().kept_loan.keep(session_.client().id, std::move(result.loan));
        on_result(std::move(result));
      },
      std::move(extras), session_.client().identity);
}

void BlobSet::on_result(transfer::SetResult result) {
  using Kind = transfer::SetResult::Kind;
  // A SET received whole runs to its end whether or not its client waits for it (design: a client that goes away).
  if (result.kind == Kind::kRepeat && !session_.closed()) return repeat(std::move(result));
  switch (result.kind) {
    case Kind::kStored:
      session_.worker().lengths.remember(session_.client().identity, key_, length_);
      session_.reply(tag_, "+OK\r\n");
      session_.finish_reply(tag_);
      break;
    case Kind::kRefused:
    case Kind::kUndone:
      session_.reply(tag_, result.text + "\r\n");
      session_.finish_reply(tag_);
      break;
    case Kind::kLost:
      session_.reply_error(tag_, "ERR keyferry: " + result.text + "; the value may have been stored");
      break;
    case Kind::kRepeat:
      break;
  }
  session_.operation_done(*this);
}

void BlobSet::repeat(transfer::SetResult result) {
  session_.worker().metrics.count_fallback(result.text);
  auto next =
      std::make_shared<BulkExchange>(session_, tag_, BulkSource::stored("BLOB.TCP_SET", key_, std::move(result.loan)));
  next->count_as("set", false);
  session_.continue_with(*this, std::move(next));
}

void BlobSet::client_gone() {
  gone_ = true;
  // A lease that was granted meanwhile comes back when its answer is dropped.
  if (ticket_ != 0) session_.worker().engine.cancel_lease(ticket_);
  // Not handed to the engine yet, be it for the last CR LF only: the memory goes back. Else on_result() ends this.
  if (loan_ || received_ != length_) session_.operation_done(*this);
}

}  // namespace keyferry::gateway
