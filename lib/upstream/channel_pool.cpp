#include <algorithm>
#include <utility>
#include <vector>

#include "upstream/backoff.h"
#include "upstream/pools.h"

namespace keyferry::upstream {

struct ChannelPool::Impl {
  Impl(base::Loop& its_loop, ConnectOptions its_options, std::size_t connections)
      : loop(its_loop),
        options(std::move(its_options)),
        most(std::max<std::size_t>(connections, 1)),
        backoff(options.timeout / 2) {}

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
  }

  // Lets go of channels that take nothing new. One that never came up, or fell over soon after it did, is a failed
  // dial: a server that accepts and dies is not dialled in a tight loop.
  void sweep(Channels& of, bool own_fault) {
    const bool by_rdma = options.rdma && options.rdma->route->well();
    const bool not_by_rdma = options.rdma && options.rdma->route->faulty();
    for (std::shared_ptr<Channel>& channel : of) {
      const bool has_rdma = channel->carrier() == Carrier::kRdma;
      if (channel->connected() && (has_rdma ? not_by_rdma : by_rdma)) channel->retire();
      if (channel->accepts()) continue;
      if (!own_fault && channel->dead() && !channel->retired() && !channel->lived(Backoff::kLongest))
        backoff.failed(channel->died_at());
      if (channel->retired() && !channel->dead()) leaving.push_back(channel);
      channel.reset();
    }
    std::erase(of, nullptr);
    std::erase_if(leaving, [](const std::weak_ptr<Channel>& weak) {
      const auto channel = weak.lock();
      return !channel || channel->dead();
    });
  }

  std::shared_ptr<Channel> pick(const Identity& identity, resp::Protocol protocol) {
    Slots& slot = slots_of(identity, protocol);
    slot.used = base::Clock::steady().now();
    Channels& of = slot.channels;
    // What one identity is refused (a password that was changed, say) holds off nobody else.
    sweep(of, !identity.is_default());
    if (std::any_of(of.begin(), of.end(), [](const auto& channel) { return channel->lived(Backoff::kLongest); }))
      backoff.succeeded();
    const auto least = std::min_element(of.begin(), of.end(),
                                        [](const auto& a, const auto& b) { return a->pending() < b->pending(); });
    // While dials fail, one at a time is enough to find out when that ends.
    const bool more = of.empty() || (!backoff.failing() && of.size() < most && (*least)->pending() > 0);
    if (!more) return *least;
    return of.emplace_back(std::make_shared<Channel>(loop, options.with(identity, protocol), backoff.wait(slot.used)));
  }

  // The route itself notes how it ends; the connection is then of no more use.
  void tick() {
    if (!options.rdma || !options.rdma->route->claim_probe(base::Clock::steady().now())) return;
    ConnectOptions probe = options;
    probe.only_rdma = true;
    Connection::connect(loop, probe, [](base::Result<std::unique_ptr<Connection>>) {});
  }

  base::Loop& loop;
  ConnectOptions options;
  std::size_t most;
  Backoff backoff;
  std::vector<Slots> slots;
  std::vector<std::weak_ptr<Channel>> leaving;
};

ChannelPool::ChannelPool(base::Loop& loop, ConnectOptions options, std::size_t connections)
    : impl_(std::make_unique<Impl>(loop, std::move(options), connections)) {}
ChannelPool::~ChannelPool() = default;

std::shared_ptr<Channel> ChannelPool::pick(const Identity& identity, resp::Protocol protocol) {
  return impl_->pick(identity, protocol);
}

void ChannelPool::trim(base::TimePoint now) {
  impl_->trim(now);
}

void ChannelPool::tick() {
  impl_->tick();
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

}  // namespace keyferry::upstream
