#pragma once

#include <cstdint>
#include <string>

namespace keyferry::fabric {

/// Plain advice for what libfabric and the drivers under it answer with a bare number (R72, R91). Each begins with ";
/// ", or is empty. `registered`: bytes that this domain holds already.
std::string registration_advice(int code, std::uint64_t registered);
std::string endpoint_advice(int code);

}  // namespace keyferry::fabric
