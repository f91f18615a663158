// What clients send, however it is cut and however large arguments are taken, gives the same commands and errors (R9).
// Input: one byte that seeds the cuts, one that chooses limits, then the stream.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "tests/fuzz/resp/check.h"
#include "tests/unit/resp/request_driver.h"

namespace {

using keyferry::resp::RequestLimits;
using keyferry::resp::testing::BodyMode;
using keyferry::resp::testing::drive;
using keyferry::resp::testing::Outcome;

constexpr std::string_view kOutgrown = "Protocol error: command exceeds the buffer limit";

RequestLimits limits_from(uint8_t choice) {
  RequestLimits limits;
  limits.max_inline = (choice & 1) != 0 ? 24 : 200;
  limits.body_threshold = (choice & 2) != 0 ? 0 : 9;
  limits.max_bulk = (choice & 4) != 0 ? 40 : 4000;
  limits.max_args = (choice & 8) != 0 ? 3 : 1000;
  limits.max_command_bytes = (choice & 16) != 0 ? 60 : 100000;
  limits.authenticated = (choice & 32) == 0;
  return limits;
}

std::vector<size_t> random_cuts(uint8_t seed, size_t size) {
  std::minstd_rand random(seed + 1U);
  const size_t stride = 1 + random() % 40;
  std::vector<size_t> cuts;
  for (size_t at = random() % stride; at < size; at += 1 + random() % stride) cuts.push_back(at);
  return cuts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
  const RequestLimits limits = limits_from(data[1]);
  const std::vector<size_t> cuts = random_cuts(data[0], input.size());

  const Outcome buffered = drive(input, limits, BodyMode::kBuffer);
  const Outcome taken = drive(input, limits, BodyMode::kTake);
  const Outcome streamed = drive(input, limits, BodyMode::kStream);
  FUZZ_CHECK(drive(input, limits, BodyMode::kBuffer, cuts) == buffered);
  FUZZ_CHECK(drive(input, limits, BodyMode::kTake, cuts) == taken);
  FUZZ_CHECK(drive(input, limits, BodyMode::kStream, cuts) == streamed);
  if (buffered.error == kOutgrown) return 0;

  if (limits.max_command_bytes > input.size()) {
    FUZZ_CHECK(taken == buffered);
  } else {
    // A body that was taken leaves the buffer, so fewer of the later ones are offered for lack of room.
    FUZZ_CHECK(taken.commands == buffered.commands && taken.error == buffered.error);
  }
  FUZZ_CHECK(streamed.ends == buffered.ends);
  FUZZ_CHECK(streamed.error == buffered.error);
  FUZZ_CHECK(streamed.skips == buffered.skips);
  FUZZ_CHECK(streamed.commands.size() == buffered.commands.size());
  return 0;
}
