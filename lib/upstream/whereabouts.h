#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// Where a primary is asked for (upstream.sentinels). Plain value.
struct SentinelOptions {
  /// At least one.
  std::vector<Address> sentinels;
  /// The name under which they watch the primary.
  std::string master;
  std::optional<TlsOptions> tls{};
  std::string user = "default";
  /// Null: no AUTH is sent to them.
  std::shared_ptr<const Credentials> credentials{};
};

/// Where the node is: one per node, shared by all who connect to it. A connection notes number() when it is dialled;
/// once the number has grown it may lead to the wrong server and is given up as soon as nothing is owed on it. It grows
/// when a server said READONLY (R46), and when sentinels name another primary. With sentinels it also keeps what they
/// said last. Any thread may call it: the number is an atomic, a mutex guards the rest for a few instructions, at
/// connects, once a second and at each READONLY.
class Whereabouts {
 public:
  /// How long what a sentinel said is taken for true without asking again.
  static constexpr base::Duration kFresh = std::chrono::seconds(2);
  /// Between two doubts that count, while they go on: a server that stays read-only is not dialled in a loop.
  static constexpr base::Duration kFirstWait = std::chrono::seconds(1);
  static constexpr base::Duration kLongestWait = std::chrono::seconds(30);

  explicit Whereabouts(std::optional<SentinelOptions> sentinels = {}) : sentinels_(std::move(sentinels)) {}

  /// Null: the node has a fixed name.
  const SentinelOptions* sentinels() const { return sentinels_ ? &*sentinels_ : nullptr; }
  std::uint64_t number() const { return number_.load(std::memory_order_acquire); }

  /// A server answered READONLY. True if the number has grown for it.
  bool doubt(base::TimePoint now);

  /// The primary, if a sentinel named it within kFresh and nothing has spoken against it.
  std::optional<Address> known(base::TimePoint now) const;
  /// Which sentinel to ask first.
  std::size_t first() const;
  /// A sentinel that was asked at `asked` named the primary. True if it is another one than before; one that was asked
  /// before the last change says what was, and is not listened to.
  bool told(const Address& primary, std::size_t by, base::TimePoint asked, base::TimePoint now);
  /// What was named can't be reached or is no primary: the next one who connects asks again, and another sentinel
  /// first.
  void wrong(const Address& primary);

  struct State {
    /// What was named last; nothing before the first answer, or without sentinels.
    std::optional<Address> primary;
    /// How often it grew, by cause.
    std::uint64_t doubts = 0, moves = 0;
  };
  State state() const;

 private:
  const std::optional<SentinelOptions> sentinels_;
  std::atomic<std::uint64_t> number_{1};
  mutable std::mutex mutex_;
  State state_;
  base::Duration wait_ = kFirstWait;
  std::optional<base::TimePoint> doubted_;
  std::optional<base::TimePoint> told_;
  std::optional<base::TimePoint> moved_;
  std::size_t by_ = 0;
};

}  // namespace keyferry::upstream
