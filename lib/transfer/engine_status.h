#pragma once

#include <nlohmann/json_fwd.hpp>

#include <vector>

#include "fabric/fabric.h"
#include "memory/pool.h"
#include "memory/region_auditor.h"
#include "transfer/lane_pool.h"
#include "transfer/lease_book.h"
#include "transfer/transfers.h"

namespace keyferry::transfer {

/// The engine's part of /status.json. Engine's thread only.
/// {"pool": {"region_bytes", "bytes": {state: n}, "regions": {state: n}, "leases": n}, "quarantine": [{"bytes",
/// "seconds", "reason"}]}
nlohmann::json status_of_pool(const memory::Pool& pool, const LeaseBook& book);
/// [{"provider", "domain", "endpoints", "addresses", "registrations", "registered_bytes", "registration_failures",
/// "close_failures", "queue_errors", "queue_lost"}]
nlohmann::json status_of_fabrics(const std::vector<fabric::Fabric*>& fabrics);
/// [{"number", "domain", "state", "seconds", "age_seconds", "transfers", "user", "database", "server_id", "client"}];
/// `seconds`: in this state; an empty user is the configuration's; `server_id`: of its connection, `client`: the local
/// one that it carries something for, or null.
nlohmann::json status_of_lanes(const LanePool& lanes, const Transfers& transfers);
/// {"leased", "settled", "given_back", "after_fence", "foreign"}: checks of regions, and those that found a foreign
/// byte;
/// {"due"}: whether a check after a fence is to come.
nlohmann::json status_of_audit(const memory::RegionAuditor& auditor);

}  // namespace keyferry::transfer
