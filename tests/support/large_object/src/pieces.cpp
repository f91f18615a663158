#include "pieces.h"

#include <algorithm>

namespace keyferry::large_object {

std::vector<Piece> cut(std::span<const Triple> triples, std::size_t length, std::size_t chunk) {
  std::vector<Piece> pieces;
  std::size_t offset = 0;
  for (const auto& triple : triples) {
    for (std::uint64_t used = 0; used < triple.length && offset < length;) {
      const std::size_t to_chunk_end = chunk - offset % chunk;
      const auto size = static_cast<std::size_t>(
          std::min<std::uint64_t>({static_cast<std::uint64_t>(to_chunk_end), length - offset, triple.length - used}));
      pieces.push_back({offset, size, triple.rkey, triple.address + used});
      offset += size;
      used += size;
    }
  }
  return pieces;
}

std::uint64_t capacity(std::span<const Triple> triples) {
  std::uint64_t sum = 0;
  for (const auto& triple : triples) sum = triple.length > UINT64_MAX - sum ? UINT64_MAX : sum + triple.length;
  return sum;
}

}  // namespace keyferry::large_object
