#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "memory_reserve.h"

namespace keyferry::large_object {

/// Memory of one object, from the server's own allocator so that it counts in used_memory. Whoever holds the Buffer
/// owns the bytes; they stay until it is destroyed, on any thread.
class Buffer {
 public:
  /// Null if there is no memory, or if all buffers together would pass `limit` bytes (0: no limit). `size` > 0.
  static std::unique_ptr<Buffer> allocate(std::size_t size, std::uint64_t limit);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() { return {block_.data, size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {block_.data, size_}; }

 private:
  Buffer(MemoryReserve::Block block, std::size_t size) : block_(block), size_(size) {}

  MemoryReserve::Block block_;
  std::size_t size_;
};

/// A complete large object: never changed once made. The keyspace holds one reference, each GET under way another, so
/// that DEL, overwriting, expiry and eviction take the key away but not the bytes a transfer still reads (blob-rdma
/// spec 3.2 step 1).
struct LargeObject {
  /// Taken when the command arrived; a SET with a lower number than the stored one is stale (blob-rdma spec 2.3).
  std::uint64_t id;
  std::uint32_t crc;
  std::shared_ptr<const Buffer> buffer;

  [[nodiscard]] std::span<const std::byte> bytes() const { return buffer->bytes(); }
};

using LargeObjectRef = std::shared_ptr<const LargeObject>;

/// The next object id. Any thread.
std::uint64_t next_object_id();

}  // namespace keyferry::large_object
