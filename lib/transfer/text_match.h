#pragma once

#include <algorithm>
#include <string_view>

namespace keyferry::transfer {

/// True if `part` (in lower case) stands somewhere in `text`, whatever case `text` has. An empty part does everywhere.
inline bool contains_lower(std::string_view text, std::string_view part) {
  const auto lower = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  };
  const auto found = std::search(text.begin(), text.end(), part.begin(), part.end(),
                                 [&](char left, char right) { return lower(left) == right; });
  return part.empty() || found != text.end();
}

}  // namespace keyferry::transfer
