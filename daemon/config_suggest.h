#pragma once

#include <string>
#include <string_view>

namespace keyferry::daemon {

/// The known option that an unknown path most looks like: a slip of the pen, or the right name in the wrong section.
/// Empty if nothing is near.
std::string nearest_option(std::string_view path);

}  // namespace keyferry::daemon
