#include "memory/region_auditor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "memory/pool.h"

namespace keyferry::memory {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

/// Every word of every pattern differs from its neighbours and from the same word of other patterns.
std::uint64_t word(std::uint64_t seed, std::size_t number) {
  return seed + number * 0x9e3779b97f4a7c15ULL;
}

std::uint64_t seed_of(std::uint64_t kind, std::uint64_t region, std::uint64_t number) {
  std::uint64_t seed = kind ^ (region << 40) ^ number;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebULL;
  return seed ^ (seed >> 31);
}

std::uint64_t free_seed(std::uint64_t region, std::uint64_t generation) {
  return seed_of(0x6672656500000000ULL, region, generation);
}

std::uint64_t owner_seed(std::uint64_t region, LeaseId lease) {
  return seed_of(0x6f776e6572000000ULL, region, static_cast<std::uint64_t>(lease));
}

// Regions are whole pages, so they are whole words too.
void fill(base::MutableBytes bytes, std::uint64_t seed) {
  for (std::size_t number = 0; number < bytes.size() / kWord; ++number) {
    const std::uint64_t value = word(seed, number);
    std::memcpy(bytes.data() + number * kWord, &value, kWord);
  }
}

/// The first byte from `from` on that is not the pattern's.
std::optional<std::size_t> first_difference(base::ConstBytes bytes, std::size_t from, std::uint64_t seed) {
  for (std::size_t number = from / kWord; number < bytes.size() / kWord; ++number) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + number * kWord, kWord);
    if (value == word(seed, number)) continue;
    const std::uint64_t wanted = word(seed, number);
    for (std::size_t byte = 0; byte < kWord; ++byte) {
      const std::size_t at = number * kWord + byte;
      if (at >= from && std::memcmp(&bytes[at], reinterpret_cast<const char*>(&wanted) + byte, 1) != 0) return at;
    }
  }
  return std::nullopt;
}

}  // namespace

RegionAuditor::RegionAuditor(base::MutableBytes memory, std::uint64_t region_bytes, const base::Clock& clock,
                             std::function<void(std::string)> report)
    : memory_(memory),
      region_bytes_(region_bytes),
      clock_(clock),
      report_(std::move(report)),
      regions_(memory.size() / region_bytes) {}

void RegionAuditor::became_free(std::uint32_t region) {
  Region& books = regions_[region];
  ++books.generation;
  books.free = true;
  books.checksum.reset();
  fill(bytes(region), free_seed(region, books.generation));
  if (std::exchange(books.fenced, false)) fenced_.push_back({region, books.generation, clock_.now() + kAfterFence});
}

void RegionAuditor::leased(const Lease& lease) {
  for (const RegionIndex region : lease.regions) {
    Region& books = regions_[region];
    ++counts_.leased;
    expect_pattern(region, 0, free_seed(region, books.generation), "when it was leased, written to after it was freed");
    books.free = false;
    fill(bytes(region), owner_seed(region, lease.id));
  }
}

void RegionAuditor::in_flight(const Lease& lease) {
  for (const RegionIndex region : lease.regions) regions_[region].checksum.reset();
}

void RegionAuditor::settled(const Lease& lease) {
  for (const RegionIndex region : lease.regions) {
    ++counts_.settled;
    regions_[region].checksum = base::crc32c(bytes(region));
  }
}

void RegionAuditor::quarantined(const Lease& lease) {
  for (const RegionIndex region : lease.regions) regions_[region].fenced = true;
}

void RegionAuditor::given_back(const Lease& lease) {
  std::uint64_t used = lease.length;
  for (const RegionIndex region : lease.regions) {
    Region& books = regions_[region];
    ++counts_.given_back;
    if (books.checksum && *books.checksum != base::crc32c(bytes(region)))
      foreign(region, "changed between its transfer's reply and its return");
    const std::uint64_t here = std::min<std::uint64_t>(used, region_bytes_);
    used -= here;
    expect_pattern(region, static_cast<std::size_t>(here), owner_seed(region, lease.id),
                   "when it was given back, behind its lease's length");
  }
}

std::optional<base::TimePoint> RegionAuditor::due() const {
  if (fenced_.empty()) return std::nullopt;
  return fenced_.front().due;
}

void RegionAuditor::check_fenced() {
  const base::TimePoint now = clock_.now();
  while (!fenced_.empty() && fenced_.front().due <= now) {
    const Fenced one = fenced_.front();
    fenced_.pop_front();
    const Region& books = regions_[one.region];
    if (!books.free || books.generation != one.generation) continue;  // leased again since: that was a check
    ++counts_.after_fence;
    expect_pattern(one.region, 0, free_seed(one.region, one.generation), "2 s after a fence");
  }
}

base::MutableBytes RegionAuditor::bytes(std::uint32_t region) const {
  return memory_.subspan(region * region_bytes_, region_bytes_);
}

void RegionAuditor::expect_pattern(std::uint32_t region, std::size_t from, std::uint64_t seed, const char* when) {
  const std::optional<std::size_t> at = first_difference(bytes(region), from, seed);
  if (at) foreign(region, "byte " + std::to_string(*at) + " is foreign " + when);
}

void RegionAuditor::foreign(std::uint32_t region, std::string what) {
  ++counts_.foreign;
  report_("region " + std::to_string(region) + ", generation " + std::to_string(regions_[region].generation) + ": " +
          std::move(what));
}

}  // namespace keyferry::memory
