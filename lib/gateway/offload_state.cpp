#include "gateway/offload_state.h"

#include <atomic>
#include <random>

namespace keyferry::gateway {

namespace {

std::uint64_t random_start() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

}  // namespace

std::string temporary_key(std::string_view key) {
  // Two gateways start at places that are far apart with near certainty.
  static std::atomic<std::uint64_t> next{random_start()};
  return std::string(key) + ":keyferry:" + std::to_string(next.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace keyferry::gateway
