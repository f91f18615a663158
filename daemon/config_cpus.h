#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace keyferry::daemon {

/// What `workers: auto` means at most.
inline constexpr std::size_t kMostAutomaticWorkers = 4;

/// CPUs that the cgroup (version 2) of this process and those above it grant by quota, rounded up; 0 if none sets one.
/// `cgroup_file` has the form of /proc/self/cgroup.
std::size_t cpus_of_quota(const std::string& cgroup_root, const std::string& cgroup_file);

/// CPUs that this process may run on by its affinity, in order.
std::vector<unsigned> cpus_allowed();
/// "0-3,8" as taskset and systemd write it; nothing if it is no such list.
std::optional<std::vector<unsigned>> parse_cpu_list(const std::string& text);
std::string cpu_list_text(const std::vector<unsigned>& cpus);

}  // namespace keyferry::daemon
