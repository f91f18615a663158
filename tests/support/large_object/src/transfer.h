#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "blocked_command.h"
#include "fabric.h"
#include "faults.h"
#include "large_object.h"
#include "pieces.h"
#include "worker_pool.h"

namespace keyferry::large_object {

/// How a transfer ended. An early error comes while pieces are still under way; a second report, of any other kind,
/// then follows.
struct TransferResult {
  enum class Kind { kFinished, kFailed, kEarlyError };

  Kind kind = Kind::kFailed;
  /// CRC-32C of what was read; of a transfer that reads, when it is kFinished.
  std::uint32_t crc = 0;
};

/// One RDMA_GET or RDMA_SET between its checks and its reply: cuts the object, gives the pieces to the fabric and
/// reports when all that were started have ended. It holds the memory and the session until then, whatever becomes of
/// key and client.
///
/// Threads: everything runs on the main thread but wanted(), operation_ended() (fabric threads) and the hashing
/// (workers). Those touch failed_, remaining_ and, each its own element, piece_crcs_; the main thread reads these after
/// it was told that remaining_ is 0, a task posted by whoever brought it there.
class Transfer : public OperationOwner, public std::enable_shared_from_this<Transfer> {
 public:
  struct Request {
    Operation::Kind kind = Operation::Kind::kRead;
    SessionRef session;
    /// Exactly one is set: the object of a GET or the buffer that a SET fills.
    LargeObjectRef object;
    std::shared_ptr<Buffer> buffer;
    std::vector<Triple> triples;
    std::size_t chunk = 0;
    bool shuffle = true;
    std::chrono::milliseconds delay{0};
    std::optional<MidTransfer> mid_transfer;
    std::uint64_t client_id = 0;
  };

  using Report = std::function<void(const TransferResult&)>;

  /// `report` is called on the main thread. The fabric and the pool must outlive the transfer.
  static void start(Fabric& fabric, WorkerPool& pool, Request request, Report report);

  [[nodiscard]] bool wanted() const override { return !failed_.load(std::memory_order_relaxed); }
  void operation_ended(Operation& operation, const std::string& problem) override;

 private:
  Transfer(Fabric& fabric, WorkerPool& pool, Request request, Report report);

  void cut_into_operations();
  void run(std::size_t count);
  void hash(std::size_t index);
  void one_less();
  void batch_ended();
  void interfere();
  void finish();
  [[nodiscard]] std::uint32_t combined_crc() const;

  Fabric& fabric_;
  WorkerPool& pool_;
  Request request_;
  Report report_;
  LocalMemory memory_;
  std::vector<Operation> operations_;
  std::vector<std::uint32_t> piece_crcs_;
  std::size_t started_ = 0;
  bool interfered_ = false;
  std::atomic<std::size_t> remaining_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace keyferry::large_object
