// Memory and the fabric.

#include <algorithm>

#include "base/bytes.h"
#include "daemon/doctor.h"
#include "memory/size_text.h"

namespace keyferry::daemon {

namespace {

/// What a connection over RDMA registers beside its two buffers: messages of 32 bytes each way, upstream.rdma_queue of
/// them (valkey-over-rdma spec 4).
constexpr std::uint64_t kRdmaPlace = 2 * 32;

constexpr const char* kMemlockFix =
    "systemd: LimitMEMLOCK=infinity in the unit; shell: \"* - memlock unlimited\" in /etc/security/limits.conf and a "
    "new "
    "login (ulimit -l shows it); Docker, Podman: --ulimit memlock=-1; Kubernetes: securityContext.capabilities.add: "
    "[IPC_LOCK], or LimitMEMLOCK=infinity for the container runtime";

std::string limit_text(std::optional<std::uint64_t> limit) {
  return limit ? memory::size_text(*limit) : "unlimited";
}

std::string rounded_text(std::uint64_t bytes) {
  return memory::size_text((bytes + base::kMiB - 1) / base::kMiB * base::kMiB);
}

Check memlock(const Snapshot& seen, const Needs& needs) {
  const bool rdma = std::ranges::any_of(seen.devices, [](const RdmaDevice& one) { return one.driver != "efa"; });
  const std::uint64_t windows =
      rdma ? needs.rdma_connections * (2 * needs.rdma_buffer + needs.rdma_queue * kRdmaPlace) : 0;
  const std::uint64_t needed = needs.pool + windows;
  std::string need = "needs " + memory::size_text(needs.pool) + " for the pool";
  if (windows != 0) {
    need += " and at most " + rounded_text(windows) + " for " + std::to_string(needs.rdma_connections) +
            " connections over RDMA";
  }
  if (seen.may_lock_all) return {Verdict::kOk, "memlock", need + "; CAP_IPC_LOCK: no limit holds", {}};
  const std::string have = need + "; " + seen.process + " may lock " + limit_text(seen.memlock_hard) + " (now " +
                           limit_text(seen.memlock_soft) + ")";
  if (seen.memlock_hard && *seen.memlock_hard < needs.pool) {
    // mmap gives huge pages that can't leave memory anyway; locking them is then only for a device.
    const bool huge = needs.huge_pages != HugePages::kNever && seen.huge_page != 0 &&
                      seen.huge_pages_free * seen.huge_page >= needs.pool;
    return {huge ? Verdict::kWarn : Verdict::kFail, "memlock", have, kMemlockFix};
  }
  // The daemon raises its limit for the pool only.
  if (seen.memlock_hard && *seen.memlock_hard < needed) return {Verdict::kWarn, "memlock", have, kMemlockFix};
  return {Verdict::kOk, "memlock", have, {}};
}

Check memory_size(const Snapshot& seen, const Needs& needs) {
  const std::string pool = "the pool is " + memory::size_text(needs.pool);
  if (seen.cgroup_limit && needs.pool >= seen.cgroup_limit->bytes) {
    return {Verdict::kFail, "memory",
            pool + ", the control group allows " + memory::size_text(seen.cgroup_limit->bytes) + " (" +
                seen.cgroup_limit->source + ")",
            "lower pool.size, or raise systemd's MemoryMax= or the container's memory limit above it"};
  }
  if (seen.memory_total != 0 && needs.pool >= seen.memory_total) {
    return {Verdict::kFail, "memory", pool + ", the machine has " + rounded_text(seen.memory_total), "lower pool.size"};
  }
  std::string text = pool + ", the machine has " + rounded_text(seen.memory_total);
  if (seen.cgroup_limit) text += ", the control group allows " + rounded_text(seen.cgroup_limit->bytes);
  return {Verdict::kOk, "memory", text, {}};
}

Check huge_pages(const Snapshot& seen, const Needs& needs) {
  if (needs.huge_pages == HugePages::kNever) return {Verdict::kOk, "huge pages", "not wanted", {}};
  const bool required = needs.huge_pages == HugePages::kRequire;
  if (seen.huge_page == 0) {
    return {required ? Verdict::kFail : Verdict::kWarn, "huge pages", "this kernel has none",
            "pool.huge_pages: " + std::string(required ? "prefer" : "never")};
  }
  const std::uint64_t pages = (needs.pool + seen.huge_page - 1) / seen.huge_page;
  const std::string text = "the pool takes " + std::to_string(pages) + " of " + memory::size_text(seen.huge_page) +
                           ", " + std::to_string(seen.huge_pages_free) + " are free";
  if (seen.huge_pages_free >= pages) return {Verdict::kOk, "huge pages", text, {}};
  return {required ? Verdict::kFail : Verdict::kWarn, "huge pages",
          text + (required ? "" : ", so that small ones will be used, which devices register more slowly and fewer of"),
          "sysctl vm.nr_hugepages=" + std::to_string(pages) +
              " (for good: in /etc/sysctl.d; Kubernetes: hugepages-2Mi in "
              "the pod's limits and on the node), or pool.huge_pages: never"};
}

}  // namespace

std::vector<Check> check_memory(const Snapshot& seen, const Needs& needs) {
  return {memlock(seen, needs), memory_size(seen, needs), huge_pages(seen, needs)};
}

std::vector<Check> check_fabric(const Snapshot& seen, const Needs& needs) {
  if (needs.fabric == Want::kNo)
    return {{Verdict::kOk, "fabric", "fabric.provider is off: large values go by BLOB.TCP_*", {}}};
  if (!seen.fabric) {
    return {
        {needs.fabric == Want::kRequired ? Verdict::kFail : Verdict::kWarn, "fabric", seen.fabric_problem,
         needs.fabric == Want::kRequired ? "" : "that, or fabric.provider: off, as large values go by BLOB.TCP_* now"}};
  }
  const fabric::Traits& traits = *seen.fabric;
  const std::string text = traits.provider + " on " + traits.domain + " by " + traits.library;
  const bool has_efa = std::ranges::any_of(seen.devices, [](const RdmaDevice& one) { return one.driver == "efa"; });
  if (has_efa && needs.efa != Want::kNo && traits.provider != "efa-direct") {
    return {{Verdict::kWarn, "fabric", text + ", though this host has EFA: " + traits.reason,
             "libfabric 2.x of the EFA installer (fabric.library), and the nodes above must open"}};
  }
  return {{Verdict::kOk, "fabric", text, {}}};
}

}  // namespace keyferry::daemon
