#pragma once

#include <string>
#include <string_view>

namespace keyferry::telemetry {

/// A label's value as it may be shown: at most 160 bytes of valid UTF-8 (cut between characters), control characters
/// and bytes that are no UTF-8 replaced by '?'. Label values can hold text that a server sent, and one bad byte would
/// make a scraper refuse the whole page.
std::string label_text(std::string_view value);

}  // namespace keyferry::telemetry
