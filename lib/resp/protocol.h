#pragma once

#include <cstdint>

namespace keyferry::resp {

/// Version of RESP that one connection speaks, as negotiated with HELLO; a connection starts with RESP2.
enum class Protocol : uint8_t { kResp2 = 2, kResp3 = 3 };

}  // namespace keyferry::resp
