#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "upstream/connection.h"

namespace keyferry::gateway {

/// Which keys under `transfer.offload` held a large object when they were last asked for, so that a GET asks for the
/// likelier kind first. Hints only: both answers lead to the right value, the wrong one costs a round trip. Fixed in
/// size, forgets by overwriting. Belongs to the worker's thread.
class KindHints {
 public:
  bool is_object(const upstream::Identity& identity, std::string_view key) const {
    const std::size_t hash = hash_of(identity, key);
    return slots_[hash % kSlots] == tag(hash);
  }
  void note(const upstream::Identity& identity, std::string_view key, bool object) {
    const std::size_t hash = hash_of(identity, key);
    std::uint32_t& slot = slots_[hash % kSlots];
    if (object) {
      slot = tag(hash);
    } else if (slot == tag(hash)) {
      slot = 0;
    }
  }

 private:
  static constexpr std::size_t kSlots = 4096;
  static std::size_t hash_of(const upstream::Identity& identity, std::string_view key) {
    // As far as the value is concerned, only the database counts.
    return std::hash<std::string_view>{}(key) ^ (static_cast<std::size_t>(identity.database) * 0x9E3779B97F4A7C15U);
  }
  static std::uint32_t tag(std::size_t hash) { return static_cast<std::uint32_t>(hash >> 16U) | 1U; }

  std::array<std::uint32_t, kSlots> slots_{};
};

/// A name beside the key that nobody else uses: where a value waits that is to take the key's place, or was taken from
/// it. It begins with the key's own, so that a user who may touch every key with a prefix may touch this one. Any
/// thread.
std::string temporary_key(std::string_view key);

}  // namespace keyferry::gateway
