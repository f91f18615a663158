#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace keyferry::memory {

/// The most memory that this process may ever have, and the file that says so.
struct MemoryLimit {
  std::uint64_t bytes = 0;
  std::string source;
};

/// The smallest memory limit of the cgroups that hold this process, of version 1 and 2 (memory.limit_in_bytes,
/// memory.max), from its own up to the mount's root; nullopt if none is set. `proc_self` has the files cgroup and
/// mountinfo. Throws nothing: what can't be read sets no limit.
std::optional<MemoryLimit> cgroup_memory_limit(const std::filesystem::path& proc_self = "/proc/self");

}  // namespace keyferry::memory
