#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace keyferry::transfer {

/// Which keys count as immutable (transfer.immutable), and whether any of them may have been written lately through
/// this gateway. A flight that was written to a lane may be joined only while the state() of its key is what it was
/// just before the flight's command was written.
///
/// Workers write (touch), each from its own thread; the engine's thread reads (state). Both by atomic counters that
/// only grow, so that a command that writes waits for nobody. Why that is enough:
///   - A worker touches the key's mark before the first byte of a write is handed to a connection, and again before
///     the first byte of its reply is handed to its client.
///   - A client that knows of a write has read its reply, or was told by one that has. The second touch came before
///   that
///     in the order of all atomic operations, so every GET sent on that knowledge finds another state than a flight
///     whose command left before the reply came, and does not join it, even if the server ran the flight's command
///     first and the write was forwarded earlier. A flight whose command left after the reply was run after the write.
///   - The first touch is for GETs that come while the write is under way: they don't join what began before it.
///   - Flights that were not written to a lane yet need none of this: the server runs them after whoever joins has
///   asked.
/// A write whose client went away before its reply came is touched a second time then, which is the last time.
///
/// Keys share marks by hash, and one name in all databases shares one, whoever writes it (MOVE, COPY and SWAPDB reach
/// into other databases): so a foreign key's write may keep a GET from joining, which costs a transfer, never a stale
/// byte.
class WriteMarks {
 public:
  /// What a command may write. A plain value.
  enum class Mark : std::uint32_t { kNothing = 0, kEverything = 1 };

  /// `immutable`: key prefixes; an empty list means that nothing is marked and nothing may be joined on a lane.
  explicit WriteMarks(std::vector<std::string> immutable) : prefixes_(std::move(immutable)) {}
  WriteMarks(const WriteMarks&) = delete;
  WriteMarks& operator=(const WriteMarks&) = delete;

  bool any_immutable() const { return !prefixes_.empty(); }
  bool immutable(std::string_view key) const;
  /// For a command that writes at most keys that are among its arguments: one immutable key's mark, kNothing if none of
  /// them is one, kEverything if there are several.
  Mark mark_of(std::span<const std::string_view> args) const;

  void touch(Mark mark);
  std::uint64_t state(std::string_view key) const;

 private:
  static constexpr std::size_t kStripes = 4096;
  static std::size_t stripe_of(std::string_view key);

  const std::vector<std::string> prefixes_;
  std::atomic<std::uint64_t> everything_{0};
  std::array<std::atomic<std::uint64_t>, kStripes> stripes_{};
};

}  // namespace keyferry::transfer
