#pragma once

#include <cstddef>
#include <string>

#include "daemon/options.h"

namespace keyferry::daemon {

/// So many descriptors may be open at once with these limits: clients, connections to the server, and what the process
/// itself has.
std::size_t descriptors_needed(const Options& options);

/// Raises the process's limit on open descriptors (RLIMIT_NOFILE) as far as it may, if `needed` is more. Empty, or one
/// sentence that says what it comes to and how to mend it. For the start: the limit is the whole process's.
std::string allow_descriptors(std::size_t needed);

}  // namespace keyferry::daemon
