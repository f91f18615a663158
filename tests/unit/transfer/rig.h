#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "memory/pool_memory.h"
#include "tests/support/scripted_fabric.h"
#include "tests/support/scripted_server.h"
#include "transfer/checked_value.h"
#include "transfer/engine.h"
#include "transfer/state_machine.h"

namespace keyferry::test {

/// The test's own thread as an executor: what is posted runs inside until().
class Mailbox final : public base::Executor {
 public:
  void post(base::Task task) override {
    const std::lock_guard guard(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  /// Runs what comes until the condition holds.
  void until(const std::function<bool()>& condition) {
    while (!condition()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !tasks_.empty(); });
      base::Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<base::Task> tasks_;
};

inline std::string pattern(std::size_t length, unsigned seed) {
  std::string bytes(length, '\0');
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>((i * 31 + seed * 7 + i / 251) & 0xff);
  return bytes;
}

/// A HELLO's reply with so many services' addresses, as the scripted fabric takes them.
inline std::string hello_reply(std::size_t services = 2) {
  std::string reply = "*" + std::to_string(services) + "\r\n";
  for (std::size_t i = 0; i < services; ++i)
    reply += "$32\r\n0200a1b27f000001000000000000000" + std::to_string(i) + "\r\n";
  return reply;
}

/// The windows of a BLOB.RDMA_SET or _GET from argument `first` on.
struct NamedWindow {
  std::uint64_t rkey, addr, length;
};
inline std::vector<NamedWindow> windows_of(const Script::Command& command, std::size_t first) {
  std::vector<NamedWindow> list;
  for (std::size_t i = first; i + 2 < command.size(); i += 3) {
    list.push_back({std::stoull(command[i]), std::stoull(command[i + 1]), std::stoull(command[i + 2])});
  }
  return list;
}

/// A value that the server's thread sets and the test reads.
template <typename T>
class Shared {
 public:
  void set(T value) {
    const std::lock_guard guard(mutex_);
    value_ = std::move(value);
  }
  T get() const {
    const std::lock_guard guard(mutex_);
    return value_;
  }

 private:
  mutable std::mutex mutex_;
  T value_{};
};

/// What a server's DMA engine does: reads or writes the windows in order.
inline std::string read_windows(const ScriptedFabric& fabric, const std::vector<NamedWindow>& windows) {
  std::string bytes;
  for (const NamedWindow& one : windows) {
    const auto memory = fabric.window(one.rkey, one.addr, one.length);
    if (!memory) return "no such window";
    bytes += base::as_text(*memory);
  }
  return bytes;
}
inline bool write_windows(const ScriptedFabric& fabric, const std::vector<NamedWindow>& windows,
                          std::string_view bytes) {
  for (const NamedWindow& one : windows) {
    const std::string_view part = bytes.substr(0, one.length);
    const auto memory = fabric.window(one.rkey, one.addr, part.size());
    if (!memory) return false;
    std::memcpy(memory->data(), part.data(), part.size());
    bytes.remove_prefix(part.size());
  }
  return bytes.empty();
}
inline std::string pair_reply(std::string_view bytes) {
  return "*2\r\n:" + std::to_string(bytes.size()) + "\r\n:" + std::to_string(base::crc32c(base::as_bytes(bytes))) +
         "\r\n";
}
/// Answers a GET by writing `bytes` into its windows.
inline Script::Answer give(const ScriptedFabric& fabric, std::string bytes) {
  return [&fabric, bytes](const Script::Command& command) {
    return write_windows(fabric, windows_of(command, 2), bytes) ? pair_reply(bytes)
                                                                : std::string("-ERR RDMA write failed\r\n");
  };
}
/// Answers whatever comes with these bytes.
inline Script::Answer say(std::string bytes) {
  return [bytes](const Script::Command&) { return bytes; };
}

/// An engine over a scripted fabric and a scripted server, on a thread of its own. The pool has `kRegions` regions of 4
/// KiB.
class Rig {
 public:
  static constexpr std::uint64_t kRegion = 4096;
  static constexpr std::uint64_t kRegions = 8;

  using Scripts = std::function<std::vector<Script>(ScriptedFabric&)>;
  using Adjust = std::function<void(transfer::EngineOptions&)>;

  explicit Rig(const Scripts& scripts, const Adjust& adjust = {}, fabric::Traits traits = small_traits(),
               std::vector<fabric::Fabric*> instead = {}, const memory::PoolOptions& pool = pool_options())
      : fabric(std::move(traits)), server(scripts(fabric)), memory(memory::PoolMemory::create(pool)) {
    transfer::EngineOptions options;
    options.connect.address = {"127.0.0.1", server.port()};
    options.lanes = 1;
    options.warm = 1;
    // On a slow machine nothing is asked that a script does not expect.
    options.lane_check = options.probe_after = std::chrono::hours(1);
    if (adjust) adjust(options);
    if (instead.empty()) instead.push_back(&fabric);
    engine = std::make_unique<transfer::Engine>(loop, options, std::move(instead), "", memory, registry);
    thread_ = std::thread([this] { loop.run("engine"); });
  }
  explicit Rig(std::vector<Script> scripts, const Adjust& adjust = {}, fabric::Traits traits = small_traits(),
               std::vector<fabric::Fabric*> instead = {}, const memory::PoolOptions& pool = pool_options())
      : Rig([&](ScriptedFabric&) { return std::move(scripts); }, adjust, std::move(traits), std::move(instead), pool) {}
  ~Rig() {
    if (thread_.joinable()) end_loop();
    EXPECT_EQ(transfer::illegal_transitions(), illegal_before_);
  }

  static fabric::Traits small_traits() {
    fabric::Traits traits;
    traits.provider = "scripted";
    traits.address_length = 16;
    return traits;
  }
  static memory::PoolOptions pool_options() {
    memory::PoolOptions options;
    options.bytes = kRegions * kRegion;
    options.region_bytes = kRegion;
    options.huge_pages = memory::PoolOptions::HugePages::kNever;
    return options;
  }
  /// What a lane's connection plays first.
  static Script lane(std::size_t services = 2) {
    return Script().handshake().answer([services](const Script::Command&) { return hello_reply(services); });
  }

  void start() {
    bool ready = false;
    engine->start(mail, [&] { ready = true; });
    mail.until([&] { return ready; });
  }
  void stop() {
    bool stopped = false;
    engine->stop(mail, [&] { stopped = true; });
    mail.until([&] { return stopped; });
  }
  void end_loop() {
    loop.stop();
    thread_.join();
  }

  /// For a client of its own unless one is named.
  base::Result<transfer::Loan> try_lease(std::uint64_t length, bool patient = true, std::uint64_t client = 0) {
    if (client == 0) client = next_client_++;
    std::optional<base::Result<transfer::Loan>> result;
    engine->lease(client, length, patient, mail,
                  [&](base::Result<transfer::Loan> one) { result.emplace(std::move(one)); });
    mail.until([&] { return result.has_value(); });
    return *std::move(result);
  }
  transfer::Loan lease(std::uint64_t length) { return std::move(try_lease(length).value()); }
  transfer::Loan lease_with(const std::string& bytes) {
    transfer::Loan loan = lease(bytes.size());
    std::size_t at = 0;
    for (const base::MutableBytes span : loan.spans()) {
      std::memcpy(span.data(), bytes.data() + at, span.size());
      at += span.size();
    }
    return loan;
  }
  static std::string bytes_of(const transfer::Loan& loan) {
    std::string bytes;
    for (const base::MutableBytes span : loan.spans()) bytes += base::as_text(span);
    return bytes;
  }

  static std::string bytes_of(const transfer::FetchResult& result) {
    if (!result.value) return "no value: " + result.text;
    std::string bytes;
    for (const base::ConstBytes span : result.value->spans()) bytes += base::as_text(span);
    return bytes;
  }

  using SetSlot = std::shared_ptr<std::optional<transfer::SetResult>>;
  /// A GET of one client, and its answer once that is here.
  class Asked final : public transfer::FetchSink {
   public:
    void fetch_leased() override {}
    void fetched(transfer::FetchResult one) override { result_.emplace(std::move(one)); }
    bool has_value() const { return result_.has_value(); }
    transfer::FetchResult& operator*() { return *result_; }
    std::uint64_t ticket = 0;

   private:
    std::optional<transfer::FetchResult> result_;
  };
  using GetSlot = std::shared_ptr<Asked>;
  SetSlot begin_set(const std::string& key, transfer::Loan loan, std::uint32_t crc = 0,
                    transfer::StoreExtras extras = {}, upstream::Identity identity = {}) {
    auto slot = std::make_shared<std::optional<transfer::SetResult>>();
    engine->set(
        key, crc, std::move(loan), mail, [slot](transfer::SetResult result) { slot->emplace(std::move(result)); },
        std::move(extras), std::move(identity));
    return slot;
  }
  /// By a client of its own; the window is of whole regions.
  GetSlot begin_get(const std::string& key, std::uint64_t length, upstream::Identity identity = {}) {
    auto slot = std::make_shared<Asked>();
    slot->ticket = engine->fetch({next_client_++, std::move(identity), key, length}, mail, slot);
    return slot;
  }
  template <typename Slot>
  auto result_of(const Slot& slot) {
    mail.until([&] { return slot->has_value(); });
    return std::move(**slot);
  }
  transfer::SetResult set(const std::string& key, const std::string& bytes, transfer::StoreExtras extras = {}) {
    return result_of(begin_set(key, lease_with(bytes), base::crc32c(base::as_bytes(bytes)), std::move(extras)));
  }
  transfer::FetchResult get(const std::string& key, std::uint64_t length) { return result_of(begin_get(key, length)); }
  transfer::FetchResult get_as(const upstream::Identity& identity, const std::string& key, std::uint64_t length) {
    return result_of(begin_get(key, length, identity));
  }

  nlohmann::json status() {
    std::optional<std::string> text;
    engine->status(mail, [&](std::string page) { text = std::move(page); });
    mail.until([&] { return text.has_value(); });
    return nlohmann::json::parse(*text);
  }
  std::uint64_t regions(const char* state) { return status()["pool"]["regions"][state].get<std::uint64_t>(); }
  /// Asks the engine until it holds; each round is a message there and back.
  nlohmann::json until_status(const std::function<bool(const nlohmann::json&)>& condition) {
    for (;;) {
      nlohmann::json page = status();
      if (condition(page)) return page;
      std::this_thread::yield();
    }
  }
  void until_regions(const char* state, std::uint64_t count) {
    until_status([&](const nlohmann::json& page) { return page["pool"]["regions"][state] == count; });
  }
  bool metric_has(const std::string& line) const { return registry.scrape().find(line) != std::string::npos; }

  ScriptedFabric fabric;
  ScriptedServer server;
  memory::PoolMemory memory;
  telemetry::Registry registry;
  base::Loop loop;
  Mailbox mail;
  std::unique_ptr<transfer::Engine> engine;

 private:
  std::thread thread_;
  std::uint64_t next_client_ = 1000;
  std::uint64_t illegal_before_ = transfer::illegal_transitions();
};

}  // namespace keyferry::test
