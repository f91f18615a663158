#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keyferry::fabric {

/// What is wrong with a peer's address beside one's own, as one message; empty if it may be inserted. fi_av_insert
/// reads as many bytes as the format has and is spoilt for good by another family, so this comes first (blob-rdma
/// spec 4.8). `format`: fi_info::addr_format.
std::string address_mismatch(std::string_view peer, std::string_view own, std::uint32_t format);

/// True for a socket address without a host or a port: a name that no peer can reach (blob-rdma spec 4.6).
bool unreachable(std::string_view address, std::uint32_t format);

/// Two names of one queue pair or listening socket: on efa the first 18 bytes tell, the rest is not stable (blob-rdma
/// spec 4.5).
bool same_endpoint(std::string_view first, std::string_view second, std::uint32_t format);

}  // namespace keyferry::fabric
