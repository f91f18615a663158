#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"

namespace keyferry::memory {

struct Lease;

/// Proves in tests that no byte of the pool is written by anyone whose turn it is not (R88, promise 2): late writes of
/// a fabric after a fence, a copy beyond a lease's end, memory lent twice. The Pool tells it of every change of its
/// books; it fills and checks the memory itself, which costs about two passes over every lease, so only a test asks for
/// it (EngineOptions::audit_pool). Owner of a byte at each check: nobody but the books, so there is nothing to lock.
/// Engine's thread only.
///
///   a region becomes free     filled with a pattern of its index and generation
///   it is leased              the pattern must be whole: nobody wrote after the free. Then filled with the owner's
///                             pattern, of the lease and the region
///   a reply settles it        its checksum is taken: from here on its bytes are only read
///   the lease is given back   the checksum must be the same, and what lies behind the lease's length must still be the
///                             owner's pattern
///   2 s after a fence         regions that came back by a fence and are still free are checked once more
class RegionAuditor {
 public:
  static constexpr base::Duration kAfterFence = std::chrono::seconds(2);

  struct Counts {
    std::uint64_t leased = 0;
    std::uint64_t given_back = 0;
    std::uint64_t settled = 0;
    std::uint64_t after_fence = 0;
    std::uint64_t foreign = 0;
  };

  /// `report` gets a sentence for each region that has a foreign byte.
  RegionAuditor(base::MutableBytes memory, std::uint64_t region_bytes, const base::Clock& clock,
                std::function<void(std::string)> report);

  void became_free(std::uint32_t region);
  void leased(const Lease& lease);
  void in_flight(const Lease& lease);
  void settled(const Lease& lease);
  void quarantined(const Lease& lease);
  /// Before its regions become free, or wait for new registrations.
  void given_back(const Lease& lease);

  /// When check_fenced() is to be called next.
  std::optional<base::TimePoint> due() const;
  void check_fenced();

  const Counts& counts() const { return counts_; }

 private:
  struct Region {
    std::uint64_t generation = 0;
    bool free = false;
    /// It was quarantined and has yet to become free.
    bool fenced = false;
    /// Of the whole region, from a trusted reply on.
    std::optional<std::uint32_t> checksum;
  };
  struct Fenced {
    std::uint32_t region;
    std::uint64_t generation;
    base::TimePoint due;
  };

  base::MutableBytes bytes(std::uint32_t region) const;
  void expect_pattern(std::uint32_t region, std::size_t from, std::uint64_t seed, const char* when);
  void foreign(std::uint32_t region, std::string what);

  base::MutableBytes memory_;
  std::uint64_t region_bytes_;
  const base::Clock& clock_;
  std::function<void(std::string)> report_;
  std::vector<Region> regions_;
  std::deque<Fenced> fenced_;
  Counts counts_;
};

}  // namespace keyferry::memory
