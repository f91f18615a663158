#include "memory/memory_limit.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace keyferry::memory {

namespace {

/// Version 1 writes "no limit" as the largest whole number of pages; nothing that large is a limit.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60U;

struct Mount {
  std::string root;
  std::filesystem::path point;
};

bool contains_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

/// The mount of the memory controller (version 1) or of the unified hierarchy (version 2), from a mountinfo file
/// (proc(5)).
std::optional<Mount> find_mount(const std::filesystem::path& mountinfo, bool unified) {
  std::ifstream file(mountinfo);
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    std::istringstream before(line.substr(0, separator));
    std::istringstream after(line.substr(separator + 3));
    std::string id, parent, device, root, point, type, source, options;
    before >> id >> parent >> device >> root >> point;
    after >> type >> source >> options;
    if (unified ? type == "cgroup2" : (type == "cgroup" && contains_word(options, "memory"))) return Mount{root, point};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> read_limit(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text)) return std::nullopt;
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size() || bytes >= kNoLimit) return std::nullopt;
  return bytes;
}

/// A container may see only a part of the hierarchy: then the mount's root is the beginning of the group's path.
std::string below_root(const std::string& group, const std::string& root) {
  if (root == "/" || group.empty()) return group;
  if (group.compare(0, root.size(), root) == 0) return group.substr(root.size());
  return "";
}

void keep_smallest(std::optional<MemoryLimit>& smallest, const Mount& mount, const std::string& group,
                   const char* file) {
  std::string path = below_root(group, mount.root);
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    const std::filesystem::path source = mount.point.string() + path + "/" + file;
    const std::optional<std::uint64_t> bytes = read_limit(source);
    if (bytes && (!smallest || *bytes < smallest->bytes)) smallest = MemoryLimit{*bytes, source.string()};
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

std::optional<MemoryLimit> cgroup_memory_limit(const std::filesystem::path& proc_self) {
  std::optional<MemoryLimit> smallest;
  std::ifstream file(proc_self / "cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !contains_word(controllers, "memory")) continue;
    const std::optional<Mount> mount = find_mount(proc_self / "mountinfo", unified);
    if (mount)
      keep_smallest(smallest, *mount, line.substr(second + 1), unified ? "memory.max" : "memory.limit_in_bytes");
  }
  return smallest;
}

}  // namespace keyferry::memory
