#include "gateway/length_table.h"

#include <utility>

namespace keyferry::gateway {

namespace {

std::string name_of(const upstream::Identity& identity, std::string_view key) {
  std::string name = std::to_string(identity.database);
  name.append(1, ' ').append(std::to_string(identity.user.size())).append(1, ' ').append(identity.user).append(key);
  return name;
}

}  // namespace

LengthTable::Found LengthTable::look_up(std::string_view name) {
  const Found found = by_key_.find(name);
  if (found != by_key_.end()) entries_.splice(entries_.begin(), entries_, found->second);
  return found;
}

std::optional<std::uint64_t> LengthTable::find(const upstream::Identity& identity, std::string_view key) {
  if (look_up(name_of(identity, key)) == by_key_.end()) return std::nullopt;
  return entries_.front().length;
}

void LengthTable::remember(const upstream::Identity& identity, std::string_view key, std::uint64_t length) {
  if (key.size() + identity.user.size() > kLongestKey || most_ == 0) return;
  std::string name = name_of(identity, key);
  if (look_up(name) != by_key_.end()) {
    entries_.front().length = length;
    return;
  }
  if (entries_.size() == most_) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({std::move(name), length});
  by_key_.emplace(entries_.front().key, entries_.begin());
}

void LengthTable::forget(const upstream::Identity& identity, std::string_view key) {
  const Found found = by_key_.find(name_of(identity, key));
  if (found == by_key_.end()) return;
  const auto entry = found->second;
  by_key_.erase(found);
  entries_.erase(entry);
}

}  // namespace keyferry::gateway
