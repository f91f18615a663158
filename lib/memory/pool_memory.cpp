#include "memory/pool_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "memory/memory_limit.h"
#include "memory/size_text.h"

namespace keyferry::memory {

namespace {

constexpr std::uint64_t kSmallestRegion = 4096;

/// The reason why huge pages can't be used; the caller decides whether that is an error.
struct NoHugePages {
  std::string why;
};

[[noreturn]] void fail(const std::string& text) {
  throw std::runtime_error("keyferry: " + text);
}

std::string errno_text(int code) {
  return std::string(std::strerror(code)) + " (errno " + std::to_string(code) + ")";
}

/// A number of /proc/meminfo: pages, or bytes where the file says kB. 0 if absent.
std::uint64_t meminfo(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    std::uint64_t value = 0;
    std::string unit;
    if (word == name + ":" && file >> value) {
      std::getline(file, unit);
      return unit.find("kB") != std::string::npos ? value * 1024 : value;
    }
    std::getline(file, unit);
  }
  return 0;
}

/// The word in brackets of /sys/kernel/mm/transparent_hugepage/shmem_enabled, empty if there is none.
std::string shmem_huge_page_policy() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string word;
  while (file >> word) {
    if (word.front() == '[') return word.substr(1, word.size() - 2);
  }
  return "";
}

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

void check_options(const PoolOptions& options) {
  if (options.region_bytes < kSmallestRegion || !std::has_single_bit(options.region_bytes)) {
    fail("pool.region is " + size_text(options.region_bytes) +
         "; it must be a power of two and at least 4 KiB, e.g. 4MiB");
  }
  if (options.bytes == 0) fail("pool.size is 0; set it to the memory that transfers may use, e.g. 4GiB");
  if (options.bytes > std::uint64_t{1} << 56U)
    fail("pool.size is " + size_text(options.bytes) + "; no machine has that much memory");
}

/// Total memory, not free memory, decides (R93): the page cache gives way, another process's memory does not, and that
/// the kernel reports.
void check_limits(std::uint64_t length) {
  struct sysinfo machine {};
  if (::sysinfo(&machine) == 0) {
    const std::uint64_t total = static_cast<std::uint64_t>(machine.totalram) * machine.mem_unit;
    if (length >= total)
      fail("pool.size is " + size_text(length) + " and this machine has " + size_text(total) +
           " of memory; lower pool.size");
  }
  const std::optional<MemoryLimit> limit = cgroup_memory_limit();
  if (limit && length >= limit->bytes) {
    fail("pool.size is " + size_text(length) + " and this process may have " + size_text(limit->bytes) + " (" +
         limit->source +
         "); lower pool.size, or raise the limit (systemd MemoryMax=, the container's memory limit) above it");
  }
}

/// Reserves every block of the file now, so that no access can meet a missing one later. Returns an errno.
int reserve(int fd, std::uint64_t length) {
  int result = 0;
  do {
    result = ::fallocate(fd, 0, 0, static_cast<off_t>(length)) == 0 ? 0 : errno;
  } while (result == EINTR);
  return result;
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : size_text(limit);
}

}  // namespace

PoolMemory PoolMemory::create(const PoolOptions& options) {
  check_options(options);
  PoolMemory pool;
  pool.region_bytes_ = options.region_bytes;
  const std::uint64_t length = round_up(options.bytes, options.region_bytes);
  bool huge = false;
  if (options.huge_pages != PoolOptions::HugePages::kNever) {
    try {
      pool.map_huge(options, length);
      huge = true;
    } catch (const NoHugePages& reason) {
      if (options.huge_pages == PoolOptions::HugePages::kRequire) {
        fail("pool.huge_pages is require and there are none: " + reason.why + "; or set pool.huge_pages to prefer");
      }
      pool.notes_.push_back("pool: wanted huge pages, use small ones: " + reason.why);
    }
  }
  if (!huge) {
    check_limits(length);
    pool.map_small(length);
  }
  // Neither is needed for correct work, and a kernel without them is none that we run on.
  static_cast<void>(::madvise(pool.bytes_.data(), pool.bytes_.size(), MADV_DONTDUMP));
  if (::madvise(pool.bytes_.data(), pool.bytes_.size(), MADV_DONTFORK) != 0) {
    fail("can't keep the pool out of child processes (madvise MADV_DONTFORK): " + errno_text(errno));
  }
  pool.lock(huge);
  return pool;
}

PoolMemory::PoolMemory(PoolMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      bytes_(std::exchange(other.bytes_, {})),
      region_bytes_(other.region_bytes_),
      page_kind_(std::move(other.page_kind_)),
      notes_(std::move(other.notes_)) {}

PoolMemory::~PoolMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

void PoolMemory::map_huge(const PoolOptions& options, std::uint64_t length) {
  const std::uint64_t page = meminfo("Hugepagesize");
  if (page == 0) throw NoHugePages{"this kernel has none"};
  const std::uint64_t rounded = round_up(length, std::max(page, options.region_bytes));
  const std::string shortage = "the pool needs " + std::to_string(rounded / page) + " pages of " + size_text(page) +
                               ", " + std::to_string(meminfo("HugePages_Free")) + " are free (sysctl vm.nr_hugepages)";
  base::Fd fd(::memfd_create("keyferry-pool", MFD_CLOEXEC | MFD_HUGETLB));
  if (!fd) throw NoHugePages{"memfd_create: " + errno_text(errno)};
  if (::ftruncate(fd.get(), static_cast<off_t>(rounded)) != 0) throw NoHugePages{"ftruncate: " + errno_text(errno)};
  void* const address = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) throw NoHugePages{shortage};
  if (const int error = reserve(fd.get(), rounded); error != 0) {
    ::munmap(address, rounded);
    throw NoHugePages{error == ENOSPC || error == ENOMEM ? shortage : "fallocate: " + errno_text(error)};
  }
  fd_ = std::move(fd);
  bytes_ = {static_cast<std::byte*>(address), rounded};
  page_kind_ = size_text(page) + " huge pages";
}

void PoolMemory::map_small(std::uint64_t length) {
  base::Fd fd(::memfd_create("keyferry-pool", MFD_CLOEXEC));
  if (!fd) fail("can't create the pool's memory (memfd_create): " + errno_text(errno));
  if (::ftruncate(fd.get(), static_cast<off_t>(length)) != 0)
    fail("can't size the pool to " + size_text(length) + ": " + errno_text(errno));
  void* const address = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) {
    fail("can't map " + size_text(length) + " for the pool: " + errno_text(errno) +
         "; lower pool.size or raise the address space limit (ulimit -v)");
  }
  fd_ = std::move(fd);
  bytes_ = {static_cast<std::byte*>(address), length};
  page_kind_ = size_text(static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))) + " pages";
  const std::string policy = shmem_huge_page_policy();
  // Before the first touch: only faults, not fallocate, honour the advice.
  if (policy == "advise" && ::madvise(address, length, MADV_HUGEPAGE) == 0) {
    page_kind_ += ", transparent huge pages allowed";
  } else if (policy == "always" || policy == "within_size" || policy == "force") {
    page_kind_ += ", transparent huge pages allowed";
  }
#ifdef MADV_POPULATE_WRITE
  // Unlike a plain touch it reports a missing page instead of ending in SIGBUS. Kernels before 5.14 lack it: fallocate
  // then does it alone.
  if (::madvise(address, length, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
    fail("can't populate " + size_text(length) + " for the pool: " + errno_text(errno) +
         "; lower pool.size or free memory");
  }
#endif
  if (const int error = reserve(fd_.get(), length); error != 0) {
    fail("can't reserve " + size_text(length) + " for the pool: " + errno_text(error) +
         "; lower pool.size or free memory");
  }
}

void PoolMemory::lock(bool huge) {
  if (::mlock(bytes_.data(), bytes_.size()) == 0) return;
  int error = errno;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if ((error == ENOMEM || error == EPERM) && limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_MEMLOCK, &raised) == 0) {
      limit = raised;
      if (::mlock(bytes_.data(), bytes_.size()) == 0) return;
      error = errno;
    }
  }
  const std::string text = "can't lock the pool: it needs " + size_text(bytes_.size()) +
                           " and the limit on locked memory (RLIMIT_MEMLOCK) is " + limit_text(limit.rlim_cur) + ": " +
                           errno_text(error) +
                           "; set LimitMEMLOCK=infinity in the systemd unit, --ulimit memlock=-1 for a container, or "
                           "\"* - memlock unlimited\" in "
                           "/etc/security/limits.conf, or give it CAP_IPC_LOCK";
  if (!huge) fail(text);
  notes_.push_back("pool: not locked, which huge pages do without, but a fabric device may need it: " + text);
}

}  // namespace keyferry::memory
