#pragma once

#include <string>
#include <vector>

#include "daemon/options.h"

namespace keyferry::daemon {

/// Something wrong with a configuration. `path` is the key, with the item's number in lists ("listen[0].tcp"): the line
/// is looked up by it.
struct Problem {
  std::string path;
  std::string text;
  /// The other key of the rule: its line is named if `path` is left to its default.
  std::string other{};
};

/// The rules between keys, for options whose values are each possible by themselves. Pure, any thread.
std::vector<Problem> check_options(const Options& options);

}  // namespace keyferry::daemon
