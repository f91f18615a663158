#include "transfer/registrations.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace keyferry::transfer {

namespace {
// A limit that stopped one region stops the next as well: no sense in asking for each of thousands.
constexpr std::size_t kFailuresBeforeGivingUp = 3;
constexpr int kRenewTries = 5;
}  // namespace

Registrations::Registrations(base::Loop& loop, std::vector<fabric::Fabric*> fabrics, memory::Pool& pool,
                             EngineMetrics& metrics, Listener& listener)
    : loop_(loop),
      fabrics_(std::move(fabrics)),
      pool_(pool),
      metrics_(metrics),
      listener_(listener),
      slots_(pool.region_count()),
      backoff_(std::chrono::milliseconds(200), std::chrono::seconds(5)),
      retry_timer_(loop) {
  for (Slot& slot : slots_) slot.registrations.resize(fabrics_.size());
}

void Registrations::start() {
  register_next(0);
}

std::optional<Window> Registrations::window(memory::RegionIndex region, std::size_t nic,
                                            base::MutableBytes span) const {
  if (region >= slots_.size() || slots_[region].lost || !slots_[region].registrations[nic]) return std::nullopt;
  const fabric::Registration& registration = *slots_[region].registrations[nic];
  const auto offset = static_cast<std::uint64_t>(span.data() - pool_.region(region).data());
  return Window{registration.rkey, registration.wire_base + offset, span.size()};
}

std::size_t Registrations::registered() const {
  return static_cast<std::size_t>(
      std::count_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return complete(slot) && !slot.lost; }));
}

bool Registrations::complete(const Slot& slot) const {
  return std::all_of(slot.registrations.begin(), slot.registrations.end(),
                     [](const auto& registration) { return registration.has_value(); });
}

void Registrations::register_next(memory::RegionIndex region) {
  if (stopping_) return;
  if (region == slots_.size()) return first_pass_done();
  register_region(region, [this, region](const base::Result<void>& result) { first_pass_answered(region, result); });
}

void Registrations::first_pass_answered(memory::RegionIndex region, const base::Result<void>& result) {
  if (result) {
    failures_in_row_ = 0;
    pool_.region_registered(region);
    listener_.regions_moved();
    if (!std::exchange(any_, true)) listener_.first_registered();
  } else {
    failed_.push_back(region);
    spdlog::error("region {} of {} ({} bytes each, {} registered so far) could not be registered: {}", region,
                  slots_.size(), pool_.region_bytes(), registered(), result.error().message);
    if (++failures_in_row_ == kFailuresBeforeGivingUp) {
      for (memory::RegionIndex rest = region + 1; rest < slots_.size(); ++rest) failed_.push_back(rest);
      return first_pass_done();
    }
  }
  register_next(region + 1);
}

void Registrations::first_pass_done() {
  if (!any_) {
    pool_.all_registered();
    spdlog::error("no region of the pool could be registered, so large values travel as BLOB.TCP_*");
    listener_.none_registered();
  } else if (!failed_.empty()) {
    for (const memory::RegionIndex region : failed_) pool_.region_failed(region);
    spdlog::error("{} of {} regions could not be registered and are not used: the pool is that much smaller",
                  failed_.size(), slots_.size());
  } else {
    spdlog::info("all {} regions of the pool are registered", slots_.size());
  }
  failed_.clear();
  listener_.regions_moved();
}

void Registrations::drop(const std::vector<memory::RegionIndex>& regions, std::size_t nic, base::Task done) {
  auto left = std::make_shared<std::size_t>(regions.size());
  auto shared_done = std::make_shared<base::Task>(std::move(done));
  for (const memory::RegionIndex region : regions) {
    deregister_region(region, nic, [left, shared_done] {
      if (--*left == 0) (*shared_done)();
    });
  }
}

void Registrations::renew(const std::vector<memory::RegionIndex>& regions) {
  if (stopping_) return;
  for (const memory::RegionIndex region : regions) {
    if (slots_[region].lost) {
      pool_.region_failed(region);
      continue;
    }
    slots_[region].tries = 0;
    register_again(region);
  }
}

void Registrations::register_again(memory::RegionIndex region) {
  register_region(region, [this, region](const base::Result<void>& result) { renewed(region, result); });
}

void Registrations::renewed(memory::RegionIndex region, const base::Result<void>& result) {
  if (result) {
    backoff_.reset();
    pool_.region_registered(region);
  } else if (++slots_[region].tries < kRenewTries) {
    spdlog::warn("region {} could not be registered anew after a fence, will try again: {}", region,
                 result.error().message);
    retry(region);
  } else {
    spdlog::error("region {} could not be registered anew after a fence and is given up: {}", region,
                  result.error().message);
    pool_.region_failed(region);
  }
  listener_.regions_moved();
}

void Registrations::retry(memory::RegionIndex region) {
  retries_.push_back(region);
  if (retries_.size() > 1) return;
  retry_timer_.start(backoff_.next(), [this] {
    for (const memory::RegionIndex one : std::exchange(retries_, {})) {
      if (!stopping_) register_again(one);
    }
  });
}

void Registrations::halt() {
  stopping_ = true;
  retry_timer_.cancel();
}

void Registrations::stop(base::Task done) {
  halt();
  stopped_ = std::move(done);
  went_idle();
}

void Registrations::register_region(memory::RegionIndex region, Done done) {
  struct Round {
    std::size_t left;
    base::Result<void> result;
    Done done;
  };
  auto round = std::make_shared<Round>(Round{fabrics_.size(), {}, std::move(done)});
  const auto answered = [round](base::Result<void> result) {
    if (!result) round->result = std::move(result);
    if (--round->left == 0) round->done(std::move(round->result));
  };
  for (std::size_t nic = 0; nic < fabrics_.size(); ++nic) register_with(nic, region, answered);
}

void Registrations::register_with(std::size_t nic, memory::RegionIndex region, Done done) {
  ++under_way_;
  if (slots_[region].registrations[nic]) {
    // It has it still: only one fabric's was closed by a fence.
    loop_.post([this, alive = std::weak_ptr(alive_), done = std::move(done)]() mutable {
      if (alive.expired()) return;
      --under_way_;
      done({});
      went_idle();
    });
    return;
  }
  const base::TimePoint begun = base::Clock::steady().now();
  fabrics_[nic]->register_memory(
      pool_.region(region), loop_,
      [this, alive = std::weak_ptr(alive_), nic, region, begun,
       done = std::move(done)](base::Result<fabric::Registration> result) mutable {
        if (alive.expired()) return;
        --under_way_;
        if (result) {
          slots_[region].registrations[nic] = *result;
          metrics_.registration(base::Clock::steady().now() - begun);
          done({});
        } else {
          const fabric::Traits& traits = fabrics_[nic]->traits();
          done(base::Error{"fabric " + traits.provider + " on " + traits.domain + ": " + result.error().message,
                           result.error().code});
        }
        went_idle();
      });
}

void Registrations::deregister_region(memory::RegionIndex region, std::size_t nic, base::Task done) {
  Slot& slot = slots_[region];
  if (!slot.registrations[nic]) {
    loop_.post([alive = std::weak_ptr(alive_), done = std::move(done)]() mutable {
      if (!alive.expired()) done();
    });
    return;
  }
  ++under_way_;
  const fabric::RegistrationId id = slot.registrations[nic]->id;
  // Never closed twice, whatever becomes of it (C20).
  slot.registrations[nic].reset();
  fabrics_[nic]->deregister(
      id, loop_,
      [this, alive = std::weak_ptr(alive_), nic, region,
       done = std::move(done)](const base::Result<void>& result) mutable {
        if (alive.expired()) return;
        --under_way_;
        if (!result) {
          slots_[region].lost = true;
          spdlog::critical(
              "fabric {} on {}: the registration of region {} could not be closed, its memory is lost until keyferryd "
              "restarts: {}",
              fabrics_[nic]->traits().provider, fabrics_[nic]->traits().domain, region, result.error().message);
        }
        done();
        went_idle();
      });
}

void Registrations::went_idle() {
  if (!stopping_ || under_way_ != 0 || !stopped_) return;
  bool open = false;
  for (std::size_t nic = 0; nic < fabrics_.size(); ++nic) {
    std::vector<memory::RegionIndex> regions;
    for (memory::RegionIndex region = 0; region < slots_.size(); ++region) {
      if (slots_[region].registrations[nic]) regions.push_back(region);
    }
    open = open || !regions.empty();
    if (!regions.empty()) drop(regions, nic, [] {});
  }
  if (open) return;
  base::Task done = std::exchange(stopped_, nullptr);
  done();
}

}  // namespace keyferry::transfer
