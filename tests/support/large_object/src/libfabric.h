#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <memory>
#include <string>

namespace keyferry::large_object {

/// libfabric, loaded at run time so that the module also loads without it and so that one module runs on 1.17 and
/// on 2.x (blob-rdma spec 4.10 and appendix C item 15). Immutable after load(); any thread.
class Libfabric {
 public:
  /// From `path`, else from $LARGEOBJ_LIBFABRIC, else whatever the loader finds as libfabric.so.1. Null and a problem
  /// if it is missing, too old, or lacks the symbol versions that belong to the headers this was built with.
  static std::unique_ptr<Libfabric> load(const std::string& path, std::string& problem);

  using Info = std::unique_ptr<fi_info, void (*)(fi_info*)>;

  /// An empty structure of the loaded library's own size; nullptr inside if there is no memory.
  [[nodiscard]] Info allocate_info() const { return {dup_info_(nullptr), free_info_}; }
  [[nodiscard]] Info copy_info(const fi_info& info) const { return {dup_info_(&info), free_info_}; }

  /// fi_getinfo; on failure null and the negative error code.
  [[nodiscard]] Info get_info(const char* node, std::uint64_t flags, const fi_info& hints, int& code) const;

  [[nodiscard]] int open_fabric(fi_info& info, fid_fabric** fabric) const {
    return fabric_(info.fabric_attr, fabric, nullptr);
  }

  /// "Connection refused (111)" for -FI_ECONNREFUSED or FI_ECONNREFUSED.
  [[nodiscard]] std::string describe(std::int64_t code) const;

  [[nodiscard]] unsigned major() const { return FI_MAJOR(version_); }
  /// "1.17".
  [[nodiscard]] std::string version() const;
  /// The file it came from.
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  Libfabric() = default;

  std::string file_;
  std::uint32_t version_ = 0;
  decltype(&::fi_getinfo) get_info_ = nullptr;
  decltype(&::fi_dupinfo) dup_info_ = nullptr;
  decltype(&::fi_freeinfo) free_info_ = nullptr;
  decltype(&::fi_fabric) fabric_ = nullptr;
  decltype(&::fi_strerror) strerror_ = nullptr;
};

/// Closes any libfabric object; for std::unique_ptr.
struct FidCloser {
  template <typename T>
  void operator()(T* object) const {
    ::fi_close(&object->fid);
  }
};

template <typename T>
using FidPtr = std::unique_ptr<T, FidCloser>;

}  // namespace keyferry::large_object
