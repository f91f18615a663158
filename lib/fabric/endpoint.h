#pragma once

#include <rdma/fi_endpoint.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "fabric/domain.h"

namespace keyferry::fabric {

/// One endpoint with an address book of its own, so that a refused insert spoils nobody else's (blob-rdma spec C3). It
/// posts nothing: it is the target of the server's reads and writes. Made, used and closed by the fabric thread; the
/// Domain outlives it.
class TargetEndpoint {
 public:
  static base::Result<std::unique_ptr<TargetEndpoint>> open(Domain& domain);

  /// As fi_getname gave it.
  const std::string& address() const { return address_; }
  std::size_t peers() const { return peers_.size(); }

  /// Inserts all or none. An error code of libfabric in it means that the address book is spoilt: the endpoint is only
  /// good for closing.
  base::Result<void> insert(const std::vector<std::string>& addresses);
  /// The fence on software providers: after success nothing reaches memory through it. After a failure the domain stays
  /// open for good.
  base::Result<void> close();

 private:
  explicit TargetEndpoint(Domain& domain) : domain_(domain) {}
  base::Result<void> read_name();

  Domain& domain_;
  Fid<fid_av> book_;
  Fid<fid_ep> endpoint_;
  std::string address_;
  std::vector<fi_addr_t> peers_;
  bool spoilt_ = false;
};

}  // namespace keyferry::fabric
