#pragma once

#include <cstddef>
#include <string>

namespace keyferry::daemon {

/// What `workers: auto` means at most.
inline constexpr std::size_t kMostAutomaticWorkers = 4;

/// CPUs that the cgroup (version 2) of this process and those above it grant by quota, rounded up; 0 if none sets one.
/// `cgroup_file` has the form of /proc/self/cgroup.
std::size_t cpus_of_quota(const std::string& cgroup_root, const std::string& cgroup_file);

}  // namespace keyferry::daemon
