#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/doctor_snapshot.h"
#include "daemon/options.h"

namespace keyferry::daemon {

/// How much the configuration wants something: not at all; where it is to be had (auto); asked for, with a fallback; or
/// the daemon does not start without.
enum class Want : std::uint8_t { kNo, kWhereThere, kAsked, kRequired };

/// What a configuration needs of the host, sizes in bytes.
struct Needs {
  Want rdma = Want::kNo;
  /// At most, of all kinds; each locks two buffers and its places in the queues.
  std::size_t rdma_connections = 0;
  std::uint64_t rdma_buffer = 0;
  /// Places in each queue.
  std::uint64_t rdma_queue = 1024;
  /// efa-direct.
  Want efa = Want::kNo;
  Want fabric = Want::kNo;
  std::uint64_t pool = 0;
  HugePages huge_pages = HugePages::kPrefer;
  /// The server, for messages.
  std::string server;
};

Needs needs_of(const Options& options);

enum class Verdict : std::uint8_t { kOk, kWarn, kFail };

/// One line of the report. `text`: what is there, or the cause; `fix`: what to do, empty where nothing is to be done.
struct Check {
  Verdict verdict = Verdict::kOk;
  std::string name;
  std::string text;
  std::string fix;
};

/// What the host lacks: kFail where the daemon would not start or not do what is required, kWarn where it would do with
/// less than asked for. A function of its arguments alone.
std::vector<Check> examine(const Snapshot& seen, const Needs& needs);

/// The parts of examine(), each in the order of the report.
std::vector<Check> check_rdma(const Snapshot& seen, const Needs& needs);
std::vector<Check> check_memory(const Snapshot& seen, const Needs& needs);
std::vector<Check> check_fabric(const Snapshot& seen, const Needs& needs);

/// Which entry of the GID table packets from `address` use, and why; nullptr: none, and `why` says what to look at.
/// Never one by its index alone (R68): the same port has link-local, RoCE v1 and other interfaces' entries.
const RdmaGid* choose_gid(const RdmaPort& port, const std::string& address, std::string& why);

bool all_well(const std::vector<Check>& checks);
/// A line each: "warn  memlock: TEXT. Fix: FIX".
std::string report_text(const std::vector<Check>& checks);
/// {"ok": true, "checks": [{"verdict", "name", "text", "fix"}]}
std::string report_json(const std::vector<Check>& checks);

}  // namespace keyferry::daemon
