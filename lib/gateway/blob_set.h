#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/operation.h"
#include "gateway/reply_slots.h"
#include "transfer/engine.h"

namespace keyferry::gateway {

/// BLOB.TCP_SET of a large value: lease, the body read from the socket straight into it and hashed as it comes,
/// BLOB.RDMA_SET with its checksum, reply (design: SET). Repeats as BLOB.TCP_SET from the lease where the fabric's way
/// is refused. The loan is this operation's until it is handed to the engine. Belongs to the worker's thread.
class BlobSet : public Operation {
 public:
  /// `patient` false: where no room is free now the value streams as BLOB.TCP_SET (its own client has replies to take
  /// first).
  BlobSet(Session& session, SlotTag tag, std::string key, std::uint64_t length, bool patient);

  void start() override;
  void client_gone() override;

 protected:
  /// No room now, and it may not wait: the value goes as it comes.
  virtual void no_room_now();
  /// The body and its CR LF are here and nothing else of the command was looked at; the loan holds the value.
  virtual void body_here();
  virtual void on_result(transfer::SetResult result);

  /// Hands the loan to the engine.
  void send(const std::string& key, transfer::StoreExtras extras);
  SlotTag tag() const { return tag_; }
  const std::string& key() const { return key_; }
  std::uint32_t crc() const { return crc_; }
  transfer::Loan& loan() { return loan_; }
  bool gone() const { return gone_; }

 private:
  void on_lease(base::Result<transfer::Loan> loan);
  void receive();
  void received(base::ConstBytes bytes);
  std::vector<base::MutableBytes> next_memory() const;
  void receive_end();
  void repeat(transfer::SetResult result);

  SlotTag tag_;
  std::string key_;
  std::uint64_t length_;
  bool patient_;
  bool gone_ = false;
  /// The lease asked for and not granted yet; 0 if none.
  std::uint64_t ticket_ = 0;
  transfer::Loan loan_;
  std::uint64_t received_ = 0;
  std::uint32_t crc_ = 0;
  base::TimePoint leased_at_{};
};

}  // namespace keyferry::gateway
