#include "libfabric.h"

#include <dlfcn.h>

#include <array>
#include <csignal>
#include <cstdlib>

namespace keyferry::large_object {
namespace {

// The layout of struct fi_info goes with the version of the three symbols that handle it, and the headers know one
// layout only.
#if FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION <= 17
constexpr const char* kInfoSymbols = "FABRIC_1.3";
#elif FI_MAJOR_VERSION == 2 && FI_MINOR_VERSION < 5
constexpr const char* kInfoSymbols = "FABRIC_1.8";
#elif FI_MAJOR_VERSION == 2
constexpr const char* kInfoSymbols = "FABRIC_1.9";
#else
#error "libfabric headers 1.17 or 2.x are needed: the symbol versions of others are not known here"
#endif

// Debian's libfabric brings the PSM libraries, whose constructors take SIGTERM, SIGINT and the crash signals for
// themselves and then end the process with status 1. The program's own handlers come back when this goes out of scope.
class KeepSignalHandlers {
 public:
  KeepSignalHandlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &kept_[i]);
  }
  ~KeepSignalHandlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &kept_[i], nullptr);
  }
  KeepSignalHandlers(const KeepSignalHandlers&) = delete;
  KeepSignalHandlers& operator=(const KeepSignalHandlers&) = delete;

 private:
  static constexpr std::array kSignals = {SIGHUP, SIGINT, SIGQUIT, SIGILL,  SIGTRAP, SIGABRT,
                                          SIGBUS, SIGFPE, SIGSEGV, SIGPIPE, SIGTERM};
  std::array<struct sigaction, kSignals.size()> kept_{};
};

template <typename Function>
bool resolve(void* library, const char* name, const char* version, Function& function) {
  function = reinterpret_cast<Function>(dlvsym(library, name, version));
  return function != nullptr;
}

}  // namespace

std::unique_ptr<Libfabric> Libfabric::load(const std::string& path, std::string& problem) {
  std::string file = path;
  if (const char* from_environment = std::getenv("LARGEOBJ_LIBFABRIC"); file.empty() && from_environment != nullptr) {
    file = from_environment;
  }
  if (file.empty()) file = "libfabric.so.1";

  const KeepSignalHandlers keep;
  // Local: another libfabric may be in this process. Never closed: its threads and atexit handlers outlive any user.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    problem = "cannot load libfabric: " + std::string(dlerror());
    return nullptr;
  }
  std::unique_ptr<Libfabric> loaded(new Libfabric);
  loaded->file_ = file;
  decltype(&::fi_version) version = nullptr;
  if (!resolve(library, "fi_version", "FABRIC_1.0", version)) {
    problem = file + " is not a libfabric: it has no fi_version";
    return nullptr;
  }
  loaded->version_ = version();
  if (FI_VERSION_LT(loaded->version_, FI_VERSION(1, 17)) || FI_VERSION_GE(loaded->version_, FI_VERSION(3, 0))) {
    problem = file + " is libfabric " + loaded->version() + "; versions from 1.17 to 2.x are accepted";
    return nullptr;
  }
  if (!resolve(library, "fi_getinfo", kInfoSymbols, loaded->get_info_) ||
      !resolve(library, "fi_dupinfo", kInfoSymbols, loaded->dup_info_) ||
      !resolve(library, "fi_freeinfo", kInfoSymbols, loaded->free_info_) ||
      !resolve(library, "fi_fabric", "FABRIC_1.1", loaded->fabric_) ||
      !resolve(library, "fi_strerror", "FABRIC_1.0", loaded->strerror_)) {
    problem = file + " (libfabric " + loaded->version() + ") has no symbols of version " + kInfoSymbols +
              ", which this module was built for; load a library at least as new as the headers of the build";
    return nullptr;
  }
  return loaded;
}

Libfabric::Info Libfabric::get_info(const char* node, std::uint64_t flags, const fi_info& hints, int& code) const {
  // The first call loads providers.
  const KeepSignalHandlers keep;
  fi_info* list = nullptr;
  code = get_info_(version_, node, nullptr, flags, &hints, &list);
  return {code == 0 ? list : nullptr, free_info_};
}

std::string Libfabric::describe(std::int64_t code) const {
  const int positive = static_cast<int>(code < 0 ? -code : code);
  return std::string(strerror_(positive)) + " (" + std::to_string(positive) + ")";
}

std::string Libfabric::version() const {
  return std::to_string(FI_MAJOR(version_)) + "." + std::to_string(FI_MINOR(version_));
}

}  // namespace keyferry::large_object
