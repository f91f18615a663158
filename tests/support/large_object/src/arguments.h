#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pieces.h"
#include "valkey_api.h"

namespace keyferry::large_object {

/// A command's words; index 0 is its name. Valid while the command runs.
using Arguments = std::span<ValkeyModuleString*>;

inline std::string_view text_of(const ValkeyModuleString* argument) {
  std::size_t size = 0;
  const char* data = ValkeyModule_StringPtrLen(argument, &size);
  return {data, size};
}

/// Parses what must be 1 to 256 triples; nullptr, or the error reply.
const char* parse_triples(Arguments arguments, std::vector<Triple>& triples);

}  // namespace keyferry::large_object
