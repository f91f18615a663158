#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace keyferry::large_object {

/// One (rkey, addr, len) triple of a command: where in the client's registered memory bytes come from or go to.
struct Triple {
  std::uint64_t rkey = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

/// One RMA operation's worth of an object.
struct Piece {
  std::size_t offset = 0;  // in the object
  std::size_t length = 0;
  std::uint64_t rkey = 0;
  std::uint64_t address = 0;
};

/// Cuts an object of `length` bytes at every multiple of `chunk` and at every end of a triple, in the object's order: a
/// triple is filled completely before the next begins (blob-rdma spec 2.2). The triples must hold at least `length`
/// bytes.
std::vector<Piece> cut(std::span<const Triple> triples, std::size_t length, std::size_t chunk);

/// Sum of the lengths, at most UINT64_MAX.
std::uint64_t capacity(std::span<const Triple> triples);

}  // namespace keyferry::large_object
