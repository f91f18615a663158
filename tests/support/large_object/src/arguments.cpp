#include "arguments.h"

#include "error_texts.h"
#include "text.h"

namespace keyferry::large_object {

const char* parse_triples(Arguments arguments, std::vector<Triple>& triples) {
  constexpr std::size_t kMostTriples = 256;
  if (arguments.empty() || arguments.size() % 3 != 0) return kNotTriples;
  if (arguments.size() / 3 > kMostTriples) return kTooManyTriples;
  triples.reserve(arguments.size() / 3);
  for (std::size_t i = 0; i < arguments.size(); i += 3) {
    const auto rkey = parse_unsigned(text_of(arguments[i]));
    const auto address = parse_unsigned(text_of(arguments[i + 1]));
    const auto length = parse_unsigned(text_of(arguments[i + 2]));
    if (!rkey) return kBadRkey;
    if (!address) return kBadAddress;
    if (!length || *length == 0) return kBadAddressLength;
    triples.push_back({*rkey, *address, *length});
  }
  return nullptr;
}

}  // namespace keyferry::large_object
