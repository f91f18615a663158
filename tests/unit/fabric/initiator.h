#pragma once

#include <rdma/fi_rma.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "fabric/domain.h"

namespace keyferry::test {

/// The server's half of the fabric, as small as it can be: posts fi_writemsg with FI_DELIVERY_COMPLETE and fi_read as
/// the published server library does (blob-rdma spec 4.8) and waits for completions by reading its queue without pause.
/// One thread at a time.
class Initiator {
 public:
  /// Where a piece goes to or comes from.
  struct Window {
    std::uint64_t rkey = 0;
    std::uint64_t addr = 0;
    base::MutableBytes local;
  };

  /// `library`: file of the libfabric to use. Throws std::runtime_error.
  explicit Initiator(const std::string& library);
  ~Initiator();

  const std::string& address() const { return address_; }
  fi_addr_t add_peer(const std::string& address);

  /// Posts every piece, in order, and waits for all. 0, or the first failed piece's libfabric error (positive).
  int write(fi_addr_t peer, const std::vector<Window>& pieces) { return transfer(peer, pieces, true); }
  int read(fi_addr_t peer, const std::vector<Window>& pieces) { return transfer(peer, pieces, false); }
  /// One attempt to post a byte to somebody who is not connected yet, which begins a connection and carries it on.
  void knock(fi_addr_t peer);

 private:
  struct Piece {
    fi_context2 context{};
    bool done = false;
    int error = 0;
  };

  int transfer(fi_addr_t peer, const std::vector<Window>& pieces, bool write);
  ssize_t post(fi_addr_t peer, const Window& window, bool write, Piece& piece);
  void poll();

  fabric::Info info_;
  fabric::Fid<fid_fabric> fabric_;
  fabric::Fid<fid_domain> domain_;
  fabric::Fid<fid_cq> queue_;
  fabric::Fid<fid_av> book_;
  fabric::Fid<fid_ep> endpoint_;
  std::string address_;
};

}  // namespace keyferry::test
