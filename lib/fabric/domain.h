#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "fabric/accepted_sockets.h"
#include "fabric/library.h"

namespace keyferry::fabric {

/// Owns one libfabric object and closes it. A failed closing is final: the handle may be gone already, so it is never
/// tried again (blob-rdma spec C20).
template <typename T>
class Fid {
 public:
  Fid() = default;
  Fid(Fid&& other) noexcept : fid_(other.release()) {}
  Fid& operator=(Fid&& other) noexcept {
    if (this != &other) {
      static_cast<void>(close());
      fid_ = other.release();
    }
    return *this;
  }
  Fid(const Fid&) = delete;
  Fid& operator=(const Fid&) = delete;
  ~Fid() { static_cast<void>(close()); }

  T* get() const { return fid_; }
  T** receive() { return &fid_; }
  explicit operator bool() const { return fid_ != nullptr; }
  /// 0 or a negative libfabric code.
  int close() {
    T* const fid = release();
    return fid == nullptr ? 0 : fi_close(&fid->fid);
  }
  /// Forgets it without closing.
  T* release() {
    T* const fid = fid_;
    fid_ = nullptr;
    return fid;
  }

 private:
  T* fid_ = nullptr;
};

/// One NIC: fabric, domain and the one completion queue of all its endpoints. Made by the thread that opens the Fabric;
/// then the queue is read by the fabric thread alone, the domain is called by the fabric thread and the registrar
/// (FI_THREAD_SAFE). Destroyed after both have ended.
class Domain {
 public:
  /// `software`: the bytes are moved by reading the queue, over sockets; the queue can be slept on where the provider
  /// knows how. Throws std::runtime_error.
  Domain(std::shared_ptr<const Library> library, Info info, bool software);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  const Library& library() const { return *library_; }
  fi_info& info() const { return *info_; }
  fid_domain* domain() const { return domain_.get(); }
  fid_cq* queue() const { return queue_.get(); }
  /// The queue has a wait object: fi_cq_sread and fi_cq_signal work on it.
  bool waitable() const { return waitable_; }
  bool has_mr_mode(int bit) const { return (info_->domain_attr->mr_mode & bit) != 0; }
  /// Null where the NIC makes the connections. Fabric thread.
  AcceptedSockets* accepted() { return accepted_ ? &*accepted_ : nullptr; }
  /// Something that belongs to this domain could not be closed: the domain then stays open for the life of the process.
  /// Any thread.
  void abandon() { abandoned_.store(true, std::memory_order_relaxed); }

 private:
  std::shared_ptr<const Library> library_;
  Info info_;
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  Fid<fid_cq> queue_;
  bool waitable_ = false;
  std::optional<AcceptedSockets> accepted_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace keyferry::fabric
