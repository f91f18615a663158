#include "daemon/config_suggest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "daemon/options_table.h"

namespace keyferry::daemon {

namespace {

/// Longer names are not compared: no option's is half as long.
constexpr std::size_t kLongestName = 64;

/// Insertions, deletions and replacements between two names, case aside.
std::size_t distance(std::string_view from, std::string_view to) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
  };
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(from[i]) == lower(to[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_option(std::string_view path) {
  const std::string_view name = option_name(path);
  if (name.empty() || name.size() > kLongestName) return {};
  const std::size_t bound = std::max<std::size_t>(1, name.size() / 3);
  std::string_view best;
  std::size_t best_cost = bound * 2 + 2;
  for (const OptionInfo& info : option_table()) {
    const std::string_view known = option_name(info.path);
    const std::size_t apart = distance(name, known);
    if (apart > bound) continue;
    // The same section counts more than a letter.
    const std::size_t cost = 2 * apart + (option_section(info.path) == option_section(path) ? 0 : 1);
    if (cost < best_cost) {
      best_cost = cost;
      best = info.path;
    }
  }
  return std::string(best);
}

}  // namespace keyferry::daemon
