#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/slow_log.h"
#include "gateway/worker_report.h"
#include "telemetry/admin_server.h"

namespace keyferry::daemon {

/// What `keyferry stat clients`, `channels` and `slow` show: an object with one table each, rows by id or, of slow
/// commands, the latest first. Times in seconds or milliseconds as the columns say.
/// Of clients and channels only `rows`, and no more than some megabytes: the object's "after" is then what to ask for
/// next, and there is none behind the last row. `engine`: Engine::status(), for the lanes; `user`: the configuration's.
using Rows = telemetry::AdminHandlers::Rows;
std::string clients_json(const std::vector<gateway::WorkerReport>& workers, Rows rows);
std::string channels_json(const std::vector<gateway::WorkerReport>& workers, std::string_view engine,
                          const std::string& user, Rows rows);
std::string slow_json(const std::vector<gateway::SlowCommand>& commands);

}  // namespace keyferry::daemon
