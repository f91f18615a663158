#include "fabric/advice.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstdlib>

#include "memory/size_text.h"

namespace keyferry::fabric {

namespace {

/// efa's own number for "can't post internal receive buffers", which is locked memory that is short as well.
constexpr int kEfaNoReceiveBuffers = 4112;

std::string memlock_advice() {
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0;
  const std::string now = !known || limit.rlim_cur == RLIM_INFINITY ? "unlimited" : memory::size_text(limit.rlim_cur);
  return "the limit on locked memory (RLIMIT_MEMLOCK, now " + now +
         ") is too low: set LimitMEMLOCK=infinity in the systemd unit or --ulimit memlock=-1 for a container";
}

}  // namespace

std::string registration_advice(int code, std::uint64_t registered) {
  switch (std::abs(code)) {
    case ENOMEM:
    case kEfaNoReceiveBuffers:
      return "; either " + memlock_advice() + ", or the device's limit on registered bytes is reached (" +
             memory::size_text(registered) +
             " are registered here; devices allow e.g. 96 GiB on a g6.8xlarge): lower pool.size, or use huge pages";
    case EFAULT:
      return "; the memory is not mapped for reading and writing, or its pages are not there";
    default:
      return "";
  }
}

std::string endpoint_advice(int code) {
  switch (std::abs(code)) {
    case ENOMEM:
    case kEfaNoReceiveBuffers:
      return "; " + memlock_advice();
    case EMFILE:
    case ENFILE:
      return "; too many open files: set LimitNOFILE= in the systemd unit, or lower transfer.lanes";
    case EADDRNOTAVAIL:
      return "; fabric.bind must be an address of this host";
    default:
      return "";
  }
}

}  // namespace keyferry::fabric
