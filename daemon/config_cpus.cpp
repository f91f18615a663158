#include "daemon/config_cpus.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "daemon/options.h"

namespace keyferry::daemon {

namespace {

std::size_t cpus_of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return std::max(1U, std::thread::hardware_concurrency());
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace

std::size_t cpus_of_quota(const std::string& cgroup_root, const std::string& cgroup_file) {
  std::ifstream membership(cgroup_file);
  std::string path;
  for (std::string line; std::getline(membership, line);) {
    if (line.starts_with("0::/")) path = line.substr(3);
  }
  std::size_t least = 0;
  // Every level above may have a quota of its own. The levels of a path that this mount namespace does not show have no
  // file and say nothing.
  while (true) {
    std::ifstream file(cgroup_root + (path == "/" ? "" : path) + "/cpu.max");
    long long quota = 0;
    long long period = 0;
    if (file >> quota >> period && quota > 0 && period > 0) {
      const auto cpus = static_cast<std::size_t>((quota + period - 1) / period);
      least = least == 0 ? cpus : std::min(least, cpus);
    }
    if (path.empty() || path == "/") break;
    path.erase(path.rfind('/'));
  }
  return least;
}

std::size_t default_worker_count() {
  std::size_t cpus = cpus_of_affinity();
  const std::size_t quota = cpus_of_quota("/sys/fs/cgroup", "/proc/self/cgroup");
  if (quota != 0) cpus = std::min(cpus, quota);
  return std::min(cpus, kMostAutomaticWorkers);
}

}  // namespace keyferry::daemon
