// What is read of a host, from trees of files that look like /sys, /dev and /proc of hosts with adapters.

#include "daemon/doctor_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

namespace keyferry::daemon {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Tree {
 public:
  Tree() {
    std::string name = ::testing::TempDir() + "doctor-XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~Tree() { fs::remove_all(root_); }
  const fs::path& root() const { return root_; }
  Tree& file(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
    return *this;
  }
  Tree& link(const std::string& path, const std::string& target) {
    fs::create_directories((root_ / path).parent_path());
    fs::create_symlink(target, root_ / path);
    return *this;
  }
  Tree& gid(const std::string& port, unsigned index, const std::string& gid, const std::string& type,
            const std::string& interface) {
    const std::string number = std::to_string(index);
    file(port + "/gids/" + number, gid);
    return type.empty()
               ? *this
               : file(port + "/gid_attrs/types/" + number, type).file(port + "/gid_attrs/ndevs/" + number, interface);
  }

 private:
  fs::path root_;
};

/// An adapter with one port, as mlx5 shows it.
Tree& add_mlx5(Tree& tree) {
  const std::string device = "sys/class/infiniband/mlx5_0";
  const std::string port = device + "/ports/1";
  tree.file(device + "/node_type", "1: CA").link(device + "/device/driver", "../../../bus/pci/drivers/mlx5_core");
  tree.file("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0");
  tree.file("sys/class/infiniband_verbs/abi_version", "6");
  tree.file(port + "/state", "4: ACTIVE").file(port + "/phys_state", "5: LinkUp");
  tree.file(port + "/rate", "100 Gb/sec (4X EDR)").file(port + "/link_layer", "Ethernet");
  tree.gid(port, 0, "fe80:0000:0000:0000:0000:00ff:fe00:0001", "IB/RoCE v1", "ens1");
  tree.gid(port, 1, "fe80:0000:0000:0000:0000:00ff:fe00:0001", "RoCE v2", "ens1");
  tree.gid(port, 2, "0000:0000:0000:0000:0000:ffff:0a00:0007", "IB/RoCE v1", "ens1");
  tree.gid(port, 3, "0000:0000:0000:0000:0000:ffff:0a00:0007", "RoCE v2", "ens1");
  tree.gid(port, 10, "0000:0000:0000:0000:0000:0000:0000:0000", "", "");
  return tree;
}

TEST(DoctorSnapshot, ReadsDevicesPortsAndEveryGidInUseInTheOrderOfTheirNumbers) {
  Tree tree;
  const Snapshot seen = read_host(add_mlx5(tree).root(), "self");
  ASSERT_EQ(seen.devices.size(), 1U);
  const RdmaDevice& device = seen.devices.front();
  EXPECT_EQ(device.name, "mlx5_0");
  EXPECT_EQ(device.node_type, "CA");
  EXPECT_EQ(device.driver, "mlx5_core");
  EXPECT_EQ(device.node, "uverbs0");
  ASSERT_EQ(device.ports.size(), 1U);
  const RdmaPort& port = device.ports.front();
  EXPECT_EQ(port.number, 1U);
  EXPECT_EQ(port.state, "ACTIVE");
  EXPECT_EQ(port.physical, "LinkUp");
  EXPECT_EQ(port.rate, "100 Gb/sec (4X EDR)");
  ASSERT_EQ(port.gids.size(), 4U);
  EXPECT_EQ(port.gids[0].address, "fe80::ff:fe00:1");
  EXPECT_EQ(port.gids[3].index, 3U);
  EXPECT_EQ(port.gids[3].address, "10.0.0.7");
  EXPECT_EQ(port.gids[3].type, "RoCE v2");
  EXPECT_EQ(port.gids[3].interface, "ens1");
}

TEST(DoctorSnapshot, AHostWithoutAnythingIsReadWithoutAFault) {
  const Tree tree;
  const Snapshot seen = read_host(tree.root(), "4711");
  EXPECT_THAT(seen.devices, IsEmpty());
  EXPECT_THAT(seen.nodes, IsEmpty());
  EXPECT_THAT(seen.modules, IsEmpty());
  EXPECT_EQ(seen.process, "process 4711");
  EXPECT_EQ(seen.memory_total, 0U);
}

TEST(DoctorSnapshot, SaysOfEachDeviceNodeWhoseItIsAndWhetherItOpens) {
  Tree tree;
  tree.file("dev/infiniband/rdma_cm", "").file("dev/infiniband/uverbs0", "").file("dev/infiniband/umad0", "");
  fs::create_directory(tree.root() / "dev/infiniband/uverbs1");  // one that does not open for writing, even for root
  fs::permissions(tree.root() / "dev/infiniband/rdma_cm", fs::perms(0640));
  const Snapshot seen = read_host(tree.root(), "self");
  ASSERT_EQ(seen.nodes.size(), 3U);
  EXPECT_EQ(seen.nodes[0].name, "rdma_cm");
  EXPECT_EQ(seen.nodes[0].mode, 0640U);
  EXPECT_EQ(seen.nodes[0].open_error, 0);
  EXPECT_FALSE(seen.nodes[0].user.empty());
  EXPECT_FALSE(seen.nodes[0].group.empty());
  EXPECT_EQ(seen.nodes[2].name, "uverbs1");
  EXPECT_EQ(seen.nodes[2].open_error, EISDIR);
}

TEST(DoctorSnapshot, ReadsModulesMemoryAndTheLimitsOfTheProcessNamed) {
  Tree tree;
  tree.file("sys/module/rdma_cm/refcnt", "1").file("sys/module/other/refcnt", "1");
  tree.file("proc/meminfo", "MemTotal:       16384000 kB\nHugePages_Free:       12\nHugepagesize:       2048 kB");
  tree.file("proc/12/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            "Max locked memory         65536                unlimited            bytes     ");
  tree.file("proc/12/status", "Name:\tkeyferryd\nUid:\t0\t0\t0\t0\nCapEff:\t0000000000004000");
  tree.file("proc/12/uid_map", "         0          0 4294967295");
  const Snapshot seen = read_host(tree.root(), "12");
  EXPECT_THAT(seen.modules, ElementsAre("rdma_cm"));
  EXPECT_EQ(seen.memory_total, 16384000ULL * 1024);
  EXPECT_EQ(seen.huge_page, 2U << 20U);
  EXPECT_EQ(seen.huge_pages_free, 12U);
  EXPECT_EQ(seen.memlock_soft, 65536U);
  EXPECT_EQ(seen.memlock_hard, std::nullopt);
  EXPECT_TRUE(seen.may_lock_all);
}

TEST(DoctorSnapshot, ACapabilityOfAUserNamespaceLocksNothing) {
  Tree tree;
  tree.file("proc/self/status", "CapEff:\t000001ffffffffff").file("proc/self/uid_map", "0 1000 1");
  EXPECT_FALSE(read_host(tree.root(), "self").may_lock_all);
}

}  // namespace
}  // namespace keyferry::daemon
