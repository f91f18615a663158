#include "daemon/doctor_snapshot.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/fd.h"
#include "daemon/network_way.h"
#include "fabric/open.h"
#include "upstream/rdma_probe.h"

namespace keyferry::daemon {

namespace {

namespace fs = std::filesystem;

constexpr std::array kModules{"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe"};
constexpr unsigned kCapIpcLock = 14;  // capabilities(7)

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "4: ACTIVE" is the kernel's way to write "ACTIVE".
std::string without_number(const std::string& text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

/// Names in a folder in order, numbers by their value; empty if there is no such folder.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code gone;
  for (fs::directory_iterator entry(folder, gone), end; !gone && entry != end; entry.increment(gone))
    names.push_back(entry->path().filename());
  std::ranges::sort(names, [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return names;
}

unsigned number_of(const std::string& text) {
  unsigned number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// A GID in words of four digits as an address; empty for an unused entry, which is all zero.
std::string gid_address(const std::string& text) {
  in6_addr gid{};
  if (::inet_pton(AF_INET6, text.c_str(), &gid) != 1 || IN6_IS_ADDR_UNSPECIFIED(&gid)) return {};
  std::array<char, INET6_ADDRSTRLEN> name{};
  if (IN6_IS_ADDR_V4MAPPED(&gid)) {
    ::inet_ntop(AF_INET, gid.s6_addr + 12, name.data(), name.size());
  } else {
    ::inet_ntop(AF_INET6, &gid, name.data(), name.size());
  }
  return name.data();
}

RdmaPort read_port(const fs::path& folder, const std::string& number) {
  RdmaPort port;
  port.number = number_of(number);
  port.state = without_number(first_line(folder / "state"));
  port.physical = without_number(first_line(folder / "phys_state"));
  port.rate = first_line(folder / "rate");
  port.link_layer = first_line(folder / "link_layer");
  for (const std::string& index : names_in(folder / "gids")) {
    std::string address = gid_address(first_line(folder / "gids" / index));
    if (address.empty()) continue;
    port.gids.push_back({number_of(index), std::move(address), first_line(folder / "gid_attrs/types" / index),
                         first_line(folder / "gid_attrs/ndevs" / index)});
  }
  return port;
}

std::vector<RdmaDevice> read_devices(const fs::path& sys) {
  std::vector<RdmaDevice> devices;
  for (const std::string& name : names_in(sys / "class/infiniband")) {
    const fs::path folder = sys / "class/infiniband" / name;
    RdmaDevice device;
    device.name = name;
    device.node_type = without_number(first_line(folder / "node_type"));
    std::error_code none;
    device.driver = fs::read_symlink(folder / "device/driver", none).filename();
    for (const std::string& node : names_in(sys / "class/infiniband_verbs")) {
      if (first_line(sys / "class/infiniband_verbs" / node / "ibdev") == name) device.node = node;
    }
    for (const std::string& port : names_in(folder / "ports"))
      device.ports.push_back(read_port(folder / "ports" / port, port));
    devices.push_back(std::move(device));
  }
  return devices;
}

std::string user_name(uid_t id) {
  const passwd* entry = ::getpwuid(id);
  return entry != nullptr ? entry->pw_name : std::to_string(id);
}

std::string group_name(gid_t id) {
  const group* entry = ::getgrgid(id);
  return entry != nullptr ? entry->gr_name : std::to_string(id);
}

std::vector<DeviceNode> read_nodes(const fs::path& folder) {
  std::vector<DeviceNode> nodes;
  for (const std::string& name : names_in(folder)) {
    if (name != "rdma_cm" && !name.starts_with("uverbs")) continue;
    struct stat info {};
    if (::stat((folder / name).c_str(), &info) != 0) continue;
    DeviceNode node{name, info.st_mode & 0777, user_name(info.st_uid), group_name(info.st_gid), 0};
    const base::Fd opened(::open((folder / name).c_str(), O_RDWR | O_CLOEXEC));
    if (!opened) node.open_error = errno;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::optional<std::uint64_t> limit_of(const std::string& text) {
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  return error == std::errc() ? std::optional(bytes) : std::nullopt;
}

void read_limits(const fs::path& proc, Snapshot& seen) {
  constexpr std::string_view kName = "Max locked memory";
  std::ifstream limits(proc / "limits");
  for (std::string line; std::getline(limits, line);) {
    if (!line.starts_with(kName)) continue;
    std::istringstream rest(line.substr(kName.size()));
    std::string soft, hard;
    rest >> soft >> hard;
    seen.memlock_soft = limit_of(soft);
    seen.memlock_hard = limit_of(hard);
  }
  std::ifstream status(proc / "status");
  std::uint64_t capabilities = 0;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "CapEff:") words >> std::hex >> capabilities;
    unsigned real = 0, effective = 0;
    if (name == "Uid:" && words >> real >> effective) seen.user = user_name(effective);
  }
  // The kernel asks for the capability over the whole machine: one that a user namespace gives does not count.
  std::istringstream map(first_line(proc / "uid_map"));
  std::uint64_t inside = 0, outside = 0, count = 0;
  map >> inside >> outside >> count;
  const bool whole = inside == 0 && outside == 0 && count == 4294967295;
  seen.may_lock_all = whole && ((capabilities >> kCapIpcLock) & 1U) != 0;
}

void read_memory(const fs::path& meminfo, Snapshot& seen) {
  std::ifstream file(meminfo);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t number = 0;
    words >> name >> number;
    if (name == "MemTotal:") seen.memory_total = number * 1024;
    if (name == "Hugepagesize:") seen.huge_page = number * 1024;
    if (name == "HugePages_Free:") seen.huge_pages_free = number;
  }
}

void open_and_close_fabric(const Options& options, Snapshot& seen) {
  if (options.fabric.provider == "off") return;
  fabric::FabricOptions fabric;
  fabric.provider = options.fabric.provider;
  fabric.interfaces = options.fabric.interfaces;
  fabric.bind = options.fabric.bind;
  fabric.library = options.fabric.library;
  fabric.family = seen.source_address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  try {
    seen.fabric = fabric::open_fabric(fabric)->traits();
  } catch (const std::exception& failure) {
    seen.fabric_problem = failure.what();
  }
}

}  // namespace

Snapshot read_host(const fs::path& root, const std::string& process) {
  Snapshot seen;
  if (process != "self") seen.process = "process " + process;
  seen.devices = read_devices(root / "sys");
  seen.nodes = read_nodes(root / "dev/infiniband");
  for (const char* module : kModules) {
    std::error_code none;
    if (fs::exists(root / "sys/module" / module, none)) seen.modules.insert(module);
  }
  read_limits(root / "proc" / process, seen);
  read_memory(root / "proc/meminfo", seen);
  seen.cgroup_limit = memory::cgroup_memory_limit(root / "proc" / process);
  return seen;
}

Snapshot examine_host(const Options& options, const std::string& process) {
  Snapshot seen = read_host("/", process);
  // libibverbs complains on stderr where the kernel shows no device.
  if (!seen.devices.empty()) {
    if (auto listed = upstream::verbs_devices()) {
      seen.verbs_devices = std::move(listed.value());
    } else {
      seen.verbs_problem = listed.error().message;
    }
  }
  NetworkWay way = way_to(way_address(options));
  seen.source_address = std::move(way.address);
  seen.source_problem = std::move(way.problem);
  open_and_close_fabric(options, seen);
  return seen;
}

}  // namespace keyferry::daemon
