#pragma once

#include <memory>
#include <string>

#include "daemon/options.h"

namespace spdlog {
class formatter;
}

namespace keyferry::daemon {

/// One JSON object per line: {"time","level","thread","message"}, whatever bytes the message holds.
std::unique_ptr<spdlog::formatter> json_log_formatter();

/// Makes the default logger: standard error, level and format as configured. Called once, on the main thread, before
/// others exist; the logger itself may be used by any thread.
void set_up_log(const LogOptions& options, const std::string& name);

}  // namespace keyferry::daemon
