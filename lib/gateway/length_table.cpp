#include "gateway/length_table.h"

namespace keyferry::gateway {

std::optional<std::uint64_t> LengthTable::find(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return entries_.front().length;
}

void LengthTable::remember(std::string_view key, std::uint64_t length) {
  if (key.size() > kLongestKey || most_ == 0) return;
  if (find(key)) {
    entries_.front().length = length;
    return;
  }
  if (entries_.size() == most_) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({std::string(key), length});
  by_key_.emplace(entries_.front().key, entries_.begin());
}

void LengthTable::forget(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const auto entry = found->second;
  by_key_.erase(found);
  entries_.erase(entry);
}

}  // namespace keyferry::gateway
