#include "memory/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace keyferry::memory {
namespace {

namespace fs = std::filesystem;

struct MemoryLimitTest : testing::Test {
  MemoryLimitTest() {
    std::string name = (fs::temp_directory_path() / "keyferry-limit-XXXXXX").string();
    root = ::mkdtemp(name.data());
  }
  ~MemoryLimitTest() override { fs::remove_all(root); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  std::string mount(const std::string& mount_root, const std::string& point, const std::string& tail) const {
    return "31 23 0:28 " + mount_root + " " + (root / point).string() + " rw,relatime shared:9 - " + tail + "\n";
  }

  fs::path root;
};

TEST_F(MemoryLimitTest, NoCgroupMeansNoLimit) {
  EXPECT_FALSE(cgroup_memory_limit(root));
}

TEST_F(MemoryLimitTest, R94TheSmallestLimitOnTheWayUpDecidesInVersion2) {
  write("cgroup", "0::/system.slice/keyferry.service\n");
  write("mountinfo", mount("/", "cg", "cgroup2 cgroup2 rw"));
  write("cg/system.slice/keyferry.service/memory.max", "max\n");
  EXPECT_FALSE(cgroup_memory_limit(root));
  write("cg/system.slice/memory.max", "1073741824\n");
  const auto limit = cgroup_memory_limit(root);
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->bytes, 1073741824U);
  EXPECT_EQ(limit->source, (root / "cg/system.slice/memory.max").string());
  write("cg/system.slice/keyferry.service/memory.max", "4096\n");
  EXPECT_EQ(cgroup_memory_limit(root)->bytes, 4096U);
}

TEST_F(MemoryLimitTest, Version1IsReadFromTheMemoryController) {
  write("cgroup", "8:pids:/x\n4:memory:/a/b\n9:name=systemd:/\n0::/\n");
  write("mountinfo", mount("/", "pids", "cgroup cgroup rw,pids") + mount("/", "mem", "cgroup cgroup rw,memory"));
  write("mem/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(cgroup_memory_limit(root));
  write("mem/a/b/memory.limit_in_bytes", "65536\n");
  EXPECT_EQ(cgroup_memory_limit(root)->bytes, 65536U);
}

TEST_F(MemoryLimitTest, AContainersMountHidesTheBeginningOfThePath) {
  write("cgroup", "4:memory:/docker/abc/inner\n");
  write("mountinfo", mount("/docker/abc", "mem", "cgroup cgroup rw,memory"));
  write("mem/inner/memory.limit_in_bytes", "8192\n");
  EXPECT_EQ(cgroup_memory_limit(root)->bytes, 8192U);
}

TEST_F(MemoryLimitTest, NonsenseInTheFilesSetsNoLimit) {
  write("cgroup", "garbage\n0:\n0::/a\n");
  write("mountinfo", "no separator here\n - \n" + mount("/", "cg", "cgroup2 cgroup2 rw"));
  write("cg/a/memory.max", "12monkeys\n");
  EXPECT_FALSE(cgroup_memory_limit(root));
}

TEST_F(MemoryLimitTest, ThisMachinesOwnFilesCanBeRead) {
  const auto limit = cgroup_memory_limit();
  EXPECT_TRUE(!limit || limit->bytes > 1U << 20U);
}

}  // namespace
}  // namespace keyferry::memory
