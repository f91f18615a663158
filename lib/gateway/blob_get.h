#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gateway/operation.h"
#include "gateway/reply_slots.h"
#include "transfer/checked_value.h"
#include "transfer/engine.h"
#include "upstream/channel.h"

namespace keyferry::gateway {

/// BLOB.TCP_GET: length by BLOB.INFO on the client's channel, lease, BLOB.RDMA_GET, the bytes hashed in slices, then
/// sent to the socket straight out of the lease (design: GET). Small values, and whatever the fabric's way refuses, go
/// as BLOB.TCP_GET on a bulk connection. Belongs to the worker's thread.
class BlobGet final : public Operation, public upstream::ReplySink {
 public:
  BlobGet(Session& session, SlotTag tag, std::string key);
  ~BlobGet() override;

  void start() override;
  void client_gone() override;
  bool is_get() const override { return true; }
  bool wants_lease() const override { return state_ == State::kWantsLease; }
  void ask_for_lease() override;
  bool past_lease() const override { return state_ >= State::kLeased; }

  bool on_reply(std::uint64_t tag, std::string_view bytes, bool last) override;
  void on_reply_lost(std::uint64_t tag, upstream::Lost lost, bool begun, std::string_view reason) override;

 private:
  /// In this order; kLeased and later need nothing more of the pool.
  enum class State : std::uint8_t { kAsking, kWantsLease, kLeasing, kLeased, kChecking, kDone };

  void on_length(std::uint64_t length);
  void on_lease(base::Result<transfer::Loan> loan);
  void on_result(transfer::GetResult result);
  void check();
  void end();
  /// Counted with its reason unless empty (a small value is no fallback).
  void go_by_tcp(std::string_view reason);

  SlotTag tag_;
  std::string key_;
  State state_ = State::kAsking;
  bool gone_ = false;
  bool owes_reply_ = false;
  /// Kept until it has answered: the session may choose another meanwhile.
  std::shared_ptr<upstream::Channel> channel_;
  std::string info_;
  std::uint64_t length_ = 0;
  std::uint64_t ticket_ = 0;
  /// The BLOB.RDMA_GET under way, while kLeased.
  std::uint64_t transfer_ = 0;
  std::unique_ptr<transfer::Checker> checker_;
  base::TimePoint landed_at_{};
};

}  // namespace keyferry::gateway
