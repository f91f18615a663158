#pragma once

#include <string>
#include <string_view>

namespace keyferry::telemetry {

/// The status JSON as a small HTML page that needs nothing from elsewhere. Objects become sections, lists of objects
/// become tables; whatever is in the JSON is shown, so a new field needs no change here. Throws std::runtime_error if
/// it is no JSON. Pure functions, any thread.
std::string status_html(std::string_view json);

/// The same for a terminal: aligned columns.
std::string status_text(std::string_view json);

}  // namespace keyferry::telemetry
