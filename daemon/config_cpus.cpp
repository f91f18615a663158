#include "daemon/config_cpus.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
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

std::vector<unsigned> cpus_allowed() {
  std::vector<unsigned> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::optional<std::vector<unsigned>> parse_cpu_list(const std::string& text) {
  std::vector<unsigned> cpus;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data();; ++at) {
    unsigned first = 0;
    auto parsed = std::from_chars(at, end, first);
    unsigned last = first;
    if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '-')
      parsed = std::from_chars(parsed.ptr + 1, end, last);
    if (parsed.ec != std::errc() || last < first || last >= CPU_SETSIZE) return std::nullopt;
    for (unsigned cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    at = parsed.ptr;
    if (at == end) return cpus;
    if (*at != ',') return std::nullopt;
  }
}

std::string cpu_list_text(const std::vector<unsigned>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last != i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace keyferry::daemon
