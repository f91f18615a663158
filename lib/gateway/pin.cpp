#include "gateway/pin.h"

#include <algorithm>
#include <utility>

#include "gateway/client_ids.h"
#include "gateway/session.h"

namespace keyferry::gateway {

namespace {

// What one client may have under way to the server before it is not read any further.
constexpr std::size_t kMostOut = base::kMiB;
// As much of a reply as its effect is read from.
constexpr std::size_t kHead = 24;
// What comes before CLIENT REPLY ON may take its time.
constexpr base::Duration kSilentFor = std::chrono::minutes(1);
// With less than this queued for a client that gets what it has not asked for the server is read on: what a slow one
// leaves is to lie there, where the server's limits see it.
constexpr std::size_t kMostAhead = 32 * 1024;

/// MONITOR's: +1339518083.107412 [0 127.0.0.1:60866] "get" "key"
bool is_monitor_line(std::string_view frame) {
  const std::size_t seconds = frame.find_first_not_of("0123456789", 1);
  if (seconds == 1 || seconds == std::string_view::npos || frame[seconds] != '.') return false;
  const std::size_t fraction = frame.find_first_not_of("0123456789", seconds + 1);
  return fraction != std::string_view::npos && frame.substr(fraction).starts_with(" [");
}

}  // namespace

Pin::Pin(Session& session, Kind kind) : session_(session), kind_(kind) {}
Pin::~Pin() = default;

upstream::LendingPool& Pin::pool() const {
  WorkerContext& worker = session_.worker();
  switch (kind_) {
    case Kind::kShort:
      return worker.pinned_short;
    case Kind::kLong:
      return worker.pinned_long;
    case Kind::kControl:
      break;
  }
  return worker.control;
}

void Pin::acquire() {
  const Session::ClientState& client = session_.client();
  upstream::Identity identity = client.identity;
  if (control()) identity.database = 0;
  pool().borrow(identity, client.protocol, [self = shared_from_this(), its_pool = &pool()](auto connection) {
    if (self->state_ != State::kOver) return self->on_connection(std::move(connection));
    // The client went away while it waited: nothing was sent.
    if (connection) its_pool->give_back(std::move(*connection));
  });
}

void Pin::on_connection(base::Result<std::unique_ptr<upstream::Connection>> connection) {
  if (connection) {
    state_ = State::kReady;
    connection_ = std::move(*connection);
    login_ = connection_->options();
    session_.worker().directory.pinned(session_.client().id, connection_->client_id());
    rest();
  } else {
    state_ = State::kFailed;
    failure_ = connection.error().message;
    failure_code_ = connection.error().code;
  }
  // A pin that has failed may be forgotten by then, and its client be gone.
  session_.in_turn([session = session_.shared_from_this()] { session->process(); });
}

bool Pin::promote() {
  if (kind_ == Kind::kLong) return true;
  WorkerContext& worker = session_.worker();
  if (!worker.pinned_long.take_over_from(pool(), connection_->carrier())) return false;
  kind_ = Kind::kLong;
  return true;
}

void Pin::send(std::string_view command, SlotTag tag, PinPlan plan) {
  owed_.push_back({tag, std::move(plan)});
  append(command);
  receive();
}

void Pin::refresh_login() {
  if (state_ != State::kReady || !login_.login_is_old() || in_multi_ || silence_ != Silence::kNone || !settled())
    return;
  // A client that has logged in by itself has no password here that changes.
  const upstream::Identity& identity = session_.client().identity;
  if (!identity.user.empty() && identity.credentials != login_.credentials) return;
  login_.take_login();
  send(login_.auth_command(), 0, {.effect = PinEffect::kSilent});
}

void Pin::append(std::string_view bytes) {
  out_.append(bytes);
  if (write_busy_ || std::exchange(flush_posted_, true)) return;
  session_.later([self = shared_from_this()] {
    self->flush_posted_ = false;
    self->flush();
  });
}

bool Pin::room() const {
  return out_.size() < kMostOut;
}

bool Pin::owes(PinEffect effect) const {
  return std::any_of(owed_.begin(), owed_.end(), [&](const Sent& sent) { return sent.plan.effect == effect; });
}

bool Pin::blocked() const {
  if (owed_.empty()) return false;
  const Sent& next = owed_.front();
  if (next.plan.effect == PinEffect::kSpeaks) return base::Clock::steady().now() - next.asked > kSilentFor;
  return next.plan.effect == PinEffect::kBlocking;
}

bool Pin::may_be_in_transaction() const {
  return in_multi_ || owes(PinEffect::kMulti);
}

bool Pin::holds_up() const {
  return std::any_of(owed_.begin(), owed_.end(), [](const Sent& sent) {
    const PinEffect effect = sent.plan.effect;
    return effect == PinEffect::kGreets || effect == PinEffect::kReset || effect == PinEffect::kSilences ||
           effect == PinEffect::kMonitors;
  });
}

bool Pin::subscribes() const {
  return subscriptions_.any() || owes(PinEffect::kSubscribes);
}

bool Pin::client_is_behind() const {
  return subscriptions_.any() || monitors_ ? session_.output_queued() >= kMostAhead : session_.output_full();
}

void Pin::flush() {
  if (state_ != State::kReady || write_busy_ || out_.empty()) return;
  std::swap(out_, writing_);
  const base::TimePoint now = base::Clock::steady().now();
  for (auto sent = owed_.rbegin(); sent != owed_.rend() && sent->asked == base::TimePoint{}; ++sent) sent->asked = now;
  write_busy_ = true;
  connection_->write({base::as_bytes(writing_)},
                     [self = shared_from_this()](std::error_code error) { self->wrote(error); });
  if (on_room_) std::exchange(on_room_, {})();
}

void Pin::wrote(std::error_code error) {
  write_busy_ = false;
  writing_.clear();
  if (writing_.capacity() > kMostOut) std::string().swap(writing_);
  if (state_ != State::kReady) return;
  // What the server said before it closed is still there to be read; the read ends too, with the reason.
  if (error) return receive();
  flush();
  if (!releasable() || !session_.release_pin()) session_.process();
}

void Pin::receive() {
  if (read_busy_ || state_ != State::kReady) return;
  if (client_is_behind()) {
    paused_ = true;
    return;
  }
  read_busy_ = true;
  connection_->read([self = shared_from_this()](std::error_code error, std::string_view bytes) {
    if (self->state_ != State::kReady) return;
    // The bytes stay where they are until the connection is read again or closed.
    self->session_.in_turn([self, error, bytes] {
      if (self->state_ != State::kReady) return;
      self->read_busy_ = false;
      if (error) return self->lost("the connection to the server was lost: " + error.message());
      self->take_bytes(bytes);
    });
  });
}

/// Nothing is owed: a read would keep the connection from going back, so it is watched for pushes and for its end.
void Pin::rest() {
  connection_->watch([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->receive();
  });
}

void Pin::take_bytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const resp::ReplyScanner::Step step = scanner_.scan(bytes);
    if (step.event == resp::ReplyScanner::Step::Event::kError)
      return lost("the server sent what is no RESP: " + std::string(scanner_.error()));
    const std::string_view piece = bytes.substr(0, step.consumed);
    bytes.remove_prefix(step.consumed);
    if (!deliver(piece, step.event == resp::ReplyScanner::Step::Event::kFrameEnd))
      return lost("the server sent a reply that nobody asked for");
    if (state_ != State::kReady) return;
  }
  if (session_.queued() + whole_.size() + push_.size() > session_.worker().options.client_buffer)
    return session_.close("it does not take its replies: more than limits.client_buffer are queued");
  if (!owed_.empty() || begun_ || !push_.empty()) return receive();
  if (releasable() && session_.release_pin()) return;
  rest();
  session_.process();
}

/// False: a frame that belongs to no command.
bool Pin::deliver(std::string_view piece, bool last) {
  if (scanner_.type() == 0) {
    held_.append(piece);
    return held_.size() <= kMostOut;
  }
  std::string whole;
  if (!held_.empty()) {
    whole = std::exchange(held_, {}).append(piece);
    piece = whole;
  }
  if (may_be_push()) {
    push_.append(piece);
    if (!last) return true;
    if (is_push()) {
      take_push();
      return true;
    }
    whole = std::exchange(push_, {});
    piece = whole;
  }
  if (owed_.empty()) return false;
  if (head_.size() < kHead) head_.append(piece.substr(0, kHead - head_.size()));
  if (holds_reply()) {
    whole_.append(piece);
    if (last) deliver_whole();
  } else if (owed_.front().plan.effect != PinEffect::kSilent) {
    session_.reply(owed_.front().tag, piece);
    begun_ = !last;
  }
  if (!last) return true;
  Sent sent = std::move(owed_.front());
  owed_.pop_front();
  replied(std::move(sent));
  head_.clear();
  return true;
}

/// Whether the frame under way has to be seen whole before it can be told from a reply.
bool Pin::may_be_push() const {
  switch (scanner_.type()) {
    case '>':
      return true;
    case '+':
      return monitors_;
    case '*': {
      const bool subscribes = !owed_.empty() && owed_.front().plan.effect == PinEffect::kSubscribes;
      return session_.client().protocol == resp::Protocol::kResp2 && (subscribes || subscriptions_.any());
    }
    default:
      return false;
  }
}

/// Of a whole frame in push_ for which may_be_push().
bool Pin::is_push() const {
  if (push_.starts_with('+')) return is_monitor_line(push_);
  if (!push_.starts_with('*')) return true;
  if (subscriptions_.is_message(push_)) return true;
  return !owed_.empty() && owed_.front().plan.effect == PinEffect::kSubscribes &&
         Subscriptions::answers(owed_.front().plan.subscribes, push_);
}

void Pin::take_push() {
  std::string push = std::exchange(push_, {});
  if (push.starts_with(kBrokenRedirId)) push = with_id(std::move(push), kBrokenRedirId, session_.client().redirect);
  session_.push(push);
  if (owed_.empty() || owed_.front().plan.effect != PinEffect::kSubscribes) return;
  if (!subscriptions_.take(owed_.front().plan.subscribes, push)) return;
  const Sent sent = std::move(owed_.front());
  owed_.pop_front();
  session_.asked(sent.tag, sent.asked);
  session_.finish_reply(sent.tag);
}

bool Pin::holds_reply() const {
  const PinPlan& plan = owed_.front().plan;
  return bool(plan.answer) || bool(plan.rewrite) || (plan.effect == PinEffect::kExec && !in_exec_.empty());
}

void Pin::deliver_whole() {
  Sent& sent = owed_.front();
  std::string whole = std::exchange(whole_, {});
  if (sent.plan.answer) return sent.plan.answer(whole);
  if (sent.plan.effect == PinEffect::kExec) {
    whole = executed(std::move(whole));
  } else if (!whole.starts_with("+QUEUED")) {
    whole = sent.plan.rewrite(std::move(whole));
  }
  session_.reply(sent.tag, whole);
}

/// EXEC's reply: each part is what its command would have been answered with, and takes effect now, as all have run.
std::string Pin::executed(std::string reply) {
  if (!reply.starts_with('*')) return reply;
  const std::size_t header = reply.find('\n') + 1;
  std::string rewritten = reply.substr(0, header);
  std::string_view rest = std::string_view(reply).substr(header);
  resp::ReplyScanner parts{resp::ReplyLimits{.max_depth = 16384}};
  auto next = in_exec_.begin();
  for (std::size_t place = 0; !rest.empty(); ++place) {
    std::string part(rest.substr(0, parts.scan(rest).consumed));
    rest.remove_prefix(part.size());
    if (next != in_exec_.end() && next->place == place) {
      const bool error = part.starts_with('-') || part.starts_with('!');
      if (next->plan.rewrite) part = next->plan.rewrite(std::move(part));
      if (next->plan.then && !error) next->plan.then();
      ++next;
    }
    rewritten += part;
  }
  return rewritten;
}

void Pin::replied(Sent sent) {
  const bool error = head_.starts_with('-') || head_.starts_with('!');
  const bool queued = head_.starts_with("+QUEUED");
  if (queued) {
    if (sent.plan.effect == PinEffect::kChanges || sent.plan.effect == PinEffect::kGreets) soiled_ = true;
    if (sent.plan.effect == PinEffect::kSpoils) spoilt_ = true;
    if (sent.plan.then || sent.plan.rewrite) in_exec_.push_back({queued_, std::move(sent.plan)});
    ++queued_;
  } else if (!error) {
    follow(sent.plan);
  } else if (sent.plan.effect == PinEffect::kExec) {
    // Refused for another reason (arity, ACL) the transaction is still open.
    if (head_.starts_with("-EXECABORT")) in_multi_ = watching_ = false;
    if (head_.starts_with("-ERR EXEC without")) in_multi_ = false;
  } else if (sent.plan.effect == PinEffect::kChanges || sent.plan.effect == PinEffect::kGreets ||
             sent.plan.effect == PinEffect::kReset) {
    soiled_ = true;
  }
  if (!in_multi_) {
    queued_ = 0;
    in_exec_.clear();
  }
  const bool answered_elsewhere = sent.plan.effect == PinEffect::kSilent || sent.plan.answer;
  if (answered_elsewhere) return;
  session_.asked(sent.tag, sent.asked);
  session_.finish_reply(sent.tag);
}

/// A command was done.
void Pin::follow(PinPlan& plan) {
  switch (plan.effect) {
    case PinEffect::kMulti:
      in_multi_ = true;
      break;
    case PinEffect::kExec:
    case PinEffect::kDiscard:
      in_multi_ = watching_ = false;
      break;
    case PinEffect::kWatch:
      watching_ = true;
      break;
    case PinEffect::kUnwatch:
      watching_ = false;
      break;
    case PinEffect::kReset:
      in_multi_ = watching_ = kept_ = monitors_ = false;
      silence_ = Silence::kNone;
      subscriptions_.clear();
      soiled_ = true;
      break;
    case PinEffect::kChanges:
    case PinEffect::kGreets:
      soiled_ = true;
      break;
    case PinEffect::kMonitors:
      monitors_ = spoilt_ = true;
      break;
    case PinEffect::kSpoils:
      spoilt_ = true;
      break;
    case PinEffect::kNone:
    case PinEffect::kSilent:
    case PinEffect::kBlocking:
    case PinEffect::kSubscribes:
    case PinEffect::kSilences:
    case PinEffect::kSpeaks:
      break;
  }
  if (plan.then) plan.then();
}

/// The server ended the connection. A client whose state was in it ends with it, as it would directly; else what is
/// owed is answered and the client lives on.
void Pin::lost(std::string reason) {
  const bool bound = in_multi_ || watching_ || kept_ || owes(PinEffect::kBlocking);
  const auto owed = std::exchange(owed_, {});
  close();
  if (session_.closed()) return;
  if (bound || session_.dedicated() || session_.has_operations()) return session_.end_with_server(reason);
  bool first = true;
  for (const Sent& sent : owed) {
    if (sent.plan.effect == PinEffect::kSilent) continue;
    if (std::exchange(first, false) && begun_ && !session_.retract_reply(sent.tag))
      return session_.close("the rest of a reply was lost: " + reason);
    session_.reply_error(sent.tag, "ERR keyferry: " + reason + "; the command may have run");
  }
  session_.pin_lost();
}

bool Pin::releasable() const {
  return state_ == State::kReady && settled() && !in_multi_ && !watching_ && !kept_ && !subscriptions_.any();
}

void Pin::release() {
  state_ = State::kOver;
  session_.worker().directory.pinned(session_.client().id, 0);
  connection_->watch({});
  if (spoilt_) {
    end_connection();
  } else if (soiled_) {
    pool().give_back_after_reset(std::move(connection_));
  } else {
    pool().give_back(std::move(connection_));
  }
}

std::unique_ptr<upstream::Connection> Pin::take(upstream::LendingPool*& its_pool) {
  its_pool = &pool();
  state_ = State::kOver;
  connection_->watch({});
  return std::move(connection_);
}

void Pin::end_connection() {
  const upstream::Carrier carrier = connection_->carrier();
  connection_->close();
  connection_.reset();
  pool().lost(carrier);
}

void Pin::close() {
  state_ = State::kOver;
  if (connection_) {
    end_connection();
    session_.worker().directory.pinned(session_.client().id, 0);
  }
  on_room_ = {};
}

void Pin::output_drained() {
  if (!std::exchange(paused_, false)) return;
  receive();
}

}  // namespace keyferry::gateway
