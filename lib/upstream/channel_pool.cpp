#include <algorithm>
#include <array>
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

  using Slots = std::vector<std::shared_ptr<Channel>>;

  Slots& slots_of(resp::Protocol protocol) { return slots[protocol == resp::Protocol::kResp3 ? 1 : 0]; }

  // Lets go of channels that take nothing new. One that never came up, or fell over soon after it did, is a failed
  // dial: a server that accepts and dies is not dialled in a tight loop.
  void sweep(Slots& of) {
    for (std::shared_ptr<Channel>& channel : of) {
      if (channel->accepts()) continue;
      if (channel->dead() && !channel->retired() && !channel->lived(Backoff::kLongest))
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

  std::shared_ptr<Channel> pick(resp::Protocol protocol) {
    Slots& of = slots_of(protocol);
    sweep(of);
    if (std::any_of(of.begin(), of.end(), [](const auto& channel) { return channel->lived(Backoff::kLongest); }))
      backoff.succeeded();
    const auto least = std::min_element(of.begin(), of.end(),
                                        [](const auto& a, const auto& b) { return a->pending() < b->pending(); });
    // While dials fail, one at a time is enough to find out when that ends.
    const bool more = of.empty() || (!backoff.failing() && of.size() < most && (*least)->pending() > 0);
    if (!more) return *least;
    ConnectOptions wanted = options;
    wanted.protocol = protocol;
    return of.emplace_back(std::make_shared<Channel>(loop, wanted, backoff.wait(base::Clock::steady().now())));
  }

  base::Loop& loop;
  ConnectOptions options;
  std::size_t most;
  Backoff backoff;
  std::array<Slots, 2> slots;
  std::vector<std::weak_ptr<Channel>> leaving;
};

ChannelPool::ChannelPool(base::Loop& loop, ConnectOptions options, std::size_t connections)
    : impl_(std::make_unique<Impl>(loop, std::move(options), connections)) {}
ChannelPool::~ChannelPool() = default;

std::shared_ptr<Channel> ChannelPool::pick(resp::Protocol protocol) {
  return impl_->pick(protocol);
}

ChannelPool::Counts ChannelPool::counts() const {
  Counts counts;
  const auto count = [&](const Channel& channel) {
    if (channel.dead()) return;
    if (channel.retired()) {
      ++counts.retired;
    } else if (channel.connected()) {
      ++counts.open;
    } else {
      ++counts.connecting;
    }
  };
  for (const Impl::Slots& of : impl_->slots) {
    for (const auto& channel : of) count(*channel);
  }
  for (const auto& weak : impl_->leaving) {
    if (const auto channel = weak.lock()) count(*channel);
  }
  return counts;
}

}  // namespace keyferry::upstream
