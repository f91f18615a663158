#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/executor.h"
#include "base/result.h"
#include "base/unique_function.h"

namespace keyferry::fabric {

/// Names one endpoint of one Fabric; never used again after it was closed.
enum class EndpointId : std::uint64_t {};
/// Names one registration of one Fabric; never used again after it was closed.
enum class RegistrationId : std::uint64_t {};

/// What the rest of the program must know about the provider in use. Set once when the fabric opens, then only read.
struct Traits {
  /// As metrics and messages name it: "efa-direct", "tcp", "net".
  std::string provider;
  /// Why a provider that was asked for first is not the one in use; empty if none was passed over (R67).
  std::string reason;
  /// libfabric as loaded: file and version, for the log.
  std::string library;
  /// The interface or device, e.g. "lo".
  std::string domain;
  /// Length in bytes of one's own address, which every peer's must have (blob-rdma spec 4.8).
  std::size_t address_length = 0;
  /// True if somebody must read the completion queue while the server moves bytes (software providers, blob-rdma
  /// spec 4.7).
  bool needs_polling = true;
  /// True if closing a registration stops a running transfer (efa-direct). On software providers it does not: only
  /// closing the endpoint does (blob-rdma spec 3.10, R88).
  bool deregistration_fences = false;
};

/// An enabled endpoint: its name as fi_getname gave it, to be sent in hex with BLOB.RDMA_HELLO.
struct Endpoint {
  EndpointId id{};
  std::string address;
};

/// A registered range of memory. A window at `offset` in it is announced as (rkey, wire_base + offset, length).
struct Registration {
  RegistrationId id{};
  std::uint64_t rkey = 0;
  /// The registered pointer where the provider addresses virtually, 0 where it addresses by offset (blob-rdma spec 4.4,
  /// C5).
  std::uint64_t wire_base = 0;
};

/// What a Fabric holds and has done, as one reading. Each number has one writer (the fabric thread or the registrar);
/// any thread may read, and numbers of one reading need not belong to the same instant.
struct FabricCounters {
  std::uint64_t endpoints = 0;
  std::uint64_t av_entries = 0;
  std::uint64_t registrations = 0;
  std::uint64_t registered_bytes = 0;
  /// Time spent in registering, failed attempts included.
  double registration_seconds = 0;
  std::uint64_t registration_failures = 0;
  /// Endpoints and registrations whose closing failed: final, what was lent through them is lost (blob-rdma spec C20).
  std::uint64_t close_failures = 0;
  /// Error entries of the completion queue, and failures to read it.
  std::uint64_t cq_errors = 0;
  /// The completion queue can't be read any more, e.g. after an overrun (R74): final, nothing moves through this
  /// domain.
  bool queue_lost = false;
  /// Commands written and not yet answered.
  std::uint64_t owed = 0;
};

template <typename T>
using Callback = base::UniqueFunction<void(base::Result<T>)>;

/// The target side of one NIC: a domain, its endpoints and registrations. Any thread may call; each answer is posted to
/// `back`, in the order in which things happened. The calls only queue: endpoints and the completion queue belong to
/// the fabric's own thread, registrations to its registrar thread (R76). An interface, so that a scripted fabric can
/// stand in its place in tests. An executor passed as `back` outlives the Fabric. Destroying the Fabric first carries
/// out and answers all that was called, then closes what is still open; nothing may call it any more by then. Memory
/// still registered stays mapped until the destructor has returned.
class Fabric {
 public:
  virtual ~Fabric() = default;

  virtual const Traits& traits() const = 0;
  virtual FabricCounters counters() const = 0;

  /// A new endpoint with an address book of its own, ready to be named in a HELLO.
  virtual void open_endpoint(base::Executor& back, Callback<Endpoint> done) = 0;
  /// Checks length and family of every address, then inserts them all. One refused address is an error and inserts
  /// none: the endpoint must then be closed, for a refused insert may have spoilt its address book (blob-rdma
  /// spec 4.8).
  virtual void insert_peers(EndpointId endpoint, std::vector<std::string> addresses, base::Executor& back,
                            Callback<void> done) = 0;
  /// Closes the endpoint and its address book. On software providers the answer is the fence: nothing lands in memory
  /// through this endpoint any more (blob-rdma spec 3.10). A failure is final: what was lent through it must never be
  /// used again.
  virtual void close_endpoint(EndpointId endpoint, base::Executor& back, Callback<void> done) = 0;

  /// Registers memory for remote reading and writing. The caller keeps the memory mapped until deregister() has
  /// answered.
  virtual void register_memory(base::MutableBytes memory, base::Executor& back, Callback<Registration> done) = 0;
  /// Closes a registration. A failure is final: never closed twice, the memory never lent or unmapped (blob-rdma spec
  /// C20).
  virtual void deregister(RegistrationId registration, base::Executor& back, Callback<void> done) = 0;

  /// Counts commands written and not yet answered. Raised BEFORE a command's first byte is written: while anything is
  /// owed the fabric thread reads the completion queue (blob-rdma spec 4.7, C4). Each raise is lowered once, at the
  /// reply or after the fence.
  virtual void raise_owed() = 0;
  virtual void lower_owed() = 0;
};

}  // namespace keyferry::fabric
