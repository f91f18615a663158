#include "large_object.h"

#include <atomic>

#include "counters.h"

namespace keyferry::large_object {

std::unique_ptr<Buffer> Buffer::allocate(std::size_t size, std::uint64_t limit) {
  if (limit != 0 && read(counters.allocated_bytes) + size > limit) return nullptr;
  const auto block = memory_reserve().take(size);
  if (block.data == nullptr) return nullptr;
  add(counters.allocated_bytes, size);
  return std::unique_ptr<Buffer>(new Buffer(block, size));
}

Buffer::~Buffer() {
  memory_reserve().give_back(block_);
  subtract(counters.allocated_bytes, size_);
}

std::uint64_t next_object_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace keyferry::large_object
