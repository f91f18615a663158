#pragma once

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/executor.h"
#include "fabric/fabric.h"

namespace keyferry::test {

/// An executor whose thread is the one that waits for an answer.
class WaitingExecutor final : public base::Executor {
 public:
  void post(base::Task task) override {
    // Notified under the lock: the one who waits may destroy this as soon as it has the task.
    const std::lock_guard guard(mutex_);
    tasks_.push_back(std::move(task));
    posted_.notify_one();
  }
  template <typename Done>
  void run_until(Done done) {
    while (!done()) {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return !tasks_.empty(); });
      base::Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<base::Task> tasks_;
};

/// Makes one call of a Fabric and waits for its answer.
template <typename T, typename Call>
base::Result<T> answer_of(Call call) {
  WaitingExecutor back;
  std::optional<base::Result<T>> answer;
  call(back, fabric::Callback<T>([&](base::Result<T> result) { answer = std::move(result); }));
  back.run_until([&] { return answer.has_value(); });
  return *std::move(answer);
}

inline base::Result<fabric::Endpoint> open_endpoint(fabric::Fabric& fabric) {
  return answer_of<fabric::Endpoint>([&](auto& back, auto done) { fabric.open_endpoint(back, std::move(done)); });
}
inline base::Result<void> insert_peers(fabric::Fabric& fabric, fabric::EndpointId id,
                                       std::vector<std::string> addresses) {
  return answer_of<void>(
      [&](auto& back, auto done) { fabric.insert_peers(id, std::move(addresses), back, std::move(done)); });
}
inline base::Result<void> close_endpoint(fabric::Fabric& fabric, fabric::EndpointId id) {
  return answer_of<void>([&](auto& back, auto done) { fabric.close_endpoint(id, back, std::move(done)); });
}
inline base::Result<fabric::Registration> register_memory(fabric::Fabric& fabric, base::MutableBytes memory) {
  return answer_of<fabric::Registration>(
      [&](auto& back, auto done) { fabric.register_memory(memory, back, std::move(done)); });
}
inline base::Result<void> deregister(fabric::Fabric& fabric, fabric::RegistrationId id) {
  return answer_of<void>([&](auto& back, auto done) { fabric.deregister(id, back, std::move(done)); });
}

/// Bytes that differ from place to place and from seed to seed.
inline std::vector<std::byte> pattern(std::size_t length, std::uint32_t seed) {
  std::vector<std::byte> bytes(length);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (std::byte& byte : bytes) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    byte = static_cast<std::byte>(state);
  }
  return bytes;
}

}  // namespace keyferry::test
