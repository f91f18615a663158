#include "memory_reserve.h"

#include <cstring>

#include "valkey_api.h"

namespace keyferry::large_object {
namespace {

// Below this a fresh block costs little.
constexpr std::size_t kLeastKept = 256 * 1024;
constexpr std::size_t kPage = 4096;

// An old object's bytes must not pass for bytes that have just arrived.
void spoil(MemoryReserve::Block block) {
  for (std::size_t offset = 0; offset + sizeof(std::uint64_t) <= block.capacity; offset += kPage) {
    std::uint64_t word = 0;
    std::memcpy(&word, block.data + offset, sizeof word);
    word = ~word;
    std::memcpy(block.data + offset, &word, sizeof word);
  }
}

}  // namespace

MemoryReserve& memory_reserve() {
  static auto* reserve = new MemoryReserve;
  return *reserve;
}

void MemoryReserve::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

MemoryReserve::Block MemoryReserve::take(std::size_t size) {
  if (size >= kLeastKept) {
    const std::lock_guard lock(mutex_);
    auto best = blocks_.end();
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      const bool fits = block->capacity >= size && block->capacity <= 2 * size;
      if (fits && (best == blocks_.end() || block->capacity < best->capacity)) best = block;
    }
    if (best != blocks_.end()) {
      const Block block = *best;
      blocks_.erase(best);
      kept_ -= block.capacity;
      return block;
    }
  }
  return {static_cast<std::byte*>(ValkeyModule_TryAlloc(size)), size};
}

void MemoryReserve::give_back(Block block) {
  if (block.capacity >= kLeastKept) {
    spoil(block);
    const std::lock_guard lock(mutex_);
    if (kept_ + block.capacity <= limit_) {
      blocks_.push_back(block);
      kept_ += block.capacity;
      return;
    }
  }
  ValkeyModule_Free(block.data);
}

std::size_t MemoryReserve::kept_bytes() {
  const std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace keyferry::large_object
