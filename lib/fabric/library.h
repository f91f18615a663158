#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <memory>
#include <string>

namespace keyferry::fabric {

/// libfabric, loaded at run time so that Keyferry starts without it (blob-rdma spec C15). The functions whose
/// structures differ between releases are taken with the symbol version of the headers that this was compiled with,
/// never the loaded library's default. Immutable once loaded; any thread may call. It stays in the process for good,
/// for providers leave exit handlers behind.
class Library {
 public:
  /// `file`: the one to load; empty: the usual places in turn. Throws std::runtime_error that names each file tried,
  /// what was wrong with it and which versions are accepted.
  static std::shared_ptr<const Library> load(const std::string& file);

  /// File as loaded, and the version it reports: "/usr/lib/libfabric.so.1 (1.17)".
  const std::string& name() const { return name_; }
  std::uint32_t version() const { return version_; }
  /// What to pass to fi_getinfo: no newer than the headers and no newer than the library.
  std::uint32_t api_version() const;

  int getinfo(const char* node, std::uint64_t flags, const fi_info* hints, fi_info** info) const;
  void freeinfo(fi_info* info) const { freeinfo_(info); }
  /// A copy; of nullptr: an empty one, with the sizes of the loaded library.
  fi_info* dupinfo(const fi_info* info) const { return dupinfo_(info); }
  int open(fi_fabric_attr* attributes, fid_fabric** fabric) const { return fabric_(attributes, fabric, nullptr); }
  /// "fi_getinfo: No data available (errno -61)". Takes either sign.
  std::string error_text(const std::string& call, int code) const;

 private:
  Library() = default;
  static std::shared_ptr<const Library> load_one(const std::string& file);

  std::string name_;
  std::uint32_t version_ = 0;
  decltype(&::fi_getinfo) getinfo_ = nullptr;
  decltype(&::fi_freeinfo) freeinfo_ = nullptr;
  decltype(&::fi_dupinfo) dupinfo_ = nullptr;
  decltype(&::fi_fabric) fabric_ = nullptr;
  decltype(&::fi_strerror) strerror_ = nullptr;
};

/// Frees an fi_info with the library that made it.
struct InfoDeleter {
  std::shared_ptr<const Library> library;
  void operator()(fi_info* info) const {
    if (info != nullptr) library->freeinfo(info);
  }
};
using Info = std::unique_ptr<fi_info, InfoDeleter>;

}  // namespace keyferry::fabric
