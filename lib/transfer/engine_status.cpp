#include "transfer/engine_status.h"

#include <nlohmann/json.hpp>

#include "transfer/engine_metrics.h"

namespace keyferry::transfer {

nlohmann::json status_of_pool(const memory::Pool& pool, const LeaseBook& book) {
  const base::TimePoint now = base::Clock::steady().now();
  const memory::PoolStats stats = pool.stats();
  nlohmann::json bytes, regions;
  for (std::size_t i = 0; i < memory::kRegionStates; ++i) {
    const char* name = region_state_name(static_cast<memory::RegionState>(i));
    bytes[name] = stats.bytes[i];
    regions[name] = stats.regions[i];
  }
  nlohmann::json quarantine = nlohmann::json::array();
  for (const LeaseBook::Quarantine& one : book.quarantine()) {
    quarantine.push_back({{"bytes", one.bytes}, {"seconds", base::seconds(now - one.since)}, {"reason", one.reason}});
  }
  nlohmann::json page;
  page["pool"] = {
      {"region_bytes", pool.region_bytes()}, {"bytes", bytes}, {"regions", regions}, {"leases", book.size()}};
  page["quarantine"] = quarantine;
  return page;
}

nlohmann::json status_of_fabrics(const std::vector<fabric::Fabric*>& fabrics) {
  nlohmann::json list = nlohmann::json::array();
  for (const fabric::Fabric* const fabric : fabrics) {
    const fabric::FabricCounters counters = fabric->counters();
    list.push_back({{"provider", fabric->traits().provider},
                    {"domain", fabric->traits().domain},
                    {"endpoints", counters.endpoints},
                    {"addresses", counters.av_entries},
                    {"registrations", counters.registrations},
                    {"registered_bytes", counters.registered_bytes},
                    {"registration_failures", counters.registration_failures},
                    {"close_failures", counters.close_failures},
                    {"queue_errors", counters.cq_errors},
                    {"queue_lost", counters.queue_lost}});
  }
  return list;
}

nlohmann::json status_of_lanes(const LanePool& lanes, const Transfers& transfers) {
  const base::TimePoint now = base::Clock::steady().now();
  nlohmann::json list = nlohmann::json::array();
  for (const std::shared_ptr<Lane>& lane : lanes.lanes()) {
    const auto client = transfers.client_on(*lane);
    const auto server_id = lane->server_id();
    list.push_back({{"number", lane->number()},
                    {"domain", lane->fabric().traits().domain},
                    {"state", LaneRules::name(lane->state())},
                    {"seconds", base::seconds(now - lane->entered())},
                    {"age_seconds", base::seconds(now - lane->made())},
                    {"transfers", lane->transfers()},
                    {"user", lane->group().identity.user},
                    {"database", lane->group().identity.database},
                    {"server_id", server_id != 0 ? nlohmann::json(server_id) : nlohmann::json()},
                    {"client", client ? nlohmann::json(local_client(*client)) : nlohmann::json()}});
  }
  return list;
}

nlohmann::json status_of_audit(const memory::RegionAuditor& auditor) {
  const memory::RegionAuditor::Counts& counts = auditor.counts();
  return {{"leased", counts.leased},           {"settled", counts.settled}, {"given_back", counts.given_back},
          {"after_fence", counts.after_fence}, {"foreign", counts.foreign}, {"due", auditor.due().has_value()}};
}

}  // namespace keyferry::transfer
