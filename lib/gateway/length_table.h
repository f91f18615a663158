#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "upstream/connection.h"

namespace keyferry::gateway {

/// How long the large values were that went by last, so that the next GET of one need not ask for its length first.
/// Only a guess: a wrong one costs a round trip or a lease that is too large, never a byte, so nobody tells it of
/// changes made elsewhere. Each user and database has entries of its own (R54). The least recently used entry gives
/// way. Belongs to the worker's thread.
class LengthTable {
 public:
  static constexpr std::size_t kEntries = 4096;
  /// A longer key is not remembered: that bounds the table at some 4 MiB.
  static constexpr std::size_t kLongestKey = 1024;

  explicit LengthTable(std::size_t entries = kEntries) : most_(entries) {}

  std::optional<std::uint64_t> find(const upstream::Identity& identity, std::string_view key);
  void remember(const upstream::Identity& identity, std::string_view key, std::uint64_t length);
  void forget(const upstream::Identity& identity, std::string_view key);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    /// With database and user before it.
    std::string key;
    std::uint64_t length = 0;
  };
  using Found = std::unordered_map<std::string_view, std::list<Entry>::iterator>::iterator;
  Found look_up(std::string_view name);

  /// Most recently used first; the map's keys are the entries'.
  std::list<Entry> entries_;
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
  const std::size_t most_;
};

}  // namespace keyferry::gateway
