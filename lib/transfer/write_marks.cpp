#include "transfer/write_marks.h"

#include <algorithm>
#include <functional>

namespace keyferry::transfer {

namespace {

// The values of Mark from here on are stripes.
constexpr std::uint32_t kFirstStripe = 2;

}  // namespace

bool WriteMarks::immutable(std::string_view key) const {
  return std::any_of(prefixes_.begin(), prefixes_.end(),
                     [key](const std::string& prefix) { return key.starts_with(prefix); });
}

WriteMarks::Mark WriteMarks::mark_of(std::span<const std::string_view> args) const {
  Mark mark = Mark::kNothing;
  for (const std::string_view arg : args) {
    if (!immutable(arg)) continue;
    if (mark != Mark::kNothing) return Mark::kEverything;
    mark = Mark{static_cast<std::uint32_t>(stripe_of(arg)) + kFirstStripe};
  }
  return mark;
}

void WriteMarks::touch(Mark mark) {
  if (mark == Mark::kNothing) return;
  // Sequentially consistent, as the class comment's argument needs one order of all touches and reads.
  if (mark == Mark::kEverything) {
    everything_.fetch_add(1);
  } else {
    stripes_[static_cast<std::uint32_t>(mark) - kFirstStripe].fetch_add(1);
  }
}

std::uint64_t WriteMarks::state(std::string_view key) const {
  // Both only grow: the sum is what it was only if both are.
  return everything_.load() + stripes_[stripe_of(key)].load();
}

std::size_t WriteMarks::stripe_of(std::string_view key) {
  return std::hash<std::string_view>{}(key) % kStripes;
}

}  // namespace keyferry::transfer
