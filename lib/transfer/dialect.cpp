#include "transfer/dialect.h"

#include <array>

#include "transfer/text_match.h"

namespace keyferry::transfer {

namespace {

constexpr std::array kDialects{
    Dialect{"blob_rdma", "BLOB.RDMA_HELLO", "BLOB.RDMA_SET", "BLOB.RDMA_GET", true},
    Dialect{"blob", "BLOB.HELLO", "BLOB.SET", "BLOB.GET", false},
};

constexpr std::array kErrors{
    KnownError{"NOPERM", "'blob.", Answer::kRepeat, "noperm", Rma::kSettled},
    KnownError{"NOPERM", "", Answer::kRefused, "noperm", Rma::kSettled},
    KnownError{"NOAUTH ", "", Answer::kRefused, "noauth", Rma::kSettled},
    KnownError{"WRONGTYPE ", "", Answer::kRefused, "wrongtype", Rma::kSettled},
    KnownError{"OOM ", "", Answer::kRefused, "oom", Rma::kSettled},
    KnownError{"READONLY ", "", Answer::kRefused, "replica", Rma::kSettled},
    KnownError{"LOADING ", "", Answer::kRefused, "loading", Rma::kSettled},
    KnownError{"MOVED ", "", Answer::kRefused, "moved", Rma::kSettled},
    KnownError{"ASK ", "", Answer::kRefused, "moved", Rma::kSettled},
    KnownError{"TRYAGAIN ", "", Answer::kRefused, "try_again", Rma::kSettled},
    KnownError{"CROSSSLOT ", "", Answer::kRefused, "cross_slot", Rma::kSettled},
    KnownError{"CLUSTERDOWN ", "", Answer::kRefused, "cluster_down", Rma::kSettled},
    KnownError{"MASTERDOWN ", "", Answer::kRefused, "master_down", Rma::kSettled},
    KnownError{"MISCONF ", "", Answer::kRefused, "misconf", Rma::kSettled},
    KnownError{"NOREPLICAS ", "", Answer::kRefused, "no_replicas", Rma::kSettled},
    KnownError{"BUSY ", "", Answer::kRefused, "busy", Rma::kSettled},
    KnownError{"ERR max object size exceeded", "", Answer::kRefused, "size", Rma::kSettled},
    KnownError{"ERR object length must be", "", Answer::kRefused, "size", Rma::kSettled},
    KnownError{"ERR DRAM buffer pool exhausted", "", Answer::kRefused, "oom", Rma::kSettled},
    KnownError{"ERR NVMe disk capacity exceeded", "", Answer::kRefused, "oom", Rma::kSettled},
    // Buffers are taken before the first piece, and the commit comes after the last (blob-rdma spec 3.2, 3.3).
    KnownError{"ERR disk staging buffer pool exhausted", "", Answer::kRefused, "staging", Rma::kSettled},
    KnownError{"ERR failed to set key", "", Answer::kRefused, "commit", Rma::kSettled},
    // The disk works chunk by chunk beside the fabric.
    KnownError{"ERR disk read failed", "", Answer::kRefused, "disk", Rma::kMayRun},
    KnownError{"ERR disk write failed", "", Answer::kRefused, "disk", Rma::kMayRun},
    // An older build reads CRC as an rkey (C7).
    KnownError{"ERR memory address args must be", "", Answer::kWithoutCrc, "triples", Rma::kSettled},
    KnownError{"ERR invalid rkey", "", Answer::kWithoutCrc, "triples", Rma::kSettled},
    KnownError{"ERR too many memory addresses", "", Answer::kRepeat, "triples", Rma::kSettled},
    KnownError{"ERR invalid memory address", "", Answer::kRepeat, "triples", Rma::kSettled},
    KnownError{"ERR invalid len", "", Answer::kRepeat, "triples", Rma::kSettled},
    KnownError{"ERR wrong number of arguments", "", Answer::kRepeat, "dialect", Rma::kSettled},
    KnownError{"ERR client address space smaller", "", Answer::kRepeat, "window", Rma::kSettled},
    KnownError{"ERR no RDMA session", "", Answer::kReplaceLane, "no_session", Rma::kSettled},
    // HELLO's, of both generations.
    KnownError{"ERR ", "session already established", Answer::kUnsettled, "hello_failed", Rma::kSettled},
    KnownError{"ERR RDMA provider unavailable", "", Answer::kReplaceLane, "server_no_fabric", Rma::kSettled},
    KnownError{"ERR EFA unavailable", "", Answer::kReplaceLane, "server_no_fabric", Rma::kSettled},
    KnownError{"ERR session create", "", Answer::kReplaceLane, "session_refused", Rma::kSettled},
    KnownError{"ERR invalid rdma address", "", Answer::kReplaceLane, "address_refused", Rma::kSettled},
    KnownError{"ERR rdma address must", "", Answer::kReplaceLane, "address_refused", Rma::kSettled},
    KnownError{"ERR invalid peer address", "", Answer::kReplaceLane, "address_refused", Rma::kSettled},
    KnownError{"ERR peer address must", "", Answer::kReplaceLane, "address_refused", Rma::kSettled},
    KnownError{"ERR RDMA ", "", Answer::kRepeat, "rdma_error", Rma::kMayRun},
    KnownError{"ERR ", "unknown command", Answer::kReplaceLane, "no_module", Rma::kSettled},
    KnownError{"ERR ", "unknown or disabled command", Answer::kReplaceLane, "no_module", Rma::kSettled},
    // The texts of a refused checksum are not published (blob-rdma spec 2.3); these words only give the reason a better
    // name.
    KnownError{"ERR ", "checksum", Answer::kRepeat, "checksum", Rma::kMayRun},
    KnownError{"ERR ", "crc", Answer::kRepeat, "checksum", Rma::kMayRun},
    KnownError{"", "", Answer::kRepeat, "unknown_error", Rma::kMayRun},
};

}  // namespace

std::span<const Dialect> dialects() {
  return kDialects;
}

const KnownError& known_error(std::string_view text) {
  for (const KnownError& row : kErrors) {
    if (text.starts_with(row.start) && contains_lower(text, row.inside)) return row;
  }
  return kErrors.back();
}

bool is_unknown(const KnownError& error) {
  return &error == &kErrors.back();
}

}  // namespace keyferry::transfer
