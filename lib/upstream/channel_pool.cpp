#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>
#include <vector>

#include "upstream/backoff.h"
#include "upstream/pools.h"
#include "upstream/silence_check.h"

namespace keyferry::upstream {

struct ChannelPool::Impl {
  Impl(base::Loop& its_loop, ConnectOptions its_options, std::size_t connections, SharedLimit its_limit)
      : loop(its_loop),
        options(std::move(its_options)),
        most(std::max<std::size_t>(connections, 1)),
        limit(std::move(its_limit)),
        backoff(options.timeout / 2),
        login_backoff(options.timeout / 2),
        silence(its_loop, options) {}

  using Channels = std::vector<std::shared_ptr<Channel>>;
  struct Slots {
    Identity identity;
    resp::Protocol protocol;
    Channels channels;
    base::TimePoint used;
  };

  Slots& slots_of(const Identity& identity, resp::Protocol protocol) {
    const auto found = std::find_if(slots.begin(), slots.end(), [&](const Slots& of) {
      return of.protocol == protocol && of.identity == identity;
    });
    return found != slots.end() ? *found : slots.emplace_back(Slots{identity, protocol, {}, {}});
  }

  // A channel that a session still holds, or that owes replies, is in use.
  void trim(base::TimePoint now) {
    std::erase_if(slots, [&](const Slots& of) {
      return !of.identity.is_default() && now - of.used >= kIdle &&
             std::all_of(of.channels.begin(), of.channels.end(),
                         [](const auto& channel) { return channel.use_count() == 1 && channel->pending() == 0; });
    });
    for (const Slots& of : slots) {
      for (const auto& channel : of.channels) channel->refresh_login();
    }
    for (const Slots& of : slots) {
      for (const auto& channel : of.channels) {
        if (channel->held() && has_room(&of)) channel->go();
      }
    }
  }

  std::size_t total() const {
    std::size_t sum = 0;
    for (const Slots& of : slots) {
      for (const auto& channel : of.channels) sum += !channel->dead() && !channel->held();
    }
    for (const std::weak_ptr<Channel>& weak : leaving) {
      const auto channel = weak.lock();
      sum += channel && !channel->dead();
    }
    return sum;
  }

  // Closes the channels of the slot that was used longest ago, but for `of`, if nothing is owed on them.
  bool give_way(const Slots* of) {
    Slots* oldest = nullptr;
    for (Slots& one : slots) {
      if (&one == of || one.channels.empty() || (oldest != nullptr && oldest->used <= one.used)) continue;
      if (std::all_of(one.channels.begin(), one.channels.end(), [](const auto& channel) {
            return channel.use_count() == 1 && channel->pending() == 0 && !channel->held();
          }))
        oldest = &one;
    }
    if (oldest == nullptr) return false;
    oldest->channels.clear();
    return true;
  }

  bool has_room(const Slots* of) {
    if (!limit.room || total() < limit.room()) return true;
    if (!give_way(of) && !(limit.make_way && limit.make_way())) return false;
    return total() < limit.room();
  }

  void review() {
    for (const Slots& of : slots) {
      for (const auto& channel : of.channels) {
        if (channel->misplaced() && channel->accepts()) channel->retire();
      }
    }
  }

  // Lets go of channels that take nothing new. One that never came up, or fell over soon after it did, is a failed
  // dial: a server that accepts and dies is not dialled in a tight loop.
  void sweep(Channels& of, const Identity& identity) {
    // What one identity is refused (a password that was changed, say) holds off nobody else.
    const bool own_fault = !identity.is_default();
    const bool by_rdma = options.rdma && options.rdma->route->well();
    const bool not_by_rdma = options.rdma && options.rdma->route->faulty();
    for (std::shared_ptr<Channel>& channel : of) {
      const bool has_rdma = channel->carrier() == Carrier::kRdma;
      if (channel->connected() && (has_rdma ? not_by_rdma : by_rdma)) channel->retire();
      // Told here too: who keeps a channel does not pick for as long as it lives.
      if (channel->lived(Backoff::kLongest))
        was_well(identity, channel->dead() ? channel->died_at() : base::Clock::steady().now());
      if (channel->accepts()) continue;
      if (!own_fault && channel->dead() && channel->failure() != EAGAIN && !channel->retired() &&
          !channel->lived(Backoff::kLongest)) {
        const bool refused = channel->failure() == kLoginRefused || channel->failure() == kLoginNeeded;
        (refused ? login_backoff : backoff).failed(channel->died_at());
        (refused ? last_refusal : last_failure) = channel->loss();
      }
      if (channel->retired() && !channel->dead()) leaving.push_back(channel);
      channel.reset();
    }
    std::erase(of, nullptr);
    std::erase_if(leaving, [](const std::weak_ptr<Channel>& weak) {
      const auto channel = weak.lock();
      return !channel || channel->dead();
    });
  }

  // A read goes apart from what writes, and writes stay together.
  static const std::shared_ptr<Channel>& best_of(const Channels& of, Access access, base::TimePoint now) {
    const auto weight = [&](const auto& channel) {
      return std::tuple(!channel->connected(), channel->late(now, Channel::kVeryLate),
                        channel->owes_writes() == (access == Access::kReads), channel->late(now), channel->pending());
    };
    return *std::ranges::min_element(of, {}, weight);
  }

  // `best` of them would let a read wait for a write that may be held back, or leave none for reads.
  static bool mixes(const Channels& of, const Channel& best, Access access, base::TimePoint now) {
    const auto writing = std::ranges::count_if(of, [](const auto& channel) { return channel->owes_writes(); });
    const auto clean = static_cast<std::ptrdiff_t>(of.size()) - writing;
    if (access == Access::kReads) return best.late(now, Channel::kVeryLate) && clean == 0;
    return writing != 0 && clean == 1 && !best.owes_writes();
  }

  static bool all_connected(const Channels& of) {
    return std::ranges::all_of(of, [](const auto& channel) { return channel->connected(); });
  }

  // What was made beyond `most` goes when all are well again.
  void retire_spares(base::TimePoint now) {
    for (const Slots& of : slots) {
      if (of.channels.size() <= most) continue;
      if (std::ranges::none_of(of.channels, [&](const auto& channel) { return channel->late(now); }))
        of.channels.back()->retire();
    }
  }

  std::shared_ptr<Channel> pick(const Identity& identity, resp::Protocol protocol, Access access) {
    Slots& slot = slots_of(identity, protocol);
    slot.used = base::Clock::steady().now();
    Channels& of = slot.channels;
    review();
    sweep(of, identity);
    if (!of.empty()) {
      std::shared_ptr<Channel> best = best_of(of, access, slot.used);
      const bool mixed = mixes(of, *best, access, slot.used);
      // While dials fail, one at a time is enough to find out when that ends.
      const bool failing = backoff.failing() || (identity.is_default() && login_backoff.failing());
      const bool more = !failing && (!limit.room || total() < limit.room());
      const bool settled =
          access == Access::kWrites && best->owes_writes() && !best->late(slot.used, Channel::kVeryLate);
      if (more && of.size() < most && best->pending() > 0 && !settled) return make(slot);
      // Nobody waits for its connection: a server that is busy with something long makes none.
      if (more && of.size() <= most && mixed && all_connected(of)) make(slot);
      if (!mixed || access == Access::kReads) return best;
      // Writes that can't go on are best where others wait already.
      return *std::ranges::min_element(
          of, {}, [](const auto& channel) { return std::pair(!channel->owes_writes(), channel->pending()); });
    }
    if (!has_room(&slot)) {
      return of.emplace_back(std::make_shared<Channel>(
          loop, options.with(identity, protocol),
          options.address.text() + ": no connection came free in time, see limits.upstream_connections"));
    }
    return make(slot);
  }

  const std::shared_ptr<Channel>& make(Slots& slot) {
    base::Duration wait = backoff.wait(slot.used);
    if (slot.identity.is_default()) wait = std::max(wait, login_backoff.wait(slot.used));
    return slot.channels.emplace_back(std::make_shared<Channel>(loop, options.with(slot.identity, slot.protocol), wait,
                                                                down(slot.identity, slot.used)));
  }

  void was_well(const Identity& identity, base::TimePoint when) {
    backoff.succeeded_at(when);
    if (identity.is_default()) login_backoff.succeeded_at(when);
  }

  // Empty while the node is not taken for down: commands wait for a connection then.
  std::string down(const Identity& identity, base::TimePoint now) const {
    if (identity.is_default() && login_backoff.down(now, options.timeout)) return last_refusal;
    if (!backoff.down(now, options.timeout)) return {};
    return last_failure + " (not reached for " +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(options.timeout).count()) +
           " s and more, tried again every 2 s: commands are refused until then)";
  }

  // The route itself notes how it ends; the connection is then of no more use.
  void probe_rdma(base::TimePoint now) {
    if (!options.rdma || !options.rdma->route->claim_probe(now)) return;
    ConnectOptions probe = options;
    probe.only_rdma = true;
    Connection::connect(loop, probe, [](base::Result<std::unique_ptr<Connection>>) {});
  }

  base::Loop& loop;
  ConnectOptions options;
  std::size_t most;
  std::string last_failure;
  SharedLimit limit;
  Backoff backoff;
  // Of the configured identity, refused by a server that is well: no matter of other identities (R54).
  Backoff login_backoff;
  std::string last_refusal;
  SilenceCheck silence;
  std::vector<Slots> slots;
  std::vector<std::weak_ptr<Channel>> leaving;
};

ChannelPool::ChannelPool(base::Loop& loop, ConnectOptions options, std::size_t connections, SharedLimit limit)
    : impl_(std::make_unique<Impl>(loop, std::move(options), connections, std::move(limit))) {}
ChannelPool::~ChannelPool() = default;

std::shared_ptr<Channel> ChannelPool::pick(const Identity& identity, resp::Protocol protocol, Access access) {
  return impl_->pick(identity, protocol, access);
}

bool ChannelPool::holds_writes(const Identity& identity, resp::Protocol protocol) const {
  const base::TimePoint now = base::Clock::steady().now();
  return std::ranges::any_of(impl_->slots, [&](const Impl::Slots& of) {
    return of.protocol == protocol && of.identity == identity &&
           std::ranges::any_of(of.channels,
                               [&](const auto& channel) { return channel->owes_writes() && channel->late(now); });
  });
}

void ChannelPool::trim(base::TimePoint now) {
  impl_->trim(now);
}

void ChannelPool::review() {
  impl_->review();
}

void ChannelPool::tick(base::TimePoint now) {
  impl_->probe_rdma(now);
  impl_->review();
  impl_->retire_spares(now);
  std::vector<std::shared_ptr<Channel>> all;
  for (const Impl::Slots& of : impl_->slots) all.insert(all.end(), of.channels.begin(), of.channels.end());
  for (const auto& weak : impl_->leaving) {
    if (auto channel = weak.lock()) all.push_back(std::move(channel));
  }
  impl_->silence.look(all, now);
}

bool ChannelPool::give_way() {
  return impl_->give_way(nullptr);
}
std::size_t ChannelPool::total() const {
  return impl_->total();
}

ChannelPool::Counts ChannelPool::counts() const {
  Counts counts;
  const auto count = [&](const Channel& channel) {
    if (channel.dead()) return;
    if (channel.connected()) ++counts.by_carrier[static_cast<std::size_t>(channel.carrier())];
    if (channel.retired()) {
      ++counts.retired;
    } else if (channel.connected()) {
      ++counts.open;
    } else {
      ++counts.connecting;
    }
  };
  for (const Impl::Slots& of : impl_->slots) {
    for (const auto& channel : of.channels) count(*channel);
  }
  for (const auto& weak : impl_->leaving) {
    if (const auto channel = weak.lock()) count(*channel);
  }
  return counts;
}

std::vector<ChannelPool::Listed> ChannelPool::list() const {
  std::vector<Listed> all;
  for (const Impl::Slots& of : impl_->slots) {
    for (const auto& channel : of.channels) {
      if (!channel->dead()) all.push_back({of.identity.user, of.identity.database, of.protocol, channel});
    }
  }
  for (const auto& weak : impl_->leaving) {
    if (auto channel = weak.lock(); channel && !channel->dead()) all.push_back({{}, 0, {}, std::move(channel)});
  }
  return all;
}

}  // namespace keyferry::upstream
