#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "libfabric.h"

namespace keyferry::large_object {

class FabricService;

/// A client's address as one service's address vector knows it. Entries are shared by all sessions of the same address
/// and removed when the last holder lets go (blob-rdma spec 3.1). Destroy it on any thread; the removal happens on the
/// service's.
class Peer {
 public:
  Peer(FabricService& service, std::string address, fi_addr_t handle)
      : service_(service), address_(std::move(address)), handle_(handle) {}
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] fi_addr_t handle() const { return handle_; }

 private:
  FabricService& service_;
  std::string address_;  // raw bytes
  fi_addr_t handle_;
};

/// The memory of one transfer on this side and, where the provider wants local operands registered (efa), its
/// registrations: one per service, made by that service's thread at its first operation.
class LocalMemory {
 public:
  LocalMemory(std::span<std::byte> bytes, std::size_t services) : bytes_(bytes), registrations_(services) {}

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

  /// Thread of service `index` only. Nullptr with a negative code if registering failed.
  void* descriptor(std::size_t index, fid_domain& domain, int& code);

 private:
  std::span<std::byte> bytes_;
  std::vector<FidPtr<fid_mr>> registrations_;
};

struct Operation;

/// Who an operation belongs to. Both are called on fabric threads.
class OperationOwner {
 public:
  virtual ~OperationOwner() = default;

  /// False once a sibling has failed: an operation that is not posted yet then ends unposted (blob-rdma spec 3.2 step
  /// 7).
  [[nodiscard]] virtual bool wanted() const = 0;

  /// Called exactly once per submitted operation; an empty problem means that its bytes are placed. The operation is
  /// the owner's again.
  virtual void operation_ended(Operation& operation, const std::string& problem) = 0;
};

/// One RMA operation: a piece of a transfer. Filled by its owner, from submit() to operation_ended() in the hands of
/// the service.
struct Operation {
  enum class Kind { kRead, kWrite };

  /// What libfabric gets as context: must stay put while posted (FI_CONTEXT2). Its address leads back to the operation.
  struct Context {
    fi_context2 space;
    Operation* operation;
  };

  Kind kind = Kind::kRead;
  std::span<std::byte> local;
  std::uint64_t remote_key = 0;
  std::uint64_t remote_address = 0;
  /// By service index; kept alive by the owner.
  std::span<const std::unique_ptr<Peer>> peers;
  LocalMemory* memory = nullptr;
  /// Keeps the owner, and with it this operation, until the end. Moved in by submit().
  std::shared_ptr<OperationOwner> owner;

  Context context{};
  std::optional<std::chrono::steady_clock::time_point> first_refusal;
  std::chrono::steady_clock::time_point posted;
};

/// One endpoint with its own domain, address vector and completion queue, and the thread that makes all its transfers.
/// Posts as the published fabric library does (blob-rdma spec 3.6, 3.7): first in, first out; at most `max_in_flight`
/// posted; a piece that the provider refuses goes to the back and fails at the first refusal that comes a second or
/// more after its own first one; nothing bounds a piece once posted.
///
/// Threads: submit() and insert_peer() may be called from any thread, and hand over through `mutex_`. queue_ and
/// in_flight_ belong to the service's thread. The endpoint is used by that thread alone; the address vector also by
/// insert_peer() (FI_THREAD_SAFE).
class FabricService {
 public:
  struct Options {
    std::size_t index = 0;
    /// 0: the provider's transmit queue, at most 64.
    std::size_t max_in_flight = 0;
    /// Whether the completion queue is slept on. efa has no wait object here, and 1.17's ofi_rxm goes wrong with one.
    bool waitable = true;
    /// How long a piece is offered to a provider that takes none.
    std::chrono::milliseconds patience{1000};
  };

  static std::unique_ptr<FabricService> open(const Libfabric& library, const fi_info& info, const Options& options,
                                             std::string& problem);

  [[nodiscard]] std::span<const std::byte> address() const { return address_; }

  /// Same length and same address family as the service's own. Anything else must not reach fi_av_insert, which would
  /// never accept another address afterwards (blob-rdma spec 4.8).
  [[nodiscard]] bool accepts(std::span<const std::byte> address) const;

  /// Null, and what fi_av_insert returned instead of 1.
  std::unique_ptr<Peer> insert_peer(std::span<const std::byte> address, int& returned);

  /// Hands an address of no family to fi_av_insert, after which the address vector refuses all others for good; returns
  /// its result.
  int spoil_address_vector();

  void submit(std::span<Operation* const> operations);

  /// Queued or posted operations; any thread, approximate.
  [[nodiscard]] std::size_t outstanding() const { return outstanding_.load(std::memory_order_relaxed); }
  void expect(std::size_t operations) { outstanding_.fetch_add(operations, std::memory_order_relaxed); }

  /// Ends the thread wherever it is; operations under way never end. Only before the process ends.
  void stop();

 private:
  friend class Peer;
  enum class Sleep { kAwake, kOnCondition, kOnQueue };
  struct KnownPeer {
    fi_addr_t handle;
    std::size_t holders;
  };

  FabricService(const Libfabric& library, const Options& options) : library_(library), options_(options) {}

  std::string open_objects(const fi_info& info);
  void run();
  bool take_submitted();
  void release_peer(const std::string& address);
  void remove_unused_peers();
  bool post_queued();
  ssize_t post(Operation& operation);
  bool drain_completions();
  void handle_error_entry();
  void wait_for_events();
  void wake(std::unique_lock<std::mutex> lock);
  void end(Operation& operation, const std::string& problem);

  const Libfabric& library_;
  Options options_;
  Libfabric::Info info_{nullptr, nullptr};
  FidPtr<fid_fabric> fabric_;
  FidPtr<fid_domain> domain_;
  FidPtr<fid_av> av_;
  FidPtr<fid_cq> cq_;
  FidPtr<fid_ep> endpoint_;
  std::vector<std::byte> address_;

  std::mutex mutex_;
  std::condition_variable condition_;
  Sleep sleep_ = Sleep::kAwake;
  bool stopping_ = false;
  std::vector<Operation*> submitted_;
  std::vector<std::string> released_;

  // Also held around every call that changes the address vector.
  std::mutex peers_mutex_;
  std::map<std::string, KnownPeer> peers_;  // by the address's raw bytes

  std::deque<Operation*> queue_;
  std::size_t in_flight_ = 0;
  unsigned fruitless_passes_ = 0;
  std::atomic<std::size_t> outstanding_{0};
  std::thread thread_;
};

}  // namespace keyferry::large_object
