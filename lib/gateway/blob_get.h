#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "gateway/continuation.h"
#include "gateway/operation.h"
#include "gateway/reply_slots.h"
#include "transfer/fetch.h"
#include "upstream/channel.h"

namespace keyferry::gateway {

/// BLOB.TCP_GET: length as remembered or by BLOB.INFO on the client's channel, then the engine's answer, which is a
/// checked value in the pool, perhaps shared with other clients; it is sent to the socket straight from there (design:
/// GET). Small values, and whatever the fabric's way refuses, go as BLOB.TCP_GET on a bulk connection. A remembered
/// length that was too small is asked for and the GET begun again, once. Belongs to the worker's thread.
class BlobGet final : public Operation, public upstream::ReplySink, public transfer::FetchSink {
 public:
  BlobGet(Session& session, SlotTag tag, std::string key);
  ~BlobGet() override;

  /// Its length is known already: BLOB.INFO is not asked.
  void length_is(std::uint64_t length) { known_length_ = length; }
  /// No other GET runs beside it.
  void stay_alone() { alone_ = true; }
  /// Whose part this is.
  void continue_to(std::shared_ptr<Continuation> continuation) { continuation_ = std::move(continuation); }

  void start() override;
  void client_gone() override;
  bool is_get() const override { return !alone_; }
  bool wants_lease() const override { return state_ == State::kWantsLease; }
  void ask_for_lease() override;
  bool past_lease() const override { return state_ >= State::kLeased; }

  bool on_reply(std::uint64_t tag, std::string_view bytes, bool last) override;
  void on_reply_lost(std::uint64_t tag, upstream::Lost lost, bool begun, std::string_view reason) override;

  void fetch_leased() override;
  void fetched(transfer::FetchResult result) override;

 private:
  /// In this order, but for a second kAsking; kLeased and later need nothing more of the pool.
  enum class State : std::uint8_t { kAsking, kWantsLease, kFetching, kLeased, kDone };

  void ask_for_length();
  void on_length(std::uint64_t length);
  void deliver(transfer::FetchResult& result);
  void outgrown();
  void begin_reply();
  void missing(std::string_view null);
  void refused(std::string line);
  void fail(std::string text);
  /// The reply is there, wholly or as an error.
  void finish(bool delivered);
  void end();
  /// Counted with its reason unless empty (a small value is no fallback).
  void go_by_tcp(std::string_view reason);

  SlotTag tag_;
  std::string key_;
  std::optional<std::uint64_t> known_length_;
  bool alone_ = false;
  std::shared_ptr<Continuation> continuation_;
  State state_ = State::kAsking;
  bool gone_ = false;
  /// The length is the server's own word of just now.
  bool asked_ = false;
  /// Kept until it has answered: the session may choose another meanwhile.
  std::shared_ptr<upstream::Channel> channel_;
  std::string info_;
  std::uint64_t length_ = 0;
  /// What the engine owes an answer to; 0 if nothing.
  std::uint64_t ticket_ = 0;
};

}  // namespace keyferry::gateway
