#include "memory/pool_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace keyferry::memory {
namespace {

using testing::HasSubstr;
using HugePages = PoolOptions::HugePages;

std::string create_error(const PoolOptions& options) {
  try {
    PoolMemory::create(options);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

/// The flags that the kernel keeps for the mapping at `address` (proc(5), smaps, VmFlags), and a number from the same
/// entry.
std::string vm_flags(const void* address, const std::string& field = "VmFlags:") {
  std::ifstream smaps("/proc/self/smaps");
  std::ostringstream start;
  start << std::hex << reinterpret_cast<std::uintptr_t>(address) << '-';
  std::string line;
  bool inside = false;
  while (std::getline(smaps, line)) {
    if (line.rfind(start.str(), 0) == 0) inside = true;
    if (inside && line.rfind(field, 0) == 0) return line.substr(field.size()) + " ";
  }
  return "";
}

/// The sanitizers replace mlock by a function that does nothing.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kRealLocks = false;
#else
constexpr bool kRealLocks = true;
#endif

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(PoolMemory, IsReadableAndWritableFromEndToEnd) {
  const PoolMemory pool = PoolMemory::create({8 * base::kMiB, base::kMiB, HugePages::kNever});
  ASSERT_EQ(pool.bytes().size(), 8 * base::kMiB);
  EXPECT_EQ(pool.region_bytes(), base::kMiB);
  EXPECT_THAT(pool.page_kind(), HasSubstr("pages"));
  EXPECT_TRUE(pool.notes().empty());
  for (std::size_t i = 0; i < pool.bytes().size(); i += 511) pool.bytes()[i] = static_cast<std::byte>(i % 251);
  for (std::size_t i = 0; i < pool.bytes().size(); i += 511)
    ASSERT_EQ(pool.bytes()[i], static_cast<std::byte>(i % 251));
}

TEST(PoolMemory, R93EveryPageIsThereAndLockedBeforeTheFirstUse) {
  const PoolMemory pool = PoolMemory::create({4 * base::kMiB, base::kMiB, HugePages::kNever});
  EXPECT_THAT(vm_flags(pool.bytes().data(), "Rss:"), HasSubstr("4096 kB"));
  if (kRealLocks) {
    EXPECT_THAT(vm_flags(pool.bytes().data()), HasSubstr(" lo "));
  }
}

TEST(PoolMemory, R80IsNeitherDumpedNorInherited) {
  const PoolMemory pool = PoolMemory::create({base::kMiB, base::kMiB, HugePages::kNever});
  EXPECT_THAT(vm_flags(pool.bytes().data()), HasSubstr(" dd "));
  EXPECT_THAT(vm_flags(pool.bytes().data()), HasSubstr(" dc "));
}

TEST(PoolMemory, TheSizeIsRoundedUpToWholeRegions) {
  const PoolMemory pool = PoolMemory::create({base::kMiB + 1, base::kMiB, HugePages::kNever});
  EXPECT_EQ(pool.bytes().size(), 2 * base::kMiB);
  const PoolMemory small = PoolMemory::create({1, 4096, HugePages::kNever});
  EXPECT_EQ(small.bytes().size(), 4096U);
}

TEST(PoolMemory, DestroyingItGivesEverythingBack) {
  const std::size_t before = open_descriptors();
  const std::byte* address = nullptr;
  {
    PoolMemory pool = PoolMemory::create({base::kMiB, base::kMiB, HugePages::kNever});
    address = pool.bytes().data();
    const PoolMemory moved = std::move(pool);
    EXPECT_EQ(moved.bytes().data(), address);
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(vm_flags(address), "");
}

TEST(PoolMemory, ARegionThatIsNoPowerOfTwoPagesIsRefused) {
  for (const std::uint64_t region : {std::uint64_t{0}, std::uint64_t{2048}, std::uint64_t{12288}, base::kMiB + 4096}) {
    EXPECT_THAT(create_error({base::kMiB, region, HugePages::kNever}), HasSubstr("pool.region is ")) << region;
  }
  EXPECT_THAT(create_error({0, 4096, HugePages::kNever}), HasSubstr("pool.size is 0"));
}

TEST(PoolMemory, R94APoolLargerThanTheMachineIsRefusedBeforeItIsTouched) {
  for (const std::uint64_t size : {std::uint64_t{1} << 50U, UINT64_MAX}) {
    const std::string error = create_error({size, base::kMiB, HugePages::kPrefer});
    EXPECT_THAT(error, HasSubstr("pool.size is ")) << size;
  }
}

TEST(PoolMemory, MissingHugePagesAreANoteWhenPreferredAndAnErrorWhenRequired) {
  // More than any test machine reserves, less than it has: all pages in the way must not exist.
  const PoolOptions wanted{64 * base::kMiB, base::kMiB, HugePages::kRequire};
  const std::string error = create_error(wanted);
  if (error.empty()) GTEST_SKIP() << "this machine has huge pages free (vm.nr_hugepages); the fallback can't be seen";
  EXPECT_THAT(error, HasSubstr("pool.huge_pages is require and there are none: "));
  const PoolMemory pool = PoolMemory::create({64 * base::kMiB, base::kMiB, HugePages::kPrefer});
  ASSERT_EQ(pool.notes().size(), 1U);
  EXPECT_THAT(pool.notes()[0], HasSubstr("wanted huge pages, use small ones: "));
}

TEST(PoolMemory, HugePagesAreUsedWhereTheMachineHasThem) {
  try {
    const PoolMemory pool = PoolMemory::create({3 * base::kMiB, base::kMiB, HugePages::kRequire});
    EXPECT_THAT(pool.page_kind(), HasSubstr("huge pages"));
    EXPECT_EQ(pool.bytes().size() % (2 * base::kMiB), 0U);
    for (std::byte& byte : pool.bytes()) byte = std::byte{1};
  } catch (const std::runtime_error& error) {
    GTEST_SKIP() << error.what();
  }
}

/// In a process of its own, without privileges: 0 if the pool can't be locked and the message says all that it must.
[[noreturn]] void locked_memory_scenario() {
  const rlimit limit{65536, 65536};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) std::_Exit(2);
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) std::_Exit(3);
  const std::string error = create_error({base::kMiB, base::kMiB, HugePages::kNever});
  std::fprintf(stderr, "message: %s\n", error.c_str());
  std::_Exit(error.empty() ? 1 : 0);
}

TEST(PoolMemoryDeathTest, R69TooLowAMemlockLimitIsNamedWithNeededActualAndSetting) {
  if (!kRealLocks) GTEST_SKIP() << "sanitizers do not lock memory";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(locked_memory_scenario(), testing::ExitedWithCode(0),
              "needs 1 MiB and the limit on locked memory .RLIMIT_MEMLOCK. is 64 KiB.*LimitMEMLOCK=infinity");
}

[[noreturn]] void raised_limit_scenario() {
  const rlimit limit{4096, 2 * base::kMiB};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) std::_Exit(2);
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) std::_Exit(3);
  std::_Exit(create_error({base::kMiB, base::kMiB, HugePages::kNever}).empty() ? 0 : 1);
}

TEST(PoolMemoryDeathTest, ASoftMemlockLimitIsRaisedToTheHardOne) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(raised_limit_scenario(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace keyferry::memory
