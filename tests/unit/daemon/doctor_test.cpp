// Each check on hosts made up for it.

#include "daemon/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/bytes.h"

namespace keyferry::daemon {
namespace {

using base::kGiB;
using base::kMiB;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A host on which everything that Valkey over RDMA needs is right.
Snapshot good_host() {
  Snapshot seen;
  RdmaPort port{1, "ACTIVE", "LinkUp", "100 Gb/sec (4X EDR)", "Ethernet", {}};
  port.gids = {{0, "fe80::ff:fe00:1", "IB/RoCE v1", "ens1"},
               {1, "fe80::ff:fe00:1", "RoCE v2", "ens1"},
               {2, "10.0.0.7", "IB/RoCE v1", "ens1"},
               {3, "10.0.0.7", "RoCE v2", "ens1"}};
  seen.devices = {{"mlx5_0", "CA", "mlx5_core", "uverbs0", {port}}};
  seen.nodes = {{"rdma_cm", 0666, "root", "root", 0}, {"uverbs0", 0666, "root", "rdma", 0}};
  seen.modules = {"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm"};
  seen.verbs_devices = {"mlx5_0"};
  seen.source_address = "10.0.0.7";
  seen.user = "keyferry";
  seen.memory_total = 64 * kGiB;
  seen.huge_page = 2 * kMiB;
  seen.huge_pages_free = 4096;
  fabric::Traits traits;
  traits.provider = "net";
  traits.domain = "ens1";
  traits.library = "/usr/lib/libfabric.so.1 (1.17)";
  seen.fabric = traits;
  return seen;
}

Needs all_required() {
  Needs needs;
  needs.rdma = Want::kRequired;
  needs.rdma_connections = 16;
  needs.rdma_buffer = kMiB;
  needs.fabric = Want::kRequired;
  needs.efa = Want::kWhereThere;
  needs.pool = 4 * kGiB;
  needs.server = "10.0.0.9:6379";
  return needs;
}

Needs wanting(Want rdma) {
  Needs needs = all_required();
  needs.rdma = rdma;
  return needs;
}

Check named(const std::vector<Check>& checks, const std::string& name) {
  const auto found = std::ranges::find(checks, name, &Check::name);
  if (found != checks.end()) return *found;
  ADD_FAILURE() << "no check " << name << " in\n" << report_text(checks);
  return {};
}

RdmaPort& port(Snapshot& seen) {
  return seen.devices.front().ports.front();
}

TEST(Doctor, AGoodHostPassesEveryCheck) {
  const std::vector<Check> checks = examine(good_host(), all_required());
  EXPECT_TRUE(all_well(checks));
  EXPECT_TRUE(std::ranges::all_of(checks, [](const Check& check) { return check.verdict == Verdict::kOk; }))
      << report_text(checks);
}

TEST(Doctor, R68_TheGidIsTheRoceV2EntryOfTheAddressInUseWhereverItStands) {
  const Check gid = named(examine(good_host(), all_required()), "rdma gid");
  EXPECT_THAT(gid.text, AllOf(HasSubstr("leave from 10.0.0.7"), HasSubstr("mlx5_0/1 index 3, RoCE v2")));
  Snapshot seen = good_host();
  std::ranges::reverse(port(seen).gids);
  std::string why;
  EXPECT_EQ(choose_gid(port(seen), "10.0.0.7", why)->index, 3U);
}

TEST(Doctor, R68_AnAddressThatNoDeviceHasIsNamedWithThoseThatTheyHave) {
  Snapshot seen = good_host();
  seen.source_address = "192.168.1.5";
  const Check gid = named(examine(seen, all_required()), "rdma gid");
  EXPECT_EQ(gid.verdict, Verdict::kFail);
  EXPECT_THAT(gid.text, AllOf(HasSubstr("leave from 192.168.1.5"), HasSubstr("10.0.0.7 (ens1)")));
  EXPECT_THAT(gid.fix, HasSubstr("upstream.nodes"));
}

TEST(Doctor, R68_AnAddressWithRoceV1AloneIsRefusedAndNoGidIsSaidAsSuch) {
  Snapshot seen = good_host();
  port(seen).gids.pop_back();
  EXPECT_THAT(named(examine(seen, all_required()), "rdma gid").text, HasSubstr("only as IB/RoCE v1"));
  port(seen).gids.clear();
  EXPECT_THAT(named(examine(seen, all_required()), "rdma gid").text, HasSubstr("no GID at all"));
}

TEST(Doctor, AnInfiniBandPortTakesTheGidOfItsOwnKind) {
  Snapshot seen = good_host();
  port(seen).link_layer = "InfiniBand";
  port(seen).gids = {{0, "10.0.0.7", "IB/RoCE v1", "ib0"}};
  EXPECT_EQ(named(examine(seen, all_required()), "rdma gid").verdict, Verdict::kOk);
}

TEST(Doctor, TheSameFaultFailsWhereRdmaIsRequiredWarnsWhereItIsWantedAndIsNothingElsewhere) {
  Snapshot seen = good_host();
  port(seen).state = "DOWN";
  port(seen).physical = "Disabled";
  const auto verdict = [&seen](Want want) { return named(examine(seen, wanting(want)), "rdma link mlx5_0/1").verdict; };
  EXPECT_EQ(verdict(Want::kRequired), Verdict::kFail);
  EXPECT_EQ(verdict(Want::kAsked), Verdict::kWarn);
  EXPECT_EQ(verdict(Want::kWhereThere), Verdict::kWarn);
  EXPECT_EQ(verdict(Want::kNo), Verdict::kOk);
  EXPECT_THAT(named(examine(seen, wanting(Want::kRequired)), "rdma link mlx5_0/1").fix,
              HasSubstr("ip link set ens1 up"));
}

TEST(Doctor, NoDeviceFailsOnlyWhereRdmaIsAskedFor) {
  Snapshot seen = good_host();
  seen.devices.clear();
  seen.nodes.clear();
  EXPECT_EQ(named(examine(seen, wanting(Want::kNo)), "rdma devices").verdict, Verdict::kOk);
  EXPECT_EQ(named(examine(seen, wanting(Want::kWhereThere)), "rdma devices").verdict, Verdict::kOk);
  EXPECT_EQ(named(examine(seen, wanting(Want::kAsked)), "rdma devices").verdict, Verdict::kWarn);
  const Check required = named(examine(seen, wanting(Want::kRequired)), "rdma devices");
  EXPECT_EQ(required.verdict, Verdict::kFail);
  EXPECT_THAT(required.fix, HasSubstr("rdma_rxe"));
}

TEST(Doctor, ANodeThatDoesNotOpenIsNamedWithItsOwnerAndTheWayInForASystemdUnitAndAContainer) {
  Snapshot seen = good_host();
  seen.nodes[1].mode = 0660;
  seen.nodes[1].open_error = EACCES;
  const Check node = named(examine(seen, all_required()), "rdma node uverbs0");
  EXPECT_EQ(node.verdict, Verdict::kFail);
  EXPECT_THAT(node.text,
              HasSubstr("/dev/infiniband/uverbs0 (mlx5_0) is 0660 root:rdma and does not open for keyferry"));
  EXPECT_THAT(node.fix, AllOf(HasSubstr("SupplementaryGroups=rdma"), HasSubstr("--group-add")));
  seen.nodes[1].open_error = EPERM;
  EXPECT_THAT(named(examine(seen, all_required()), "rdma node uverbs0").fix,
              AllOf(HasSubstr("DeviceAllow=/dev/infiniband/uverbs0 rw"), HasSubstr("--device=")));
}

TEST(Doctor, R110_ANodeThatIsNotThereNamesPrivateDevices) {
  Snapshot seen = good_host();
  seen.nodes.erase(seen.nodes.begin());
  const Check node = named(examine(seen, all_required()), "rdma node rdma_cm");
  EXPECT_EQ(node.verdict, Verdict::kFail);
  EXPECT_THAT(node.fix, AllOf(HasSubstr("modprobe rdma_ucm"), HasSubstr("PrivateDevices")));
}

TEST(Doctor, R136_AForeignNodeThatDoesNotOpenIsTheCulprit) {
  Snapshot seen = good_host();
  seen.nodes.push_back({"uverbs7", 0600, "root", "root", EPERM});
  const Check node = named(examine(seen, all_required()), "rdma node uverbs7");
  EXPECT_EQ(node.verdict, Verdict::kWarn);
  EXPECT_THAT(node.fix, HasSubstr("never mount"));
}

TEST(Doctor, ADeviceWithoutAUserSpaceDriverOrModulesIsNamed) {
  Snapshot seen = good_host();
  seen.verbs_devices->clear();
  seen.modules.erase("rdma_ucm");
  const std::vector<Check> checks = examine(seen, all_required());
  EXPECT_EQ(named(checks, "rdma driver mlx5_0").verdict, Verdict::kFail);
  EXPECT_THAT(named(checks, "rdma driver mlx5_0").fix, HasSubstr("ibverbs-providers"));
  EXPECT_EQ(named(checks, "rdma modules").verdict, Verdict::kOk) << "built into the kernel: their nodes are there";
  seen.nodes.clear();
  const Check modules = named(examine(seen, all_required()), "rdma modules");
  EXPECT_EQ(modules.verdict, Verdict::kFail);
  EXPECT_THAT(modules.fix, HasSubstr("modprobe -a rdma_ucm"));
}

TEST(Doctor, IWarpCantCarryValkeyAndEfaIsNotJudgedAsIfItCould) {
  Snapshot seen = good_host();
  seen.devices.front().node_type = "RNIC";
  EXPECT_EQ(named(examine(seen, all_required()), "rdma device mlx5_0").verdict, Verdict::kFail);
  seen.devices.front().node_type = "unspecified";
  seen.devices.front().driver = "efa";
  port(seen).gids.clear();
  EXPECT_EQ(named(examine(seen, wanting(Want::kRequired)), "rdma devices").verdict, Verdict::kFail);
  EXPECT_TRUE(all_well(examine(seen, wanting(Want::kWhereThere))));
}

TEST(Doctor, R69_MemlockCountsThePoolAndTheWindowsAndNamesEverySetting) {
  Snapshot seen = good_host();
  seen.huge_pages_free = 0;
  seen.memlock_soft = 64 * base::kKiB;
  seen.memlock_hard = 8 * kMiB;
  const Check low = named(examine(seen, all_required()), "memlock");
  EXPECT_EQ(low.verdict, Verdict::kFail);
  EXPECT_EQ(low.text,
            "needs 4 GiB for the pool and at most 33 MiB for 16 connections over RDMA; this process may lock 8 MiB "
            "(now 64 KiB)");
  EXPECT_THAT(low.fix, AllOf(HasSubstr("LimitMEMLOCK=infinity"), HasSubstr("ulimit -l"),
                             HasSubstr("--ulimit memlock=-1"), HasSubstr("IPC_LOCK")));
  seen.memlock_hard = 4 * kGiB;
  EXPECT_EQ(named(examine(seen, all_required()), "memlock").verdict, Verdict::kWarn);
  seen.memlock_hard = 4 * kGiB + 33 * kMiB;
  EXPECT_EQ(named(examine(seen, all_required()), "memlock").verdict, Verdict::kOk);
  seen.memlock_hard = 8 * kMiB;
  seen.may_lock_all = true;
  EXPECT_EQ(named(examine(seen, all_required()), "memlock").verdict, Verdict::kOk);
}

TEST(Doctor, WindowsAreCountedOnlyWhereADeviceCouldHaveThem) {
  Snapshot seen = good_host();
  seen.devices.front().driver = "efa";
  EXPECT_THAT(named(examine(seen, wanting(Want::kWhereThere)), "memlock").text, Not(HasSubstr("over RDMA")));
}

TEST(Doctor, MemoryOfTheControlGroupAndOfTheMachineBoundThePool) {
  Snapshot seen = good_host();
  seen.cgroup_limit = memory::MemoryLimit{4 * kGiB, "/sys/fs/cgroup/memory.max"};
  const Check limited = named(examine(seen, all_required()), "memory");
  EXPECT_EQ(limited.verdict, Verdict::kFail);
  EXPECT_THAT(limited.text, HasSubstr("allows 4 GiB (/sys/fs/cgroup/memory.max)"));
  seen.cgroup_limit.reset();
  seen.memory_total = 2 * kGiB;
  EXPECT_EQ(named(examine(seen, all_required()), "memory").verdict, Verdict::kFail);
}

TEST(Doctor, HugePagesAreCountedAndOnlyRequiredOnesFail) {
  Snapshot seen = good_host();
  seen.huge_pages_free = 2047;
  Needs needs = all_required();
  EXPECT_EQ(named(examine(seen, needs), "huge pages").verdict, Verdict::kWarn);
  EXPECT_THAT(named(examine(seen, needs), "huge pages").fix, HasSubstr("vm.nr_hugepages=2048"));
  needs.huge_pages = HugePages::kRequire;
  EXPECT_EQ(named(examine(seen, needs), "huge pages").verdict, Verdict::kFail);
  seen.huge_pages_free = 2048;
  EXPECT_EQ(named(examine(seen, needs), "huge pages").verdict, Verdict::kOk);
}

TEST(Doctor, AFabricThatDoesNotOpenFailsUnlessItIsLeftToTheDaemon) {
  Snapshot seen = good_host();
  seen.fabric.reset();
  seen.fabric_problem = "no libfabric";
  Needs needs = all_required();
  EXPECT_EQ(named(examine(seen, needs), "fabric").verdict, Verdict::kFail);
  needs.fabric = Want::kAsked;
  EXPECT_EQ(named(examine(seen, needs), "fabric").verdict, Verdict::kWarn);
  needs.fabric = Want::kNo;
  EXPECT_EQ(named(examine(seen, needs), "fabric").verdict, Verdict::kOk);
}

TEST(Doctor, ReportsAsLinesAndAsJson) {
  const std::vector<Check> checks{{Verdict::kOk, "one", "is well", ""},
                                  {Verdict::kFail, "two", "is not \xff", "mend it"}};
  EXPECT_EQ(report_text(checks), "ok    one: is well\nfail  two: is not \xff. Fix: mend it\n");
  const nlohmann::json page = nlohmann::json::parse(report_json(checks));
  EXPECT_EQ(page["ok"], false);
  EXPECT_EQ(page["checks"][1]["fix"], "mend it");
  EXPECT_FALSE(all_well(checks));
}

TEST(Doctor, NeedsFollowTheConfiguration) {
  const Needs needs = needs_of(parse_options("fabric: {provider: efa-direct}\npool: {size: 8GiB}\n", "test"));
  EXPECT_EQ(needs.efa, Want::kRequired);
  EXPECT_EQ(needs.fabric, Want::kRequired);
  EXPECT_EQ(needs.pool, 8 * kGiB);
  EXPECT_EQ(needs_of(parse_options("fabric: {provider: off}\n", "test")).fabric, Want::kNo);
  EXPECT_EQ(needs_of(default_options()).rdma, Want::kWhereThere);
  EXPECT_EQ(needs_of(parse_options("upstream: {transport: tcp}\n", "test")).rdma, Want::kNo);
  EXPECT_EQ(needs_of(parse_options("upstream: {tls: {}}\n", "test")).rdma, Want::kNo);
  EXPECT_EQ(needs_of(parse_options("upstream: {transport: rdma}\n", "test")).rdma, Want::kAsked);
  const Needs rdma = needs_of(parse_options(
      "upstream: {transport: rdma, require: true, rdma_buffer: 2MiB, nodes: [{host: h, port: 1, rdma_port: 2}]}\n",
      "test"));
  EXPECT_EQ(rdma.rdma, Want::kRequired);
  EXPECT_EQ(rdma.rdma_buffer, 2 * kMiB);
  EXPECT_EQ(rdma.rdma_connections, 64U - 8U + 1024U + 128U);
  EXPECT_EQ(rdma.server, "h:2");
}

}  // namespace
}  // namespace keyferry::daemon
