// RDMA devices: for ordinary commands (Valkey over RDMA, which needs queue pairs of the kind RC) and for large values
// (efa-direct).

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/doctor.h"

namespace keyferry::daemon {

namespace {

constexpr std::string_view kRoceV2 = "RoCE v2";

bool is_efa(const RdmaDevice& device) {
  return device.driver == "efa";
}

/// Wants above kWhereThere are said aloud when they can't be met; a device that is there but broken is, always.
Verdict verdict_for(Want want) {
  return want == Want::kRequired ? Verdict::kFail : want == Want::kNo ? Verdict::kOk : Verdict::kWarn;
}

Want want_for(const RdmaDevice& device, const Needs& needs) {
  return is_efa(device) ? needs.efa : needs.rdma;
}

std::string octal(unsigned mode) {
  std::string digits;
  for (unsigned shift : {6U, 3U, 0U}) digits += static_cast<char>('0' + ((mode >> shift) & 7U));
  return "0" + digits;
}

class RdmaChecks {
 public:
  RdmaChecks(const Snapshot& seen, const Needs& needs) : seen_(seen), needs_(needs) {}

  std::vector<Check> run() {
    if (std::ranges::none_of(seen_.devices, is_efa) && needs_.efa == Want::kRequired)
      add(Verdict::kFail, "rdma devices", "there is no EFA device, which fabric.provider: efa-direct needs",
          "an instance type with EFA, its driver (modprobe efa), and in a container the device plug-in's "
          "vpc.amazonaws.com/efa; or fabric.provider: auto");
    if (std::ranges::all_of(seen_.devices, is_efa)) {
      no_device();
    } else {
      modules();
    }
    if (!seen_.devices.empty() && needs_.rdma != Want::kNo) node("rdma_cm", needs_.rdma, "the connection manager");
    for (const RdmaDevice& device : seen_.devices) one_device(device);
    other_nodes();
    if (std::ranges::any_of(seen_.devices, [](const RdmaDevice& one) { return !is_efa(one); })) gid();
    return std::move(checks_);
  }

 private:
  void add(Verdict verdict, std::string name, std::string text, std::string fix = {}) {
    checks_.push_back({verdict, std::move(name), std::move(text), std::move(fix)});
  }

  void no_device() {
    const std::string none = "none that Valkey over RDMA could use";
    if (needs_.rdma == Want::kNo) return add(Verdict::kOk, "rdma devices", none + "; the configuration wants none");
    if (needs_.rdma == Want::kWhereThere)
      return add(Verdict::kOk, "rdma devices", none + "; ordinary commands go by tcp");
    add(verdict_for(needs_.rdma), "rdma devices", none + ", and upstream.transport is rdma",
        "load the adapter's driver (mlx5_ib, irdma, ...); in a container pass the device in, the host's "
        "device plug-in or --device=/dev/infiniband/uverbs0 --device=/dev/infiniband/rdma_cm; without an adapter "
        "soft RoCE: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0");
  }

  void modules() {
    // Built into the kernel they need not be among the modules; their nodes are what counts.
    if (find_node("rdma_cm") != nullptr &&
        std::ranges::any_of(seen_.nodes, [](const DeviceNode& one) { return one.name.starts_with("uverbs"); }))
      return add(Verdict::kOk, "rdma modules", "ib_uverbs, rdma_cm and rdma_ucm are there");
    std::string lacking;
    for (const char* name : {"ib_uverbs", "rdma_cm", "rdma_ucm"}) {
      if (!seen_.modules.contains(name)) lacking += (lacking.empty() ? "" : " ") + std::string(name);
    }
    if (lacking.empty()) return add(Verdict::kOk, "rdma modules", "ib_uverbs, rdma_cm and rdma_ucm are there");
    add(verdict_for(needs_.rdma), "rdma modules", "the kernel has not loaded " + lacking,
        "modprobe -a " + lacking + ", for good by a line each in /etc/modules-load.d/rdma.conf");
  }

  const DeviceNode* find_node(const std::string& name) const {
    const auto found = std::ranges::find_if(seen_.nodes, [&name](const DeviceNode& node) { return node.name == name; });
    return found == seen_.nodes.end() ? nullptr : &*found;
  }

  /// A file in /dev/infiniband that must open.
  void node(const std::string& name, Want want, const std::string& what) {
    const std::string path = "/dev/infiniband/" + name;
    const std::string check = "rdma node " + name;
    const DeviceNode* const found = find_node(name);
    if (found == nullptr) {
      return add(verdict_for(want), check, path + " (" + what + ") is not there",
                 "modprobe " + std::string(name == "rdma_cm" ? "rdma_ucm" : "ib_uverbs") +
                     "; systemd: PrivateDevices=yes hides it, use DeviceAllow=" + path +
                     " rw instead; container: --device=" + path);
    }
    const std::string owner =
        path + " (" + what + ") is " + octal(found->mode) + " " + found->user + ":" + found->group;
    if (found->open_error == 0) return add(Verdict::kOk, check, owner + " and opens");
    add(verdict_for(want), check,
        owner + " and does not open for " + (seen_.user.empty() ? "this user" : seen_.user) + ": " +
            std::strerror(found->open_error),
        node_fix(*found, path));
  }

  static std::string node_fix(const DeviceNode& node, const std::string& path) {
    if (node.open_error == EPERM)
      return "the control group of devices forbids it: systemd: DeviceAllow=" + path +
             " rw; container: --device=" + path + " (mounting the folder is not enough)";
    if (node.open_error == EACCES)
      return "systemd: SupplementaryGroups=" + node.group + "; container: --group-add with the number of group " +
             node.group + "; or a udev rule with MODE=\"0666\" (packages rdma-core have one)";
    return "the device's driver does not serve it: the kernel's log (dmesg) says why";
  }

  void one_device(const RdmaDevice& device) {
    const Want want = want_for(device, needs_);
    if (device.node.empty()) {
      add(verdict_for(want), "rdma device " + device.name, "the kernel gives it no node for programs",
          "modprobe ib_uverbs");
    } else {
      node(device.node, want, device.name);
    }
    if (!is_efa(device) && device.node_type == "RNIC")
      return add(verdict_for(want), "rdma device " + device.name,
                 "is iWARP, which mostly can't write with immediate data, as Valkey over RDMA must",
                 "an adapter with RoCE or InfiniBand, or upstream.transport: tcp");
    driver(device, want);
    for (const RdmaPort& port : device.ports) link(device, port, want);
  }

  void driver(const RdmaDevice& device, Want want) {
    const std::string name = "rdma driver " + device.name;
    if (!seen_.verbs_devices) {
      if (want != Want::kNo && !is_efa(device))
        add(verdict_for(want), name, "libibverbs was not asked: " + seen_.verbs_problem, "the cause named");
    } else if (std::ranges::find(*seen_.verbs_devices, device.name) != seen_.verbs_devices->end()) {
      add(Verdict::kOk, name, "libibverbs knows it");
    } else {
      add(verdict_for(want), name, "the kernel has it, libibverbs does not list it: its user-space driver is missing",
          "apt-get install ibverbs-providers (RPM: libibverbs), in the container's image as well");
    }
  }

  void link(const RdmaDevice& device, const RdmaPort& port, Want want) {
    const std::string name = "rdma link " + device.name + "/" + std::to_string(port.number);
    const std::string what =
        port.state + ", " + port.rate + ", " + (port.link_layer == "Ethernet" ? "Ethernet (RoCE)" : port.link_layer);
    if (port.state == "ACTIVE") return add(Verdict::kOk, name, what);
    std::string interface;
    for (const RdmaGid& gid : port.gids) interface = gid.interface;
    add(verdict_for(want), name, what + ", physically " + port.physical,
        port.link_layer == "InfiniBand"
            ? "plug the cable in and see that a subnet manager runs (INIT means that it has not been seen)"
            : "ip link set " + (interface.empty() ? "its interface" : interface) + " up, and plug the cable in");
  }

  /// R136: a node that is passed in from elsewhere and can't be opened makes efa look for no further.
  void other_nodes() {
    for (const DeviceNode& node : seen_.nodes) {
      const bool known = node.name == "rdma_cm" || std::ranges::any_of(seen_.devices, [&](const RdmaDevice& device) {
                           return device.node == node.name;
                         });
      if (known || node.open_error == 0) continue;
      add(needs_.efa == Want::kNo && needs_.rdma == Want::kNo ? Verdict::kOk : Verdict::kWarn, "rdma node " + node.name,
          "belongs to no device that is visible here and does not open (" +
              std::string(std::strerror(node.open_error)) + "); libfabric's efa then finds no device at all",
          "never mount the host's /dev/infiniband as a folder: pass single devices in, by the device plug-in");
    }
  }

  void gid() {
    const std::string way = "packets to " + needs_.server + " leave from " + seen_.source_address;
    if (seen_.source_address.empty())
      return add(verdict_for(needs_.rdma), "rdma gid",
                 "there is no way to " + needs_.server + ": " + seen_.source_problem, "upstream.nodes, or the route");
    std::string found;
    for (const RdmaDevice& device : seen_.devices) {
      if (is_efa(device)) continue;
      for (const RdmaPort& port : device.ports) {
        std::string why;
        const RdmaGid* const chosen = choose_gid(port, seen_.source_address, why);
        const std::string where = device.name + "/" + std::to_string(port.number);
        if (chosen != nullptr) {
          return add(Verdict::kOk, "rdma gid",
                     way + ": " + where + " index " + std::to_string(chosen->index) + ", " + why);
        }
        found += (found.empty() ? "" : "; ") + where + " " + why;
      }
    }
    if (std::ranges::any_of(seen_.devices, [](const RdmaDevice& device) {
          return !is_efa(device) && std::ranges::any_of(device.ports, [](const RdmaPort& port) {
            return port.link_layer == "InfiniBand";
          });
        })) {
      return add(Verdict::kOk, "rdma gid",
                 way + "; on InfiniBand the connection manager finds the GID by the IPoIB interface");
    }
    add(verdict_for(needs_.rdma), "rdma gid", way + ", for which no RDMA device has a GID: " + found,
        "reach the server over the RDMA interface (its address there in upstream.nodes, or a route), or give that "
        "interface the address");
  }

  const Snapshot& seen_;
  const Needs& needs_;
  std::vector<Check> checks_;
};

}  // namespace

const RdmaGid* choose_gid(const RdmaPort& port, const std::string& address, std::string& why) {
  const RdmaGid* older = nullptr;
  std::string others;
  for (const RdmaGid& gid : port.gids) {
    if (gid.address != address) {
      const std::string other = gid.address + (gid.interface.empty() ? "" : " (" + gid.interface + ")");
      if (others.find(other) == std::string::npos) others += (others.empty() ? "" : ", ") + other;
    } else if (gid.type == kRoceV2) {
      why = gid.type + " of that address on " + gid.interface;
      return &gid;
    } else {
      older = &gid;
    }
  }
  if (older != nullptr && port.link_layer == "Ethernet") {
    why = "has that address only as " + older->type + ", which is not routed and no default of the connection manager";
    return nullptr;
  }
  if (older != nullptr) {
    why = older->type + " of that address";
    return older;
  }
  why = others.empty() ? "has no GID at all (has its interface an address?)" : "has only " + others;
  return nullptr;
}

std::vector<Check> check_rdma(const Snapshot& seen, const Needs& needs) {
  return RdmaChecks(seen, needs).run();
}

}  // namespace keyferry::daemon
