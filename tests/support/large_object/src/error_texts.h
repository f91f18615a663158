#pragma once

namespace keyferry::large_object {

// Replies of blob-rdma spec sections 2 and 6.2. The texts under "chosen" are unknown for the real module, so a client
// must not match them.
inline constexpr char kNoFabric[] = "ERR RDMA provider unavailable on this instance";
inline constexpr char kBadAddressHex[] = "ERR invalid rdma address hex";
inline constexpr char kEfaAddressLength[] = "ERR rdma address must be 32 bytes";
inline constexpr char kEmptyAddress[] = "ERR rdma address must not be empty";
inline constexpr char kSessionExists[] = "ERR RDMA session already established";
inline constexpr char kNotTriples[] = "ERR memory address args must be rkey, addr, len triples";
inline constexpr char kTooManyTriples[] = "ERR too many memory addresses (max 256)";
inline constexpr char kBadRkey[] = "ERR invalid rkey";
inline constexpr char kBadAddress[] = "ERR invalid memory address";
inline constexpr char kBadAddressLength[] = "ERR invalid memory address len";
inline constexpr char kNoSession[] = "ERR no RDMA session (call BLOB.RDMA_HELLO first)";
inline constexpr char kWriteFailed[] = "ERR RDMA write failed";
inline constexpr char kReadFailed[] = "ERR RDMA read failed";
inline constexpr char kBadLength[] = "ERR invalid len";
inline constexpr char kZeroLength[] = "ERR object length must be > 0";
inline constexpr char kTooLarge[] = "ERR max object size exceeded";
inline constexpr char kOutOfMemory[] = "OOM command not allowed when used memory > 'maxmemory'.";
inline constexpr char kOutOfDisk[] = "OOM command not allowed when used disk space > 'disk-maxmemory'.";
inline constexpr char kStagingExhausted[] = "ERR disk staging buffer pool exhausted; retry later";
inline constexpr char kBadField[] = "ERR invalid information field";
inline constexpr char kInTransaction[] = "ERR Blocking module command called from transaction";
inline constexpr char kInScript[] = "ERR Blocking module command called from Lua script";

// Known from an older build only.
inline constexpr char kWindowTooSmall[] = "ERR client address space smaller than object length";

// Chosen.
inline constexpr char kChecksumDiffers[] = "ERR crc32c of the received bytes differs from CRC";
inline constexpr char kBadChecksum[] = "ERR invalid crc32c";
inline constexpr char kEmulatedAddressLength[] = "ERR rdma address must be 16 or 28 bytes";
inline constexpr char kCannotBlock[] = "ERR Blocking module command called from a client that cannot be blocked";

}  // namespace keyferry::large_object
