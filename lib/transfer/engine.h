#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "fabric/fabric.h"
#include "memory/pool_memory.h"
#include "telemetry/registry.h"
#include "transfer/fetch.h"
#include "transfer/store_steps.h"
#include "transfer/trust.h"
#include "transfer/write_marks.h"
#include "upstream/connection.h"

namespace keyferry::transfer {

struct EngineOptions {
  /// How lanes connect; protocol and client name are the engine's business.
  upstream::ConnectOptions connect;
  std::size_t lanes = 8;
  std::size_t warm = 1;
  base::Duration pool_wait = std::chrono::seconds(60);
  base::Duration upstream_wait = std::chrono::seconds(5);
  /// For a GET whose client went away: how long its reply is waited for before it is fenced.
  base::Duration orphan_grace = std::chrono::seconds(1);
  TrustErrorReplies trust_error_replies = TrustErrorReplies::kBeforeRma;
  /// Bytes per second; 0: no deadline. Else a command that is out for longer than deadline_base + bytes / min_rate is
  /// fenced: a limit that gave memory back without that would be a hope (promise 4, C13).
  std::uint64_t min_rate = 0;
  base::Duration deadline_base = std::chrono::seconds(10);
  /// Key prefixes whose values never change (transfer.immutable).
  std::vector<std::string> immutable;
  /// For tests: every byte of the pool is checked whenever its owner changes (memory/region_auditor.h); slow.
  bool audit_pool = false;
  /// An idle lane is asked for a sign of life when it has been quiet for so long.
  base::Duration lane_check = std::chrono::seconds(10);
  /// When a reply has been owed for so long, the node is asked for a sign of life on another connection; without one
  /// within probe_wait what it owes is fenced (R35).
  base::Duration probe_after = std::chrono::seconds(5);
  base::Duration probe_wait = std::chrono::seconds(10);
};

/// Memory of the pool that its holder alone may read and write, until it is handed on or destroyed. Move-only; may be
/// moved to another thread as part of a message. Destroying it tells the engine that this holder is done with the
/// bytes: the engine frees the regions only when the server is done with them too (R88). It never frees anything by
/// itself.
class Loan {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Any thread.
    virtual void returned(std::uint64_t lease) = 0;
  };

  Loan() = default;
  Loan(std::shared_ptr<Owner> owner, std::uint64_t lease, std::vector<base::MutableBytes> spans, std::uint64_t length);
  Loan(Loan&&) noexcept = default;
  Loan& operator=(Loan&& other) noexcept;
  ~Loan();

  explicit operator bool() const { return owner_ != nullptr; }
  std::uint64_t lease() const { return lease_; }
  /// Bytes of the value; the spans below are cut to exactly that many, in order.
  std::uint64_t length() const { return length_; }
  const std::vector<base::MutableBytes>& spans() const { return spans_; }

 private:
  std::shared_ptr<Owner> owner_;
  std::uint64_t lease_ = 0;
  std::vector<base::MutableBytes> spans_;
  std::uint64_t length_ = 0;
};

/// Bytes. A larger value takes so long that asking for its lease first is nothing beside it.
inline constexpr std::uint64_t kLentAgain = 2 * base::kMiB;

/// What became of a BLOB.RDMA_SET.
struct SetResult {
  enum class Kind : std::uint8_t {
    kStored,
    /// The server's own error, one that BLOB.TCP_SET gives too: `text` is the whole RESP error line without CR LF
    /// ("-OOM ..."), to be passed on. Nothing is stored.
    kRefused,
    /// It was stored, one of the extras failed with the error line `text`, and it was removed again.
    kUndone,
    /// An error that the TCP form can't give, or no lane to be had: repeat as BLOB.TCP_SET from `loan`. `text` is the
    /// reason for fallback_total.
    kRepeat,
    /// No reply came: it may have been stored. `text` says what happened.
    kLost,
  };
  Kind kind = Kind::kLost;
  std::string text;
  /// Given back with kRepeat, kRefused and kUndone. With kStored too, up to kLentAgain bytes and unless memory is short
  /// (LeaseBook): as a lease of its own, for that client's next value of the same length.
  Loan loan;
  /// kLost while the extras were under way: this is certainly stored, and may lack them.
  bool stored = false;
};

/// Bytes that landed and were not looked at yet. A CheckedValue is made from it by hashing all of it
/// (transfer/checked_value.h); nothing else turns it into something that can be sent to a client (R89).
struct LandedValue {
  Loan loan;
  /// As the server announced them.
  std::uint64_t length = 0;
  std::uint32_t crc = 0;
};

/// Moves large values between the pool and the server's fabric by BLOB.RDMA_* (design: engine thread). Every public
/// call may come from any thread: it posts to the engine's loop, and the answer is posted to `back`. The engine owns
/// the pool's books, the queue for leases and the lanes.
class Engine {
 public:
  /// `fabrics`: one for each NIC in use; regions are registered with all, each lane is bound to one. None (provider
  /// off, or not to be had): every transfer is kRepeat with `no_fabric_reason`. Fabrics, memory, metrics and loop
  /// outlive the engine, and every `back` outlives its answers. The engine is destroyed on its loop's thread or after
  /// that has ended; loans may outlive it.
  Engine(base::Loop& loop, EngineOptions options, std::vector<fabric::Fabric*> fabrics, std::string no_fabric_reason,
         memory::PoolMemory& memory, telemetry::Registry& metrics);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Starts registration and the warm lanes. `ready` is posted once when the first region is registered and the warm
  /// lanes are up or have failed.
  void start(base::Executor& back, base::Task ready);

  /// True while BLOB.RDMA_* is worth trying for the configuration's identity; the reason (for fallback_total) if not:
  /// "no_fabric", "server_no_fabric", "no_module", ... Lock-free, any thread.
  bool available() const { return unavailable_reason().empty(); }
  std::string_view unavailable_reason() const;
  /// The same for another identity, as far as it is known without asking the server. Empty: worth trying.
  std::string_view unavailable_reason(const upstream::Identity& identity) const;
  /// A value above this many bytes can't be leased (half the pool, 256 regions): it streams as BLOB.TCP_*.
  std::uint64_t largest_value() const;

  /// Asks for memory for `length` bytes on behalf of one local client. Waits in order of arrival, at most pool_wait.
  /// `patient` false: an error at once where it would have to wait (a SET whose client has undelivered replies).
  /// Returns a ticket for cancel_lease(). Error codes: EMSGSIZE could never fit, ETIMEDOUT no room within pool_wait,
  /// EAGAIN no room now (not patient), ECANCELED the engine is stopping; the message is for the client.
  std::uint64_t lease(std::uint64_t client, std::uint64_t length, bool patient, base::Executor& back,
                      base::UniqueFunction<void(base::Result<Loan>)> done);
  /// A client waits for memory: who has some to spare gives it back now rather than later. Lock-free, any thread.
  bool memory_wanted() const;
  /// Gives up waiting for a lease: `done` is destroyed unrun, unless its answer is on its way already; then the lease
  /// comes back by the Loan's own destruction.
  void cancel_lease(std::uint64_t ticket);

  /// The loan holds the value; crc is the CRC-32C of all of it. The extras follow on the same lane before it is free.
  /// The lane is one of that identity's, as a GET's is.
  void set(std::string key, std::uint32_t crc, Loan loan, base::Executor& back,
           base::UniqueFunction<void(SetResult)> done, StoreExtras extras = {}, upstream::Identity identity = {});

  /// Ends all that a client has under way: its waiting leases get ECANCELED, a transfer that no lane has yet is
  /// kRefused, one that is out is fenced and kLost, SETs received whole included. For CLIENT KILL; a client that goes
  /// away by itself is leave()'s case.
  void end_client(std::uint64_t client);
  /// A GET of a value, checked, that may share the transfer, the lease and the hashing of others that ask for the same.
  /// The sink is called on `back` and dropped there. Returns a ticket for leave().
  std::uint64_t fetch(FetchRequest request, base::Executor& back, std::shared_ptr<FetchSink> sink);
  /// That answer is waited for no more. It comes all the same, as kLeft if it was not on its way yet. A transfer that
  /// everybody left ends at its reply, or after orphan_grace by a fence (R95).
  void leave(std::uint64_t ticket);
  /// What was written lately, for workers to tell; any thread.
  WriteMarks& writes();

  /// Lanes, pool and waiting transfers as JSON for /status.json; posted to `back`.
  void status(base::Executor& back, base::UniqueFunction<void(std::string)> done);

  /// Closes the lanes, waits for the fences, deregisters. Everything that waits or runs is answered: leases with
  /// ECANCELED, transfers as kRepeat("stopping") if nothing was sent, else kLost. `done` is posted when no registration
  /// is left that could be closed. Later calls are answered in the same way.
  void stop(base::Executor& back, base::Task done);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace keyferry::transfer
