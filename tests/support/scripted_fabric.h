#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fabric/fabric.h"

namespace keyferry::test {

/// A Fabric without a network whose answers the test decides. Each kind of call is delivered (answered at once, the
/// default), held until the test lets it go, or failed. Everything that was called is recorded. Any thread may call any
/// member; answers are posted to the caller's executor as the real one does. The test plays the server by window():
/// bytes written there land in the memory that was registered.
class ScriptedFabric final : public fabric::Fabric {
 public:
  enum class Kind { kOpenEndpoint, kInsertPeers, kCloseEndpoint, kRegister, kDeregister };
  enum class Answer { kDeliver, kHold };

  /// One call as it was made; `number` counts from 1 over all kinds.
  struct Call {
    std::uint64_t number = 0;
    Kind kind{};
    fabric::EndpointId endpoint{};
    fabric::RegistrationId registration{};
    std::vector<std::string> addresses{};
    base::MutableBytes memory{};
  };

  ScriptedFabric() {
    traits_.provider = "scripted";
    traits_.library = "scripted 0.0";
    traits_.domain = "test";
    traits_.address_length = 16;
  }
  explicit ScriptedFabric(fabric::Traits traits) : traits_(std::move(traits)) {}

  /// How calls of this kind are answered from now on.
  void set_answer(Kind kind, Answer answer) {
    const std::lock_guard guard(mutex_);
    answers_[kind] = answer;
  }
  /// The next `times` calls of this kind fail. A failed closing leaves the endpoint or registration open, as lost for
  /// good.
  void fail_next(Kind kind, std::string message, int code = -5, int times = 1) {
    const std::lock_guard guard(mutex_);
    for (int i = 0; i < times; ++i) failures_[kind].push_back(base::Error{message, code});
  }
  /// The call of this kind that is number `which` (1 = the next) from now on fails, those before it don't.
  void fail_at(Kind kind, std::size_t which, std::string message, int code = -5) {
    const std::lock_guard guard(mutex_);
    failures_at_[kind][count_locked(kind) + which] = base::Error{std::move(message), code};
  }
  /// From now on each answer of this kind comes twice: a completion too many.
  void answer_twice(Kind kind) {
    const std::lock_guard guard(mutex_);
    twice_[kind] = true;
  }
  /// The next ids and keys begin `count` later, so that those of two fabrics differ.
  void skip_ids(std::uint64_t count) {
    const std::lock_guard guard(mutex_);
    next_id_ += count;
  }
  /// As after an overrun of the completion queue (R74).
  void lose_queue() {
    const std::lock_guard guard(mutex_);
    counters_.queue_lost = true;
    ++counters_.cq_errors;
  }
  /// Answers what is held of this kind, in order; returns how many that were.
  std::size_t release_held(Kind kind) {
    std::vector<Held> ready;
    {
      const std::lock_guard guard(mutex_);
      auto& held = held_[kind];
      for (Held& one : held) ready.push_back(std::move(one));
      held.clear();
    }
    for (Held& one : ready) one.back->post(std::move(one.answer));
    return ready.size();
  }
  std::size_t held(Kind kind) const {
    const std::lock_guard guard(mutex_);
    const auto found = held_.find(kind);
    return found == held_.end() ? 0 : found->second.size();
  }

  std::vector<Call> calls() const {
    const std::lock_guard guard(mutex_);
    return calls_;
  }
  std::size_t count(Kind kind) const {
    const std::lock_guard guard(mutex_);
    return count_locked(kind);
  }
  /// Blocks until `times` calls of this kind were made.
  void wait_for(Kind kind, std::size_t times) {
    std::unique_lock guard(mutex_);
    changed_.wait(guard, [&] { return count_locked(kind) >= times; });
  }
  /// Blocks until so many commands are owed.
  void wait_for_owed(std::uint64_t owed) {
    std::unique_lock guard(mutex_);
    changed_.wait(guard, [&] { return counters_.owed == owed; });
  }
  /// How often owed was lowered below zero: a mistake of the caller.
  std::uint64_t owed_underflows() const {
    const std::lock_guard guard(mutex_);
    return owed_underflows_;
  }

  /// The registered bytes that a server would reach at (rkey, addr, length); nullopt if it would get an error instead.
  std::optional<base::MutableBytes> window(std::uint64_t rkey, std::uint64_t addr, std::uint64_t length) const {
    const std::lock_guard guard(mutex_);
    const auto found = registrations_.find(fabric::RegistrationId{rkey});
    if (found == registrations_.end()) return std::nullopt;
    const base::MutableBytes memory = found->second;
    const std::uint64_t base = wire_base(memory);
    if (addr < base || addr - base > memory.size() || length > memory.size() - (addr - base)) return std::nullopt;
    return memory.subspan(addr - base, length);
  }

  const fabric::Traits& traits() const override { return traits_; }
  fabric::FabricCounters counters() const override {
    const std::lock_guard guard(mutex_);
    return counters_;
  }

  void open_endpoint(base::Executor& back, fabric::Callback<fabric::Endpoint> done) override {
    const std::lock_guard guard(mutex_);
    record({.kind = Kind::kOpenEndpoint});
    if (auto error = next_failure(Kind::kOpenEndpoint))
      return answer(Kind::kOpenEndpoint, back, std::move(done), *std::move(error));
    const fabric::EndpointId id{next_id_++};
    endpoints_[id] = 0;
    ++counters_.endpoints;
    answer(Kind::kOpenEndpoint, back, std::move(done), fabric::Endpoint{id, address_of(id)});
  }

  void insert_peers(fabric::EndpointId endpoint, std::vector<std::string> addresses, base::Executor& back,
                    fabric::Callback<void> done) override {
    const std::lock_guard guard(mutex_);
    record({.kind = Kind::kInsertPeers, .endpoint = endpoint, .addresses = addresses});
    if (auto error = next_failure(Kind::kInsertPeers))
      return answer(Kind::kInsertPeers, back, std::move(done), *std::move(error));
    const auto found = endpoints_.find(endpoint);
    if (found == endpoints_.end())
      return answer(Kind::kInsertPeers, back, std::move(done), base::Error{"no such endpoint", -2});
    for (const std::string& address : addresses) {
      if (address.size() == traits_.address_length) continue;
      return answer(Kind::kInsertPeers, back, std::move(done),
                    base::Error{"a peer's address has the wrong length", -22});
    }
    found->second += addresses.size();
    counters_.av_entries += addresses.size();
    answer(Kind::kInsertPeers, back, std::move(done), base::Result<void>());
  }

  void close_endpoint(fabric::EndpointId endpoint, base::Executor& back, fabric::Callback<void> done) override {
    const std::lock_guard guard(mutex_);
    record({.kind = Kind::kCloseEndpoint, .endpoint = endpoint});
    if (auto error = next_failure(Kind::kCloseEndpoint)) {
      ++counters_.close_failures;
      return answer(Kind::kCloseEndpoint, back, std::move(done), *std::move(error));
    }
    const auto found = endpoints_.find(endpoint);
    if (found == endpoints_.end())
      return answer(Kind::kCloseEndpoint, back, std::move(done), base::Error{"no such endpoint", -2});
    counters_.av_entries -= found->second;
    --counters_.endpoints;
    endpoints_.erase(found);
    answer(Kind::kCloseEndpoint, back, std::move(done), base::Result<void>());
  }

  void register_memory(base::MutableBytes memory, base::Executor& back,
                       fabric::Callback<fabric::Registration> done) override {
    const std::lock_guard guard(mutex_);
    record({.kind = Kind::kRegister, .memory = memory});
    if (auto error = next_failure(Kind::kRegister)) {
      ++counters_.registration_failures;
      return answer(Kind::kRegister, back, std::move(done), *std::move(error));
    }
    const std::uint64_t key = next_id_++;
    registrations_[fabric::RegistrationId{key}] = memory;
    ++counters_.registrations;
    counters_.registered_bytes += memory.size();
    answer(Kind::kRegister, back, std::move(done),
           fabric::Registration{fabric::RegistrationId{key}, key, wire_base(memory)});
  }

  void deregister(fabric::RegistrationId registration, base::Executor& back, fabric::Callback<void> done) override {
    const std::lock_guard guard(mutex_);
    record({.kind = Kind::kDeregister, .registration = registration});
    if (auto error = next_failure(Kind::kDeregister)) {
      ++counters_.close_failures;
      return answer(Kind::kDeregister, back, std::move(done), *std::move(error));
    }
    const auto found = registrations_.find(registration);
    if (found == registrations_.end())
      return answer(Kind::kDeregister, back, std::move(done), base::Error{"no such registration", -2});
    counters_.registered_bytes -= found->second.size();
    --counters_.registrations;
    registrations_.erase(found);
    answer(Kind::kDeregister, back, std::move(done), base::Result<void>());
  }

  void raise_owed() override {
    const std::lock_guard guard(mutex_);
    ++counters_.owed;
    changed_.notify_all();
  }
  void lower_owed() override {
    const std::lock_guard guard(mutex_);
    if (counters_.owed == 0) {
      ++owed_underflows_;
    } else {
      --counters_.owed;
    }
    changed_.notify_all();
  }

  /// The address that open_endpoint() answers for an id: like a sockaddr_in on 127.0.0.1 whose port is the id.
  std::string address_of(fabric::EndpointId id) const {
    std::string address(traits_.address_length, '\0');
    const char head[] = {2, 0, static_cast<char>(static_cast<std::uint64_t>(id) >> 8U), static_cast<char>(id), 127, 0,
                         0, 1};
    for (std::size_t i = 0; i < sizeof(head) && i < address.size(); ++i) address[i] = head[i];
    return address;
  }
  /// True makes registrations answer with the pointer as wire base, as efa-direct does; to be set before the first.
  void set_virtual_addresses(bool on) {
    const std::lock_guard guard(mutex_);
    virtual_addresses_ = on;
  }

 private:
  struct Held {
    base::Executor* back;
    base::Task answer;
  };

  void record(Call call) {
    call.number = calls_.size() + 1;
    calls_.push_back(std::move(call));
    changed_.notify_all();
  }
  std::size_t count_locked(Kind kind) const {
    std::size_t found = 0;
    for (const Call& call : calls_) found += call.kind == kind ? 1 : 0;
    return found;
  }
  std::optional<base::Error> next_failure(Kind kind) {
    auto& at = failures_at_[kind];
    if (const auto found = at.find(count_locked(kind)); found != at.end()) return found->second;
    auto& failures = failures_[kind];
    if (failures.empty()) return std::nullopt;
    base::Error error = std::move(failures.front());
    failures.pop_front();
    return error;
  }
  template <typename T>
  void answer(Kind kind, base::Executor& back, fabric::Callback<T> done, base::Result<T> result) {
    base::Task task = [done = std::move(done), result = std::move(result), twice = twice_[kind]]() mutable {
      if (twice) done(base::Result<T>(result));
      done(std::move(result));
    };
    if (answers_[kind] == Answer::kHold) {
      held_[kind].push_back(Held{&back, std::move(task)});
    } else {
      back.post(std::move(task));
    }
    changed_.notify_all();
  }
  template <typename T, typename U>
  void answer(Kind kind, base::Executor& back, fabric::Callback<T> done, U value) {
    answer(kind, back, std::move(done), base::Result<T>(std::move(value)));
  }
  std::uint64_t wire_base(base::MutableBytes memory) const {
    return virtual_addresses_ ? reinterpret_cast<std::uint64_t>(memory.data()) : 0;
  }

  fabric::Traits traits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  std::map<Kind, Answer> answers_;
  std::map<Kind, std::deque<base::Error>> failures_;
  std::map<Kind, std::map<std::size_t, base::Error>> failures_at_;
  std::map<Kind, bool> twice_;
  std::map<Kind, std::deque<Held>> held_;
  std::map<fabric::EndpointId, std::uint64_t> endpoints_;
  std::map<fabric::RegistrationId, base::MutableBytes> registrations_;
  fabric::FabricCounters counters_;
  std::uint64_t next_id_ = 1;
  std::uint64_t owed_underflows_ = 0;
  bool virtual_addresses_ = false;
};

}  // namespace keyferry::test
