#pragma once

#include <string>
#include <vector>

#include "gateway/slow_log.h"
#include "gateway/worker_report.h"

namespace keyferry::daemon {

/// What `keyferry stat clients`, `channels` and `slow` show: an object with one table each, rows by id or, of slow
/// commands, the latest first. Times in seconds or milliseconds as the columns say.
std::string clients_json(const std::vector<gateway::WorkerReport>& workers);
std::string channels_json(const std::vector<gateway::WorkerReport>& workers);
std::string slow_json(const std::vector<gateway::SlowCommand>& commands);

}  // namespace keyferry::daemon
