#include "daemon/descriptors.h"

#include <sys/resource.h>

namespace keyferry::daemon {

namespace {

// Lanes, listeners, loops, the fabric's, the log; and clients that are being turned away.
constexpr std::size_t kOwn = 256;

}  // namespace

std::size_t descriptors_needed(const Options& options) {
  const LimitOptions& limits = options.limits;
  return limits.clients + limits.upstream_connections + limits.pinned_long + limits.pinned_short + kOwn;
}

std::string allow_descriptors(std::size_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return {};
  // Above the hard limit only who has CAP_SYS_RESOURCE may go.
  const rlimit wanted{needed, needed > limit.rlim_max ? needed : limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &wanted) == 0) return {};
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
  return "the limit on open files (RLIMIT_NOFILE) is " + std::to_string(limit.rlim_max) + ", but limits.* allow " +
         std::to_string(needed) +
         " descriptors: clients beyond it would wait until others leave. Fix: LimitNOFILE=" + std::to_string(needed) +
         " in the unit, or a lower limits.clients";
}

}  // namespace keyferry::daemon
