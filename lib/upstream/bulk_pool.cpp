#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <utility>
#include <vector>

#include "upstream/backoff.h"
#include "upstream/pools.h"

namespace keyferry::upstream {

// Shared with the handlers of dials, timers and watches, which hold it weakly.
struct BulkPool::Impl : std::enable_shared_from_this<Impl> {
  struct Waiter {
    resp::Protocol protocol;
    Callback done;
    base::TimePoint until;
  };
  struct Idle {
    std::uint64_t number;
    std::unique_ptr<Connection> connection;
  };
  // What a turn has decided; carried out at its end, as callbacks may call back into the pool or destroy it.
  struct Loan {
    Callback done;
    std::unique_ptr<Connection> connection;
  };

  Impl(base::Loop& its_loop, ConnectOptions its_options, std::size_t its_most)
      : loop(its_loop),
        options(std::move(its_options)),
        most(std::max<std::size_t>(its_most, 1)),
        backoff(options.timeout / 2),
        wait_limit(its_loop),
        dial_again(its_loop) {}

  void borrow(resp::Protocol protocol, Callback done);
  void give_back(std::unique_ptr<Connection> connection);
  void serve_later();
  void serve();
  bool make_room();
  enum class Dial { kStarted, kNotYet, kNoRoom };
  Dial dial(resp::Protocol protocol);
  void dialled(resp::Protocol protocol, base::Result<std::unique_ptr<Connection>> result);
  void put_idle(std::unique_ptr<Connection> connection);
  void fail(std::vector<Callback> borrowers, const base::Error& error);
  void expire();
  void set_limit();

  std::size_t& dials_of(resp::Protocol protocol) { return dials[protocol == resp::Protocol::kResp3 ? 1 : 0]; }
  std::size_t under_way() const { return dials[0] + dials[1]; }

  base::Loop& loop;
  ConnectOptions options;
  std::size_t most;
  Backoff backoff;
  base::Timer wait_limit, dial_again;
  bool stopped = false;
  bool serve_posted = false;
  std::deque<Waiter> waiting;
  // The one given back last is lent first, so that the surplus grows old at the front.
  std::vector<Idle> idle;
  std::uint64_t next_number = 0;
  std::size_t lent = 0;
  std::array<std::size_t, 2> dials{};
  std::string last_error;
};

void BulkPool::Impl::borrow(resp::Protocol protocol, Callback done) {
  waiting.push_back({protocol, std::move(done), base::Clock::steady().now() + options.timeout});
  if (waiting.size() == 1) set_limit();
  serve_later();
}

void BulkPool::Impl::give_back(std::unique_ptr<Connection> connection) {
  --lent;
  put_idle(std::move(connection));
  serve_later();
}

void BulkPool::Impl::serve_later() {
  if (std::exchange(serve_posted, true)) return;
  loop.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->stopped) return;
    self->serve_posted = false;
    self->serve();
  });
}

// In order of arrival each borrower gets an idle connection, or a dial under way is counted as his, or one is started
// for him, in place of an idle connection of the other protocol if need be. When there is no room for that, there is
// none for those behind him either.
void BulkPool::Impl::serve() {
  std::vector<Loan> loans;
  std::array<std::size_t, 2> unclaimed = dials;
  for (auto waiter = waiting.begin(); waiter != waiting.end();) {
    const auto fits = [&](const Idle& entry) { return entry.connection->options().protocol == waiter->protocol; };
    const auto found = std::find_if(idle.rbegin(), idle.rend(), fits);
    if (found != idle.rend()) {
      found->connection->watch({});
      loans.push_back({std::move(waiter->done), std::move(found->connection)});
      idle.erase(std::next(found).base());
      waiter = waiting.erase(waiter);
      ++lent;
      continue;
    }
    std::size_t& free_dials = unclaimed[waiter->protocol == resp::Protocol::kResp3 ? 1 : 0];
    if (free_dials > 0) {
      --free_dials;
    } else if (dial(waiter->protocol) == Dial::kNoRoom) {
      break;
    }
    ++waiter;
  }
  set_limit();
  const auto self = shared_from_this();
  for (Loan& loan : loans) {
    if (stopped) return;
    loan.done(std::move(loan.connection));
  }
}

bool BulkPool::Impl::make_room() {
  if (lent + idle.size() + under_way() < most) return true;
  if (idle.empty()) return false;
  idle.erase(idle.begin());
  return true;
}

BulkPool::Impl::Dial BulkPool::Impl::dial(resp::Protocol protocol) {
  // While dials fail, one at a time is enough to find out when that ends.
  if (backoff.failing() && under_way() > 0) return Dial::kNotYet;
  const base::Duration wait = backoff.wait(base::Clock::steady().now());
  if (wait > base::Duration::zero()) {
    dial_again.start(wait, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->serve();
    });
    return Dial::kNotYet;
  }
  if (!make_room()) return Dial::kNoRoom;
  ConnectOptions wanted = options;
  wanted.protocol = protocol;
  ++dials_of(protocol);
  Connection::connect(loop, wanted,
                      [weak = weak_from_this(), protocol](base::Result<std::unique_ptr<Connection>> result) {
                        const auto self = weak.lock();
                        if (self && !self->stopped) self->dialled(protocol, std::move(result));
                      });
  return Dial::kStarted;
}

void BulkPool::Impl::dialled(resp::Protocol protocol, base::Result<std::unique_ptr<Connection>> result) {
  --dials_of(protocol);
  if (result) {
    backoff.succeeded();
    last_error.clear();
    put_idle(std::move(result.value()));
    return serve();
  }
  backoff.failed(base::Clock::steady().now());
  last_error = result.error().message;
  const bool hopeless = lent + idle.size() + under_way() == 0;
  std::vector<Callback> borrowers;
  for (auto waiter = waiting.begin(); waiter != waiting.end() && (hopeless || borrowers.empty());) {
    if (!hopeless && waiter->protocol != protocol) {
      ++waiter;
      continue;
    }
    borrowers.push_back(std::move(waiter->done));
    waiter = waiting.erase(waiter);
  }
  serve_later();
  fail(std::move(borrowers), result.error());
}

void BulkPool::Impl::put_idle(std::unique_ptr<Connection> connection) {
  const std::uint64_t number = next_number++;
  connection->watch([weak = weak_from_this(), number] {
    const auto self = weak.lock();
    if (!self || self->stopped) return;
    std::erase_if(self->idle, [&](const Idle& entry) { return entry.number == number; });
    self->serve();
  });
  idle.push_back({number, std::move(connection)});
}

void BulkPool::Impl::fail(std::vector<Callback> borrowers, const base::Error& error) {
  set_limit();
  const auto self = shared_from_this();
  for (Callback& done : borrowers) {
    if (stopped) return;
    done(error);
  }
}

void BulkPool::Impl::expire() {
  std::vector<Callback> late;
  const base::TimePoint now = base::Clock::steady().now();
  while (!waiting.empty() && waiting.front().until <= now) {
    late.push_back(std::move(waiting.front().done));
    waiting.pop_front();
  }
  char limit[32];
  std::snprintf(limit, sizeof(limit), "%g s", base::seconds(options.timeout));
  std::string text = options.address.text() + ": no bulk connection came free within " + limit + " (" +
                     std::to_string(lent) + " of " + std::to_string(most) + " in use)";
  if (!last_error.empty()) text += "; last failure: " + last_error;
  fail(std::move(late), base::Error{std::move(text)});
}

void BulkPool::Impl::set_limit() {
  if (waiting.empty()) return wait_limit.cancel();
  wait_limit.start(waiting.front().until - base::Clock::steady().now(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->expire();
  });
}

BulkPool::BulkPool(base::Loop& loop, ConnectOptions options, std::size_t most)
    : impl_(std::make_shared<Impl>(loop, std::move(options), most)) {}

BulkPool::~BulkPool() {
  impl_->stopped = true;
  impl_->waiting.clear();
  impl_->idle.clear();
  impl_->wait_limit.cancel();
  impl_->dial_again.cancel();
}

void BulkPool::borrow(resp::Protocol protocol, Callback done) {
  impl_->borrow(protocol, std::move(done));
}
void BulkPool::give_back(std::unique_ptr<Connection> connection) {
  impl_->give_back(std::move(connection));
}

void BulkPool::lost() {
  --impl_->lent;
  impl_->serve_later();
}

std::size_t BulkPool::in_use() const {
  return impl_->lent;
}
std::size_t BulkPool::idle() const {
  return impl_->idle.size();
}
std::size_t BulkPool::waiting() const {
  return impl_->waiting.size();
}

}  // namespace keyferry::upstream
