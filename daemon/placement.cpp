#include "daemon/placement.h"

#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "daemon/config_cpus.h"

namespace keyferry::daemon {

namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, TopologyDeleter>;

/// Null where this machine can't be looked at: then nothing is placed.
Topology load_topology(const std::string& xml) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  if (!xml.empty() && hwloc_topology_set_xml(raw, xml.c_str()) != 0) return nullptr;
  if (hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0) return nullptr;
  return hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
}

std::vector<unsigned> cpus_of_node(hwloc_topology_t topology, hwloc_const_nodeset_t nodes) {
  std::vector<unsigned> cpus;
  const hwloc_bitmap_t set = hwloc_bitmap_alloc();
  if (set == nullptr) return cpus;
  hwloc_cpuset_from_nodeset(topology, set, nodes);
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
    cpus.push_back(static_cast<unsigned>(cpu));
  hwloc_bitmap_free(set);
  return cpus;
}

}  // namespace

std::vector<unsigned> cpus_near(const std::string& nic, const std::string& xml) {
  const Topology topology = load_topology(xml);
  if (!topology || hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE) < 2) return {};
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_osdev(topology.get(), device)) != nullptr;) {
    if (device->name == nullptr || nic != device->name) continue;
    const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology.get(), device);
    // More than one node: the firmware does not say which.
    if (place == nullptr || hwloc_bitmap_weight(place->nodeset) != 1) return {};
    return cpus_of_node(topology.get(), place->nodeset);
  }
  return {};
}

Placement place_workers(const Options& options, const std::vector<std::string>& nics,
                        const std::vector<unsigned>& allowed, const std::string& xml) {
  const std::string& wanted = options.placement.workers;
  const std::size_t count = worker_count(options);
  if (wanted == "none") return {{}, "workers run on any CPU (placement.workers: none)"};
  if (wanted != "auto") {
    // Checked when the configuration was loaded.
    const std::vector<unsigned> cpus = parse_cpu_list(wanted).value_or(std::vector<unsigned>{});
    for (const unsigned cpu : cpus) {
      if (std::ranges::find(allowed, cpu) == allowed.end()) {
        throw std::runtime_error("placement.workers: " + wanted + " names CPU " + std::to_string(cpu) +
                                 ", which this process may not use; it has " + cpu_list_text(allowed) +
                                 " (systemd CPUAffinity=, AllowedCPUs=, the container's cpuset)");
      }
    }
    Placement placed{{}, "workers have a CPU each, of " + wanted};
    for (std::size_t i = 0; i < count; ++i) placed.workers.push_back({cpus[i % cpus.size()]});
    return placed;
  }
  for (const std::string& nic : nics) {
    std::vector<unsigned> near;
    for (const unsigned cpu : cpus_near(nic, xml)) {
      if (std::ranges::find(allowed, cpu) != allowed.end()) near.push_back(cpu);
    }
    if (near.empty()) continue;
    return {std::vector(count, near), "workers run on CPUs " + cpu_list_text(near) + ", the NUMA node of " + nic};
  }
  return {{}, "workers run on any CPU: there is one NUMA node, or the NIC's is not known"};
}

}  // namespace keyferry::daemon
