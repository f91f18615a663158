#pragma once

#include <cstddef>
#include <cstdint>

/// The passive side of a transfer as a C library for the tests in Python: one endpoint, its address, its registrations,
/// and a thread that reads its completion queue while that is wanted (blob-rdma spec 4.3, 4.4, 4.7). It knows no RESP.
/// All calls from one thread.
extern "C" {

struct FabricClient;

/// Null, and the reason in `problem`.
FabricClient* fabric_client_open(const char* libfabric, const char* bind, char* problem, std::size_t problem_size);

/// Copies the endpoint's address; returns its length.
std::size_t fabric_client_address(const FabricClient* client, unsigned char* out, std::size_t size);

/// What fi_av_insert returns; the address must have been checked.
int fabric_client_insert(FabricClient* client, const unsigned char* address);

/// Registers memory that stays the caller's. 0, or a negative libfabric code; `base` is what an offset into the region
/// is added to.
int fabric_client_register(FabricClient* client, void* memory, std::size_t size, std::uint64_t* key,
                           std::uint64_t* base);

/// Nothing moves while nobody polls.
void fabric_client_poll(FabricClient* client, int on);

/// Ends the endpoint and nothing else: the fence of software providers.
void fabric_client_close_endpoint(FabricClient* client);

void fabric_client_close(FabricClient* client);

/// CRC-32C by a table of its own, so that it cannot share a mistake with the module.
std::uint32_t fabric_client_crc32c(const unsigned char* bytes, std::size_t size);
}
