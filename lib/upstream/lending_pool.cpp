#include <algorithm>
#include <cstdio>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "upstream/backoff.h"
#include "upstream/handshake.h"
#include "upstream/pools.h"

namespace keyferry::upstream {

namespace {

bool same_kind(const ConnectOptions& a, const ConnectOptions& b) {
  const bool same_password = a.credentials ? a.credentials == b.credentials : a.password == b.password;
  return a.protocol == b.protocol && a.database == b.database && a.user == b.user && same_password &&
         a.authenticate == b.authenticate && a.bare == b.bare;
}

}  // namespace

// Shared with the handlers of dials, timers and watches, which hold it weakly.
struct LendingPool::Impl : std::enable_shared_from_this<Impl> {
  struct Key {
    Identity identity;
    resp::Protocol protocol;
    bool bare = false;
    bool operator==(const Key&) const = default;
  };
  struct Waiter {
    Key key;
    Callback done;
    base::TimePoint until;
  };
  struct Idle {
    std::uint64_t number;
    std::unique_ptr<Connection> connection;
    base::TimePoint since;
  };
  // A connection on its way back to what a new one is.
  struct Cleaning {
    Cleaning(base::Loop& loop, std::unique_ptr<Connection> its_connection)
        : connection(std::move(its_connection)), limit(loop) {}
    std::unique_ptr<Connection> connection;
    Handshake handshake{connection->options(), Handshake::From::kReset};
    base::Timer limit;
  };
  // What a turn has decided; carried out at its end, as callbacks may call back into the pool or destroy it.
  struct Loan {
    Callback done;
    std::unique_ptr<Connection> connection;
  };

  Impl(base::Loop& its_loop, ConnectOptions its_options, LendingOptions its_lending)
      : loop(its_loop),
        options(std::move(its_options)),
        lending(std::move(its_lending)),
        most(std::max<std::size_t>(lending.most, 1)),
        wait(lending.wait == base::Duration{} ? options.timeout : lending.wait),
        backoff(options.timeout / 2),
        wait_limit(its_loop),
        dial_again(its_loop) {}

  void borrow(Key key, Callback done);
  void give_back(std::unique_ptr<Connection> connection);
  void reset(std::unique_ptr<Connection> connection);
  void trim(base::TimePoint now);
  void serve_later();
  void serve();
  void drop_outdated();
  ConnectOptions wanted(const Key& key) const;
  bool make_room();
  enum class Dial { kStarted, kNotYet, kNoRoom };
  Dial dial(const Key& key);
  void dialled(const Key& key, base::Result<std::unique_ptr<Connection>> result);
  void put_idle(std::unique_ptr<Connection> connection);
  void read_reset(std::shared_ptr<Cleaning> cleaning);
  void fail(std::vector<Callback> borrowers, const base::Error& error);
  void expire();
  void set_limit();

  std::size_t under_way() const { return dials.size(); }
  std::size_t lent() const { return std::accumulate(lent_by.begin(), lent_by.end(), std::size_t{0}); }
  std::size_t& lent_by_that(const Connection& connection) {
    return lent_by[static_cast<std::size_t>(connection.carrier())];
  }
  std::size_t total() const { return lent() + idle.size() + under_way(); }
  bool full() const {
    return total() >= most || (lending.shared.room && total() >= std::max<std::size_t>(lending.shared.room(), 1));
  }

  base::Loop& loop;
  ConnectOptions options;
  LendingOptions lending;
  std::size_t most;
  base::Duration wait;
  Backoff backoff;
  base::Timer wait_limit, dial_again;
  bool stopped = false;
  bool serve_posted = false;
  std::deque<Waiter> waiting;
  // The one given back last is lent first, so that the surplus grows old at the front.
  std::vector<Idle> idle;
  std::uint64_t next_number = 0;
  ByCarrier lent_by{};
  std::vector<Key> dials;
  std::string last_error;
};

void LendingPool::Impl::borrow(Key key, Callback done) {
  waiting.push_back({std::move(key), std::move(done), base::Clock::steady().now() + wait});
  if (waiting.size() == 1) set_limit();
  serve_later();
}

void LendingPool::Impl::give_back(std::unique_ptr<Connection> connection) {
  --lent_by_that(*connection);
  put_idle(std::move(connection));
  serve_later();
}

void LendingPool::Impl::serve_later() {
  if (std::exchange(serve_posted, true)) return;
  loop.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->stopped) return;
    self->serve_posted = false;
    self->serve();
  });
}

// In order of arrival each borrower gets an idle connection, or a dial under way is counted as his, or one is started
// for him, in place of an idle connection of another kind if need be. When there is no room for that, there is
// none for those behind him either.
void LendingPool::Impl::serve() {
  std::vector<Loan> loans;
  drop_outdated();
  std::vector<Key> unclaimed = dials;
  for (auto waiter = waiting.begin(); waiter != waiting.end();) {
    const ConnectOptions kind = wanted(waiter->key);
    const auto fits = [&](const Idle& entry) { return same_kind(entry.connection->options(), kind); };
    const auto found = std::find_if(idle.rbegin(), idle.rend(), fits);
    if (found != idle.rend()) {
      found->connection->watch({});
      ++lent_by_that(*found->connection);
      loans.push_back({std::move(waiter->done), std::move(found->connection)});
      idle.erase(std::next(found).base());
      waiter = waiting.erase(waiter);
      continue;
    }
    const auto dialling = std::find(unclaimed.begin(), unclaimed.end(), waiter->key);
    if (dialling != unclaimed.end()) {
      unclaimed.erase(dialling);
    } else if (dial(waiter->key) == Dial::kNoRoom) {
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

// What was dialled while RDMA was away gives way to it, and the other way round.
void LendingPool::Impl::drop_outdated() {
  // A password that is not current may be about to end (R58).
  std::erase_if(idle, [](const Idle& entry) {
    const ConnectOptions& has = entry.connection->options();
    return has.login_is_old() || has.place_is_old();
  });
  if (!options.rdma) return;
  const RdmaRoute& route = *options.rdma->route;
  if (!route.well() && !route.faulty()) return;
  std::erase_if(idle,
                [&](const Idle& entry) { return (entry.connection->carrier() == Carrier::kRdma) == route.faulty(); });
}

ConnectOptions LendingPool::Impl::wanted(const Key& key) const {
  ConnectOptions kind = options.with(key.identity, key.protocol);
  kind.bare = key.bare;
  return kind;
}

bool LendingPool::Impl::make_room() {
  if (!full()) return true;
  if (idle.empty()) return total() < most && lending.shared.make_way && lending.shared.make_way();
  idle.erase(idle.begin());
  return true;
}

LendingPool::Impl::Dial LendingPool::Impl::dial(const Key& key) {
  // While dials fail, one at a time is enough to find out when that ends.
  if (backoff.failing() && under_way() > 0) return Dial::kNotYet;
  const base::Duration pause = backoff.wait(base::Clock::steady().now());
  if (pause > base::Duration::zero()) {
    dial_again.start(pause, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->serve();
    });
    return Dial::kNotYet;
  }
  if (!make_room()) return Dial::kNoRoom;
  dials.push_back(key);
  Connection::connect(loop, wanted(key),
                      [weak = weak_from_this(), key](base::Result<std::unique_ptr<Connection>> result) {
                        const auto self = weak.lock();
                        if (self && !self->stopped) self->dialled(key, std::move(result));
                      });
  return Dial::kStarted;
}

void LendingPool::Impl::dialled(const Key& key, base::Result<std::unique_ptr<Connection>> result) {
  dials.erase(std::find(dials.begin(), dials.end(), key));
  if (result) {
    backoff.succeeded();
    last_error.clear();
    put_idle(std::move(result.value()));
    return serve();
  }
  // What one identity is refused (a password that was changed, say) holds off nobody else.
  const int code = result.error().code;
  const bool refused = code == kLoginRefused || code == kLoginNeeded;
  const bool own_fault = refused || !key.identity.is_default();
  // The server was there.
  if (refused) backoff.succeeded();
  if (!own_fault) backoff.failed(base::Clock::steady().now());
  last_error = result.error().message;
  const bool hopeless = !own_fault && lent() + idle.size() + under_way() == 0;
  std::vector<Callback> borrowers;
  for (auto waiter = waiting.begin(); waiter != waiting.end() && (hopeless || borrowers.empty());) {
    if (!hopeless && waiter->key != key) {
      ++waiter;
      continue;
    }
    borrowers.push_back(std::move(waiter->done));
    waiter = waiting.erase(waiter);
  }
  serve_later();
  fail(std::move(borrowers), result.error());
}

// The first exchange once more, behind RESET. The connection belongs to its handlers meanwhile.
void LendingPool::Impl::reset(std::unique_ptr<Connection> connection) {
  if (connection->options().login_is_old() || connection->options().place_is_old()) {
    --lent_by_that(*connection);
    return serve_later();
  }
  auto cleaning = std::make_shared<Cleaning>(loop, std::move(connection));
  cleaning->limit.start(options.timeout, [cleaning] { cleaning->connection->close(); });
  cleaning->connection->write({base::as_bytes(cleaning->handshake.request())}, [cleaning](std::error_code) {});
  read_reset(std::move(cleaning));
}

void LendingPool::Impl::read_reset(std::shared_ptr<Cleaning> cleaning) {
  Connection& connection = *cleaning->connection;
  connection.read(
      [weak = weak_from_this(), cleaning = std::move(cleaning)](std::error_code error, std::string_view bytes) mutable {
        const auto self = weak.lock();
        if (!self || self->stopped) return cleaning->limit.cancel();
        const auto state = error ? Handshake::State::kFailed : cleaning->handshake.take(bytes);
        if (state == Handshake::State::kMore) return self->read_reset(std::move(cleaning));
        cleaning->limit.cancel();
        if (state == Handshake::State::kDone) return self->give_back(std::move(cleaning->connection));
        --self->lent_by_that(*cleaning->connection);
        self->serve_later();
      });
}

void LendingPool::Impl::trim(base::TimePoint now) {
  std::erase_if(idle, [&](const Idle& entry) { return now - entry.since >= kIdle; });
  // Where the limit is shared, room may have come elsewhere.
  if (!waiting.empty()) serve_later();
}

void LendingPool::Impl::put_idle(std::unique_ptr<Connection> connection) {
  const std::uint64_t number = next_number++;
  connection->watch([weak = weak_from_this(), number] {
    const auto self = weak.lock();
    if (!self || self->stopped) return;
    std::erase_if(self->idle, [&](const Idle& entry) { return entry.number == number; });
    self->serve();
  });
  idle.push_back({number, std::move(connection), base::Clock::steady().now()});
}

void LendingPool::Impl::fail(std::vector<Callback> borrowers, const base::Error& error) {
  set_limit();
  const auto self = shared_from_this();
  for (Callback& done : borrowers) {
    if (stopped) return;
    done(error);
  }
}

void LendingPool::Impl::expire() {
  std::vector<Callback> late;
  const base::TimePoint now = base::Clock::steady().now();
  while (!waiting.empty() && waiting.front().until <= now) {
    late.push_back(std::move(waiting.front().done));
    waiting.pop_front();
  }
  char limit[32];
  std::snprintf(limit, sizeof(limit), "%g s", base::seconds(wait));
  std::string text = options.address.text() + ": no " + lending.what + " came free within " + limit + " (" +
                     std::to_string(lent()) + " of " + std::to_string(most) + " in use" +
                     (lending.limit.empty() ? "" : ", see " + lending.limit) + ")";
  if (!last_error.empty()) text += "; last failure: " + last_error;
  fail(std::move(late), base::Error{std::move(text)});
}

void LendingPool::Impl::set_limit() {
  if (waiting.empty()) return wait_limit.cancel();
  wait_limit.start(waiting.front().until - base::Clock::steady().now(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->expire();
  });
}

LendingPool::LendingPool(base::Loop& loop, ConnectOptions connect, LendingOptions options)
    : impl_(std::make_shared<Impl>(loop, std::move(connect), std::move(options))) {}

LendingPool::LendingPool(base::Loop& loop, ConnectOptions connect, std::size_t most)
    : LendingPool(loop, std::move(connect), LendingOptions{.most = most, .wait = {}, .limit = {}}) {}

LendingPool::~LendingPool() {
  impl_->stopped = true;
  impl_->waiting.clear();
  impl_->idle.clear();
  impl_->wait_limit.cancel();
  impl_->dial_again.cancel();
}

void LendingPool::borrow(const Identity& identity, resp::Protocol protocol, Callback done) {
  impl_->borrow({identity, protocol}, std::move(done));
}
void LendingPool::borrow_bare(Callback done) {
  impl_->borrow({Identity{}, resp::Protocol::kResp2, true}, std::move(done));
}
void LendingPool::give_back(std::unique_ptr<Connection> connection) {
  impl_->give_back(std::move(connection));
}
void LendingPool::give_back_after_reset(std::unique_ptr<Connection> connection) {
  impl_->reset(std::move(connection));
}

bool LendingPool::take_over_from(LendingPool& from, Carrier carrier) {
  if (impl_->full() && !impl_->make_room()) return false;
  ++impl_->lent_by[static_cast<std::size_t>(carrier)];
  from.lost(carrier);
  return true;
}

bool LendingPool::give_way() {
  if (impl_->idle.empty()) return false;
  impl_->idle.erase(impl_->idle.begin());
  return true;
}
std::size_t LendingPool::total() const {
  return impl_->total();
}
void LendingPool::trim(base::TimePoint now) {
  impl_->trim(now);
}

void LendingPool::lost(Carrier carrier) {
  --impl_->lent_by[static_cast<std::size_t>(carrier)];
  impl_->serve_later();
}

std::size_t LendingPool::in_use() const {
  return impl_->lent();
}
std::size_t LendingPool::idle() const {
  return impl_->idle.size();
}
ByCarrier LendingPool::in_use_by_carrier() const {
  return impl_->lent_by;
}
ByCarrier LendingPool::idle_by_carrier() const {
  ByCarrier count{};
  for (const Impl::Idle& entry : impl_->idle) ++count[static_cast<std::size_t>(entry.connection->carrier())];
  return count;
}
std::size_t LendingPool::waiting() const {
  return impl_->waiting.size();
}
std::vector<std::uint64_t> LendingPool::idle_ids() const {
  std::vector<std::uint64_t> ids;
  for (const Impl::Idle& entry : impl_->idle) ids.push_back(entry.connection->client_id());
  return ids;
}

}  // namespace keyferry::upstream
