#include "fabric/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>
#include <vector>

namespace keyferry::fabric {

namespace {

// blob-rdma spec 4.10: the layout of fi_info goes with the version of these symbols.
#if FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION == 17
constexpr const char* kSymbolVersion = "FABRIC_1.3";
#elif FI_MAJOR_VERSION == 2 && FI_MINOR_VERSION < 5
constexpr const char* kSymbolVersion = "FABRIC_1.8";
#elif FI_MAJOR_VERSION == 2
constexpr const char* kSymbolVersion = "FABRIC_1.9";
#else
#error "libfabric headers of 1.17 or 2.x are needed: the layout of others is not known here"
#endif

constexpr std::uint32_t kOldest = FI_VERSION(1, 17);
constexpr std::uint32_t kTooNew = FI_VERSION(3, 0);

std::string version_text(std::uint32_t version) {
  return std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
}

std::string loaded_file(void* handle, const std::string& asked) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr || *map->l_name == '\0')
    return asked;
  return map->l_name;
}

template <typename Function>
void resolve(void* handle, const char* name, const char* version, Function& function) {
  void* const symbol = version != nullptr ? ::dlvsym(handle, name, version) : ::dlsym(handle, name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("it has no ") + name +
                             (version != nullptr ? std::string(" of version ") + version : "") +
                             ", which this build needs (compiled with libfabric " +
                             version_text(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)) + ")");
  }
  function = reinterpret_cast<Function>(symbol);
}

}  // namespace

std::shared_ptr<const Library> Library::load(const std::string& file) {
  const std::vector<std::string> candidates =
      file.empty() ? std::vector<std::string>{"/opt/amazon/efa/lib64/libfabric.so.1",
                                              "/opt/amazon/efa/lib/libfabric.so.1", "libfabric.so.1",
                                              "/usr/local/lib64/libfabric.so.1", "/usr/local/lib/libfabric.so.1"}
                   : std::vector<std::string>{file};
  std::string attempts;
  for (const std::string& candidate : candidates) {
    try {
      return load_one(candidate);
    } catch (const std::runtime_error& error) {
      attempts += (attempts.empty() ? "" : "; ") + candidate + ": " + error.what();
    }
  }
  throw std::runtime_error("keyferry: no libfabric to be had, versions from " + version_text(kOldest) + " to below " +
                           version_text(kTooNew) + " are accepted: " + attempts +
                           (file.empty() ? "; install libfabric1, name the file in fabric.library"
                                         : "; correct fabric.library or leave it out") +
                           ", or set fabric.provider to off");
}

std::shared_ptr<const Library> Library::load_one(const std::string& file) {
  // RTLD_LOCAL: another libfabric may be in the process already. The handle is kept for good.
  void* const handle = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const text = ::dlerror();
    throw std::runtime_error(text != nullptr ? text : "it can't be loaded");
  }
  const std::unique_ptr<void, int (*)(void*)> closer(handle, &::dlclose);
  std::shared_ptr<Library> library(new Library);
  decltype(&::fi_version) version = nullptr;
  resolve(handle, "fi_version", nullptr, version);
  library->version_ = version();
  if (library->version_ < kOldest || library->version_ >= kTooNew) {
    throw std::runtime_error("it reports version " + version_text(library->version_));
  }
  resolve(handle, "fi_getinfo", kSymbolVersion, library->getinfo_);
  resolve(handle, "fi_freeinfo", kSymbolVersion, library->freeinfo_);
  resolve(handle, "fi_dupinfo", kSymbolVersion, library->dupinfo_);
  resolve(handle, "fi_fabric", nullptr, library->fabric_);
  resolve(handle, "fi_strerror", nullptr, library->strerror_);
  library->name_ = loaded_file(handle, file) + " (" + version_text(library->version_) + ")";
  return library;
}

std::uint32_t Library::api_version() const {
  return std::min<std::uint32_t>(version_, FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));
}

int Library::getinfo(const char* node, std::uint64_t flags, const fi_info* hints, fi_info** info) const {
  return getinfo_(api_version(), node, nullptr, flags, hints, info);
}

std::string Library::error_text(const std::string& call, int code) const {
  const int positive = std::abs(code);
  return call + ": " + strerror_(positive) + " (errno -" + std::to_string(positive) + ")";
}

}  // namespace keyferry::fabric
