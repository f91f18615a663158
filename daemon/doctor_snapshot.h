#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/options.h"
#include "fabric/fabric.h"
#include "memory/memory_limit.h"

namespace keyferry::daemon {

/// One entry of a port's GID table that is in use. `address` as a person writes it: IPv4 where the GID is one mapped.
struct RdmaGid {
  unsigned index = 0;
  std::string address;
  /// "RoCE v2", "IB/RoCE v1".
  std::string type;
  /// The network interface it belongs to.
  std::string interface;
};

/// Texts as the kernel gives them, without its numbers: "ACTIVE", "LinkUp", "100 Gb/sec (4X EDR)", "Ethernet".
struct RdmaPort {
  unsigned number = 0;
  std::string state;
  std::string physical;
  std::string rate;
  std::string link_layer;
  std::vector<RdmaGid> gids;
};

struct RdmaDevice {
  std::string name;
  /// "CA", "RNIC" (iWARP), "unspecified" (EFA).
  std::string node_type;
  /// Of the kernel: "mlx5_core", "efa"; empty where the device hangs on none, as soft RoCE does.
  std::string driver;
  /// Its node in /dev/infiniband, "uverbs0"; empty: the kernel gives it none.
  std::string node;
  std::vector<RdmaPort> ports;
};

/// A file in /dev/infiniband that a program must open.
struct DeviceNode {
  std::string name;
  unsigned mode = 0;
  std::string user;
  std::string group;
  /// 0, or the errno of opening it for reading and writing.
  int open_error = 0;
};

/// What `keyferry doctor` has seen of a host: facts without a judgement, so that each check is a function of a value
/// and a test needs no hardware. A plain value, no thread rules.
struct Snapshot {
  std::vector<RdmaDevice> devices;
  std::vector<DeviceNode> nodes;
  /// Of the kernel's modules those that RDMA may need and that are there, loaded or built in.
  std::set<std::string> modules;
  /// Devices that libibverbs can drive; nothing: it was not asked, `verbs_problem` says why.
  std::optional<std::vector<std::string>> verbs_devices;
  std::string verbs_problem;

  /// Our own address on the way to the server, in figures; empty: `source_problem` says why.
  std::string source_address;
  std::string source_problem;

  /// Whose limits these are: "this process", "process 4711".
  std::string process = "this process";
  std::string user;
  /// RLIMIT_MEMLOCK in bytes; nothing: unlimited. The daemon raises the soft one to the hard one when it must.
  std::optional<std::uint64_t> memlock_soft;
  std::optional<std::uint64_t> memlock_hard;
  /// It has CAP_IPC_LOCK where that counts (not in a user namespace of its own): no limit holds.
  bool may_lock_all = false;

  /// Bytes.
  std::uint64_t memory_total = 0;
  std::uint64_t huge_page = 0;
  std::uint64_t huge_pages_free = 0;
  std::optional<memory::MemoryLimit> cgroup_limit;

  /// What the configuration's fabric came to when it was opened and closed again; nothing: not asked for or refused.
  std::optional<fabric::Traits> fabric;
  std::string fabric_problem;
};

/// What files under `root` say: sys/class/infiniband, sys/module, dev/infiniband, proc/meminfo, and proc/`process` for
/// limits (a number, or "self"). Throws nothing: what can't be read is not there.
Snapshot read_host(const std::filesystem::path& root, const std::string& process);

/// read_host() of this host, and what only calls can tell: libibverbs' devices, the way to the server, the fabric.
/// Blocks for as long as names take to be looked up.
Snapshot examine_host(const Options& options, const std::string& process);

}  // namespace keyferry::daemon
