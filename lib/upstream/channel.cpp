#include "upstream/channel.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>
#include <vector>

#include "resp/reply_scanner.h"
#include "upstream/rdma_tuning.h"
#include "upstream/transport.h"

namespace keyferry::upstream {

namespace {

// A buffer that a burst made larger than this is given back.
constexpr std::size_t kKeptBuffer = 256 * base::kKiB;
// How often a channel over RDMA looks whether it is idle.
constexpr base::Duration kLookAfter = std::chrono::seconds(1);
// Attributes in front of a frame are held until it is known whether a reply or a push follows. No Valkey sends any.
constexpr std::size_t kHeldAttributes = 64 * base::kKiB;

}  // namespace

// Shared with the handlers under way. Handlers look at `stopped` first: the Channel is gone then and its sinks may be.
struct Channel::Impl : std::enable_shared_from_this<Impl> {
  struct Owed {
    ReplySink* sink;
    std::uint64_t tag;
    base::TimePoint since;
    Access access = Access::kReads;
    // When it was handed to a write.
    base::TimePoint asked{};
  };

  // Of our own AUTH and PING: the reply changes nothing. A refused AUTH leaves the connection logged in as it was.
  struct OwnSink final : ReplySink {
    bool on_reply(std::uint64_t, std::string_view, bool) override { return true; }
    void on_reply_lost(std::uint64_t, Lost, bool, std::string_view) override {}
  };

  Impl(base::Loop& its_loop, const ConnectOptions& its_options)
      : loop(its_loop), options(its_options), wait_timer(its_loop) {}

  void start(base::Duration wait);
  void connected(std::unique_ptr<Connection> its_connection);
  void hold(std::string why);
  void go();
  void connect(base::Duration timeout);
  void stop();

  void send(std::string_view command, ReplySink& sink, std::uint64_t tag, Access access);
  void flush();
  void wrote(std::error_code error);
  void read();
  void take();
  void deliver(std::string_view piece, bool last);
  void fail(std::string why, int code = 0);
  void refresh_login();
  void close_if_drained();
  void look_after();
  void refuse_later();
  void refuse();

  std::deque<Owed> take_owed() {
    writes = 0;
    return std::exchange(owed, {});
  }
  bool accepts() const { return !dead && !retired && !broken; }
  bool turns_away() const { return !down.empty() && !dead && !ever_connected; }

  base::Loop& loop;
  ConnectOptions options;
  // Until the dial, then for look_after().
  base::Timer wait_timer;
  std::unique_ptr<Connection> connection;
  base::TimePoint connected_at{};
  base::TimePoint died_at{};
  // When look_after() last saw bytes come or replies owed, and how many bytes had come by then.
  base::TimePoint moved_at{};
  std::uint64_t moved = 0;
  Carrier carrier = Carrier::kTcp;
  bool on_hold = false;
  base::TimePoint held_since{};
  bool ever_connected = false;
  bool stopped = false;
  bool dead = false;
  bool retired = false;
  // A write failed: what has arrived is still read to its end.
  bool broken = false;
  std::string reason;
  std::string down;
  int failure = 0;
  // What it logged in with last.
  ConnectOptions login;
  OwnSink own_sink;

  // In order of sending: first `sent` commands that were handed to a write, then those in `out`, last `refused` ones
  // that came too late.
  std::deque<Owed> owed;
  // Of these, with Access::kWrites.
  std::size_t writes = 0;
  std::size_t sent = 0;
  std::size_t refused = 0;
  // Not among those: commands that came before the connection to a node that is taken for down.
  std::deque<Owed> turned_away;
  std::string out;
  std::string writing;
  bool flush_posted = false;
  bool write_busy = false;
  bool refuse_posted = false;

  resp::ReplyScanner scanner;
  std::string_view unread;
  std::string held;
  std::uint64_t frame_bytes = 0;
  bool read_busy = false;
  bool paused = false;
  // A part of the reply to owed.front() was given.
  bool begun = false;
  // When bytes were read last, and how long replies take: a moving average, of which each reply is an eighth.
  base::TimePoint heard{};
  base::TimePoint asked_at{};
  base::Duration average{};
  Totals totals;
};

void Channel::Impl::start(base::Duration wait) {
  if (wait <= base::Duration::zero()) return connect(options.timeout);
  const base::Duration left = std::max<base::Duration>(options.timeout - wait, std::chrono::milliseconds(1));
  wait_timer.start(wait, [self = weak_from_this(), left] {
    if (const auto impl = self.lock()) impl->connect(left);
  });
}

void Channel::Impl::hold(std::string why) {
  on_hold = true;
  held_since = base::Clock::steady().now();
  wait_timer.start(options.timeout, [self = weak_from_this(), why = std::move(why)] {
    if (const auto impl = self.lock()) impl->fail(why, EAGAIN);
  });
}

void Channel::Impl::go() {
  if (!std::exchange(on_hold, false) || dead || stopped) return;
  wait_timer.cancel();
  const base::Duration left = held_since + options.timeout - base::Clock::steady().now();
  connect(std::max<base::Duration>(left, std::chrono::milliseconds(1)));
}

void Channel::Impl::connect(base::Duration timeout) {
  ConnectOptions dialled = options;
  dialled.timeout = timeout;
  Connection::connect(loop, dialled, [weak = weak_from_this()](base::Result<std::unique_ptr<Connection>> result) {
    const auto self = weak.lock();
    if (!self || self->stopped) return;
    if (!result) return self->fail(result.error().message, result.error().code);
    self->connected(std::move(result.value()));
  });
}

void Channel::Impl::connected(std::unique_ptr<Connection> its_connection) {
  connection = std::move(its_connection);
  login = connection->options();
  carrier = connection->carrier();
  ever_connected = true;
  connected_at = heard = moved_at = base::Clock::steady().now();
  // How long the dial took says nothing about the server's replies.
  for (Owed& each : owed) each.since = connected_at;
  read();
  flush();
  if (carrier == Carrier::kRdma) look_after();
}

void Channel::Impl::stop() {
  stopped = true;
  wait_timer.cancel();
  take_owed();
  turned_away.clear();
  connection.reset();
}

void Channel::Impl::send(std::string_view command, ReplySink& sink, std::uint64_t tag, Access access) {
  if (turns_away()) {
    turned_away.push_back({&sink, tag, {}});
    return refuse_later();
  }
  owed.push_back({&sink, tag, base::Clock::steady().now(), access});
  writes += access == Access::kWrites;
  if (!accepts()) {
    ++refused;
    if (dead) refuse_later();
    return;
  }
  out.append(command);
  // Posted, so that everything that this turn of the loop sends leaves together.
  if (connection && !write_busy && !std::exchange(flush_posted, true)) {
    loop.post([self = shared_from_this()] {
      self->flush_posted = false;
      self->flush();
    });
  }
}

void Channel::Impl::flush() {
  if (stopped || dead || broken || !connection || write_busy || out.empty()) return;
  std::swap(out, writing);
  const base::TimePoint now = base::Clock::steady().now();
  for (; sent < owed.size() - refused; ++sent) owed[sent].asked = now;
  write_busy = true;
  ++totals.writes;
  totals.bytes_out += writing.size();
  connection->write({base::as_bytes(writing)},
                    [self = shared_from_this()](std::error_code error) { self->wrote(error); });
}

void Channel::Impl::wrote(std::error_code error) {
  write_busy = false;
  writing.clear();
  if (writing.capacity() > kKeptBuffer) std::string().swap(writing);
  if (stopped || dead) return;
  if (!error) return flush();
  // Replies that came before the end are still there to be read; the read ends too, with the reason.
  broken = true;
  if (!read_busy && !paused) fail(options.address.text() + ": connection lost: " + stream_cause(error));
}

void Channel::Impl::read() {
  read_busy = true;
  connection->read([self = shared_from_this()](std::error_code error, std::string_view bytes) {
    self->read_busy = false;
    if (self->stopped || self->dead) return;
    if (error) return self->fail(self->options.address.text() + ": connection lost: " + stream_cause(error));
    self->totals.bytes_in += bytes.size();
    self->heard = base::Clock::steady().now();
    self->unread = bytes;
    self->take();
  });
}

void Channel::Impl::take() {
  while (!unread.empty() && !paused) {
    const auto step = scanner.scan(unread);
    const std::string_view piece = unread.substr(0, step.consumed);
    unread.remove_prefix(step.consumed);
    if (step.event == resp::ReplyScanner::Step::Event::kError) {
      return fail(options.address.text() + ": protocol error in a reply: " + std::string(scanner.error()));
    }
    deliver(piece, step.event == resp::ReplyScanner::Step::Event::kFrameEnd);
    if (stopped || dead) return;
  }
  if (unread.empty() && !paused && !read_busy) read();
}

void Channel::Impl::deliver(std::string_view piece, bool last) {
  const char type = scanner.type();
  if (type == '>') {
    held.clear();
    if (last) ++totals.pushes_dropped;
    return;
  }
  if (type == 0) {
    held.append(piece);
    if (held.size() > kHeldAttributes)
      fail(options.address.text() + ": protocol error in a reply: attributes of more than 64 KiB");
    return;
  }
  if (sent == 0) return fail(options.address.text() + ": the server sent a reply that nobody asked for");
  std::string whole;
  if (!held.empty()) {
    whole = std::exchange(held, {}).append(piece);
    piece = whole;
  }
  frame_bytes += piece.size();
  if (scanner.largest_body() > kLongReply || frame_bytes > kLongReply) retired = true;
  const Owed owner = owed.front();
  asked_at = owner.asked;
  begun = !last;
  if (last) {
    average += (std::max(heard - owner.since, base::Duration::zero()) - average) / 8;
    owed.pop_front();
    writes -= owner.access == Access::kWrites;
    --sent;
    frame_bytes = 0;
  }
  const bool room = owner.sink->on_reply(owner.tag, piece, last);
  if (stopped || dead) return;
  if (!room) {
    retired = true;
    paused = true;
  }
  close_if_drained();
}

void Channel::Impl::close_if_drained() {
  if (retired && owed.size() == refused)
    fail(options.address.text() + ": the connection was retired and closed after its last reply");
}

// Over RDMA a server that is gone may never show: an idle channel is asked PING (R64). To a host that is gone this is
// a write that fails; if it just stays unanswered, SilenceCheck tells a server that is busy from one that has forgotten
// the connection.
void Channel::Impl::look_after() {
  if (stopped || dead) return;
  const base::TimePoint now = base::Clock::steady().now();
  if (moved != totals.bytes_in || !owed.empty()) {
    moved = totals.bytes_in;
    moved_at = now;
  } else if (now - moved_at >= rdma_tuning().ping_after && accepts()) {
    send("*1\r\n$4\r\nPING\r\n", own_sink, 0, Access::kReads);
  }
  wait_timer.start(kLookAfter, [self = weak_from_this()] {
    if (const auto impl = self.lock()) impl->look_after();
  });
}

void Channel::Impl::refresh_login() {
  if (!connection || !accepts() || !login.login_is_old()) return;
  login.take_login();
  send(login.auth_command(), own_sink, 0, Access::kReads);
}

// Loss of everything that is owed. Runs from handlers only, so a sink hears of nothing inside its own send().
void Channel::Impl::fail(std::string why, int code) {
  dead = true;
  failure = code;
  died_at = base::Clock::steady().now();
  reason = std::move(why);
  wait_timer.cancel();
  connection.reset();
  unread = {};
  std::string().swap(out);
  const auto lost = take_owed();
  const std::size_t may_have_run = std::exchange(sent, 0);
  const bool was_begun = std::exchange(begun, false);
  refused = 0;
  // What sinks send meanwhile collects in `owed` and is refused later.
  for (std::size_t i = 0; i < lost.size() && !stopped; ++i) {
    lost[i].sink->on_reply_lost(lost[i].tag, i < may_have_run ? Lost::kMayHaveRun : Lost::kNotSent, i == 0 && was_begun,
                                reason);
  }
}

void Channel::Impl::refuse_later() {
  if (std::exchange(refuse_posted, true)) return;
  loop.post([self = shared_from_this()] { self->refuse(); });
}

void Channel::Impl::refuse() {
  refuse_posted = false;
  const auto refuse_all = [this](std::deque<Owed> all, const std::string& why) {
    for (std::size_t i = 0; i < all.size() && !stopped; ++i)
      all[i].sink->on_reply_lost(all[i].tag, Lost::kNotSent, false, why);
  };
  refuse_all(std::exchange(turned_away, {}), down);
  if (stopped || !dead) return;
  refused = 0;
  refuse_all(take_owed(), reason);
}

Channel::Channel(base::Loop& loop, const ConnectOptions& options, base::Duration wait, std::string down)
    : impl_(std::make_shared<Impl>(loop, options)) {
  impl_->down = std::move(down);
  impl_->start(wait);
}

Channel::Channel(base::Loop& loop, const ConnectOptions& options, std::string held_because)
    : impl_(std::make_shared<Impl>(loop, options)) {
  impl_->hold(std::move(held_because));
}

Channel::~Channel() {
  impl_->stop();
}

void Channel::send(std::string_view command, ReplySink& sink, std::uint64_t tag, Access access) {
  impl_->send(command, sink, tag, access);
}

void Channel::resume() {
  impl_->loop.post([self = impl_] {
    if (self->stopped || self->dead || !std::exchange(self->paused, false)) return;
    self->take();
  });
}

void Channel::retire() {
  impl_->retired = true;
  impl_->loop.post([self = impl_] {
    if (!self->stopped && !self->dead) self->close_if_drained();
  });
}

void Channel::go() {
  impl_->go();
}
bool Channel::held() const {
  return impl_->on_hold && !impl_->dead;
}
bool Channel::accepts() const {
  return impl_->accepts();
}
bool Channel::retired() const {
  return impl_->retired;
}
bool Channel::dead() const {
  return impl_->dead;
}
bool Channel::connected() const {
  return impl_->ever_connected && !impl_->dead;
}
Carrier Channel::carrier() const {
  return impl_->carrier;
}
const Identity& Channel::identity() const {
  return impl_->options.identity;
}
resp::Protocol Channel::protocol() const {
  return impl_->options.protocol;
}
std::size_t Channel::pending() const {
  return impl_->owed.size() + impl_->turned_away.size();
}
bool Channel::owes_writes() const {
  return impl_->writes != 0;
}
bool Channel::late(base::TimePoint now, base::Duration by) const {
  if (impl_->owed.empty()) return false;
  return !impl_->connection || now - impl_->owed.front().since > impl_->average + by;
}
base::TimePoint Channel::asked_at() const {
  return impl_->asked_at;
}
std::optional<base::TimePoint> Channel::silent_since() const {
  if (impl_->sent == 0 || impl_->paused || !impl_->connection) return std::nullopt;
  return std::max(impl_->owed.front().since, impl_->heard);
}
std::uint64_t Channel::client_id() const {
  return impl_->connection ? impl_->connection->client_id() : 0;
}
void Channel::give_up(std::string why) {
  impl_->loop.post([self = impl_, why = std::move(why)]() mutable {
    if (!self->stopped && !self->dead) self->fail(self->options.address.text() + ": " + std::move(why));
  });
}
Channel::Totals Channel::totals() const {
  return impl_->totals;
}
base::TimePoint Channel::died_at() const {
  return impl_->died_at;
}
const std::string& Channel::loss() const {
  return impl_->reason;
}
void Channel::refresh_login() {
  impl_->refresh_login();
}
bool Channel::misplaced() const {
  return impl_->connection && impl_->connection->options().place_is_old();
}
int Channel::failure() const {
  return impl_->failure;
}
bool Channel::lived(base::Duration least) const {
  const base::TimePoint until = impl_->dead ? impl_->died_at : base::Clock::steady().now();
  return impl_->ever_connected && until - impl_->connected_at >= least;
}

}  // namespace keyferry::upstream
