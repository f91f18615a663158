#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"

namespace keyferry::memory {

struct PoolOptions {
  /// prefer: huge pages if the machine has them free, else small ones and a note. require: huge pages or an error.
  enum class HugePages : std::uint8_t { kPrefer, kRequire, kNever };

  /// Size of the pool in bytes; rounded up to whole regions (and whole huge pages).
  std::uint64_t bytes = 0;
  /// A power of two, at least 4096.
  std::uint64_t region_bytes = 0;
  HugePages huge_pages = HugePages::kPrefer;
};

/// The pool's memory: a memfd whose blocks are all there (no SIGBUS later, R93, R94), populated, locked, left out of
/// core dumps and not inherited over fork (R65, R80). Owns the mapping and its descriptor; the books over it are
/// Pool's. Made on the main thread at start and destroyed last; the mapping itself never changes, so any thread may use
/// the accessors. Who may touch which bytes is said by leases.
class PoolMemory {
 public:
  /// Throws std::runtime_error with one message that names the cause and the fix (R69).
  static PoolMemory create(const PoolOptions& options);

  PoolMemory(PoolMemory&& other) noexcept;
  PoolMemory& operator=(PoolMemory&&) = delete;
  PoolMemory(const PoolMemory&) = delete;
  ~PoolMemory();

  /// The whole pool; whole regions.
  base::MutableBytes bytes() const { return bytes_; }
  std::uint64_t region_bytes() const { return region_bytes_; }
  /// What the memory is made of: "2 MiB huge pages", "4 KiB pages, transparent huge pages allowed", "4 KiB pages".
  const std::string& page_kind() const { return page_kind_; }
  /// What was wanted, what is used instead and why, a sentence each; empty if all is as asked (R67).
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  PoolMemory() = default;
  void map_huge(const PoolOptions& options, std::uint64_t length);
  void map_small(std::uint64_t length);
  void lock(bool huge);

  base::Fd fd_;
  base::MutableBytes bytes_;
  std::uint64_t region_bytes_ = 0;
  std::string page_kind_;
  std::vector<std::string> notes_;
};

}  // namespace keyferry::memory
