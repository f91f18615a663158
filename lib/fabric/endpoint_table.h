#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "fabric/endpoint.h"
#include "fabric/fabric.h"

namespace keyferry::fabric {

/// All endpoints of one domain, by id, and the names of those closed lately. Fabric thread only, but for the readings,
/// which any thread may take.
class EndpointTable {
 public:
  explicit EndpointTable(Domain& domain) : domain_(domain) {}
  /// Closes what is still open.
  ~EndpointTable();
  EndpointTable(const EndpointTable&) = delete;
  EndpointTable& operator=(const EndpointTable&) = delete;

  /// An endpoint whose name is none that was closed in the last seconds: a server may still try the old one with keys
  /// that are still good (blob-rdma spec C9, R87).
  base::Result<Endpoint> open();
  base::Result<void> insert(EndpointId id, const std::vector<std::string>& addresses);
  base::Result<void> close(EndpointId id);

  /// Fills in what the table counts.
  void read(FabricCounters& counters) const;

 private:
  struct Former {
    std::string address;
    base::TimePoint closed;
  };

  bool lately_closed(const std::string& address);
  base::Error unknown(EndpointId id) const;

  Domain& domain_;
  std::unordered_map<EndpointId, std::unique_ptr<TargetEndpoint>> endpoints_;
  std::deque<Former> former_;
  std::uint64_t last_id_ = 0;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> peers_{0};
  std::atomic<std::uint64_t> close_failures_{0};
};

}  // namespace keyferry::fabric
