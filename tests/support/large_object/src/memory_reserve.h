#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace keyferry::large_object {

/// Memory of objects that are gone, kept for the next ones: the real module's objects lie in segments that exist
/// already, and without this a SET would spend most of its time in page faults. What is kept counts in used_memory. Any
/// thread.
class MemoryReserve {
 public:
  struct Block {
    std::byte* data = nullptr;
    std::size_t capacity = 0;
  };

  /// At most this many bytes are kept; 0 keeps none.
  void set_limit(std::size_t bytes);

  /// A block of at least `size` bytes, kept or new; data is null if there is no memory.
  Block take(std::size_t size);

  void give_back(Block block);

  [[nodiscard]] std::size_t kept_bytes();

 private:
  std::mutex mutex_;
  std::size_t limit_ = 0;
  std::size_t kept_ = 0;
  std::vector<Block> blocks_;
};

/// The process's one reserve; never destroyed.
MemoryReserve& memory_reserve();

}  // namespace keyferry::large_object
