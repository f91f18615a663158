#include "daemon/doctor.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace keyferry::daemon {

namespace {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      return "fail";
  }
  return "fail";
}

Want want_of_provider(const Options& options, std::string_view asked_by) {
  if (options.fabric.provider == asked_by) return Want::kRequired;
  return options.fabric.provider == "auto" ? Want::kWhereThere : Want::kNo;
}

}  // namespace

Needs needs_of(const Options& options) {
  Needs needs;
  needs.server = way_address(options).text();
  if (uses_rdma(options)) {
    needs.rdma = Want::kWhereThere;
    if (options.upstream.transport == Transport::kRdma)
      needs.rdma = options.upstream.require ? Want::kRequired : Want::kAsked;
    needs.rdma_buffer = options.upstream.rdma_buffer;
    needs.rdma_queue = options.upstream.rdma_queue;
    needs.rdma_connections = options.limits.upstream_connections - options.transfer.lanes + options.limits.pinned_long +
                             options.limits.pinned_short;
    if (!uses_sentinels(options))
      needs.server = HostPort{options.upstream.nodes.front().host, rdma_port(options)}.text();
  }
  needs.efa = want_of_provider(options, "efa-direct");
  // Only auto leaves the choice to the daemon, and upstream.require takes it back.
  if (options.fabric.provider != "off")
    needs.fabric = options.fabric.provider != "auto" || options.upstream.require ? Want::kRequired : Want::kAsked;
  needs.pool = options.pool.size;
  needs.huge_pages = options.pool.huge_pages;
  return needs;
}

std::vector<Check> examine(const Snapshot& seen, const Needs& needs) {
  std::vector<Check> all;
  for (auto* part : {check_rdma, check_memory, check_fabric}) {
    std::vector<Check> checks = part(seen, needs);
    std::move(checks.begin(), checks.end(), std::back_inserter(all));
  }
  return all;
}

bool all_well(const std::vector<Check>& checks) {
  return std::ranges::none_of(checks, [](const Check& check) { return check.verdict == Verdict::kFail; });
}

std::string report_text(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    const std::string_view verdict = verdict_name(check.verdict);
    text += std::string(verdict) + std::string(6 - verdict.size(), ' ') + check.name + ": " + check.text;
    if (!check.fix.empty()) text += ". Fix: " + check.fix;
    text += '\n';
  }
  return text;
}

std::string report_json(const std::vector<Check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    list.push_back(
        {{"verdict", verdict_name(check.verdict)}, {"name", check.name}, {"text", check.text}, {"fix", check.fix}});
  }
  // A name of the system's may be no UTF-8.
  return nlohmann::ordered_json{{"ok", all_well(checks)}, {"checks", list}}.dump(
             2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace keyferry::daemon
