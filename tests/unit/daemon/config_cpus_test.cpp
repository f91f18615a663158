#include "daemon/config_cpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "daemon/options.h"

namespace keyferry::daemon {
namespace {

class ConfigCpus : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "keyferry-cgroup-XXXXXX";
    root_ = ::mkdtemp(name.data());
    std::filesystem::create_directories(root_ / "a" / "b");
    write("self", "12:cpu:/elsewhere\n0::/a/b\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(root_ / path) << text; }
  std::size_t quota() { return cpus_of_quota(root_, root_ / "self"); }

  std::filesystem::path root_;
};

TEST_F(ConfigCpus, NoQuotaIsZero) {
  EXPECT_EQ(quota(), 0U);
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0U);
  EXPECT_EQ(cpus_of_quota("/nonexistent", "/nonexistent"), 0U);
}

TEST_F(ConfigCpus, AQuotaIsRoundedUp) {
  write("a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 2U);
  write("a/b/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota(), 1U);
}

TEST_F(ConfigCpus, TheTightestLevelCounts) {
  write("a/b/cpu.max", "800000 100000\n");
  write("a/cpu.max", "300000 100000\n");
  EXPECT_EQ(quota(), 3U);
  write("cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2U);
  write("a/b/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 1U);
}

TEST_F(ConfigCpus, NonsenseIsNoQuota) {
  for (const char* text : {"", "x y", "-5 100000", "5", "100000 0", "0 100000"}) {
    write("a/b/cpu.max", text);
    EXPECT_EQ(quota(), 0U) << text;
  }
}

TEST(DefaultWorkerCount, IsOneToFour) {
  EXPECT_GE(default_worker_count(), 1U);
  EXPECT_LE(default_worker_count(), kMostAutomaticWorkers);
}

TEST(CpuLists, AreReadAndWrittenAsTasksetDoes) {
  EXPECT_EQ(parse_cpu_list("3"), (std::vector<unsigned>{3}));
  EXPECT_EQ(parse_cpu_list("0-2,8,10-11"), (std::vector<unsigned>{0, 1, 2, 8, 10, 11}));
  for (const char* wrong : {"", "a", "1-", "-1", "2-1", "1,", ",1", "1 ", "1--2", "99999", "0-99999999999"})
    EXPECT_EQ(parse_cpu_list(wrong), std::nullopt) << wrong;
  EXPECT_EQ(cpu_list_text({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
  EXPECT_EQ(cpu_list_text({}), "");
}

}  // namespace
}  // namespace keyferry::daemon
