#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace keyferry::upstream {

/// Whether ordinary commands of a node go by RDMA just now: one per node, shared by all its workers' connections. It
/// starts out well. A failed dial makes it unwell; then connections take the other transport at once, and one probe
/// at a time, held back from 1 s doubling to 30 s, finds out when RDMA is back (R66). Any thread may call it: a mutex
/// guards all, held for a few instructions, at connects and once a second only.
class RdmaRoute {
 public:
  static constexpr base::Duration kFirstWait = std::chrono::seconds(1);
  static constexpr base::Duration kLongestWait = std::chrono::seconds(30);

  /// `strict`: nothing else is ever used instead (upstream.require).
  explicit RdmaRoute(bool strict) : strict_(strict) {}

  bool strict() const { return strict_; }
  bool well() const;
  /// A dial over RDMA has ended.
  void succeeded();
  void failed(const std::string& why, base::TimePoint now);
  /// True for one caller each time a probe is due; it must end in succeeded() or failed().
  bool claim_probe(base::TimePoint now);

  /// What the server's version is. Before 9.1 Valkey hangs or crashes over RDMA with I/O threads (R59, R60): the route
  /// is not well as long as such a server is there, unless it is strict. Other texts than a version say nothing.
  void server_is(std::string_view version);
  /// What is wrong with that version over RDMA: empty if nothing is known, nothing if it is no version.
  static std::optional<std::string> fault_of(std::string_view version);
  bool faulty() const;

  struct State {
    bool well = true;
    /// Why the last dial failed; empty while well.
    std::string reason;
    /// How often it went from well to unwell.
    std::uint64_t falls = 0;
  };
  State state() const;

 private:
  const bool strict_;
  mutable std::mutex mutex_;
  State state_;
  void fall(const std::string& why);

  bool faulty_ = false;
  base::Duration wait_ = kFirstWait;
  base::TimePoint next_{};
  bool probing_ = false;
};

}  // namespace keyferry::upstream
