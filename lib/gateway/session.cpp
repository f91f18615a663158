#include "gateway/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>

namespace keyferry::gateway {

namespace {

// Commands of one client in flight on a shared channel, so that one pipeline can't fill it for the others.
constexpr std::size_t kMostOpenReplies = 256;
// The longest reply that a shared channel delivers whole; a longer one is paused when its client does not take it.
constexpr std::size_t kLongReply = 64 * base::kKiB;
// A command up to this size is read whole before a connection is asked for, so that a client that stops in the middle
// of one holds nothing that others need.
constexpr std::size_t kReadWhole = base::kMiB;
// What a client may send ahead while its earlier commands are carried out.
constexpr std::size_t kReadAhead = 64 * base::kKiB;
// So much of a command that is not complete is moved to memory of its own at once.
constexpr std::size_t kSmallRest = 2 * base::kKiB;
// A client that has sent no whole command for so long keeps no memory for the next one.
constexpr base::Duration kSettled = std::chrono::seconds(1);

resp::RequestLimits request_limits(const GatewayOptions& options) {
  resp::RequestLimits limits;
  limits.max_bulk = options.value_max;
  limits.max_command_bytes = std::min<std::uint64_t>(kReadWhole, options.client_buffer);
  // "Longer than": a value of exactly the threshold must be offered as a body.
  limits.body_threshold = std::min<std::uint64_t>(limits.body_threshold, options.threshold - 1);
  return limits;
}

}  // namespace

Session::Session(WorkerContext& worker, std::unique_ptr<base::Stream> stream, const ClientOrigin& origin)
    : worker_(worker),
      stream_(std::move(stream)),
      origin_(origin),
      bytes_(worker.metrics.client_bytes(origin.transport)),
      input_(worker.spare_input),
      parser_(request_limits(worker.options)),
      output_(&worker.metrics.deliver_get),
      slots_(output_, worker.engine.writes()),
      router_(*this, origin.dedicated),
      last_active_(base::Clock::steady().now()) {
  client_.id = origin.id;
  client_.protocol = origin.rules->protocol;
  forget_login();
  if (worker.slow.on()) {
    slow_.emplace(worker.slow, client_.id);
    slots_.watch_with(*slow_);
  }
}

Session::~Session() = default;

void Session::start() {
  worker_.directory.enter(facts(), worker_.loop, weak_from_this());
  read_more();
}

void Session::kill() {
  if (closed_) return;
  worker_.engine.end_client(client_.id);
  close("killed by another client");
}

void Session::attach(std::function<void()> done) {
  if (closed_) return done();
  router_.attach(std::move(done));
}

bool Session::must_log_in_at_first() const {
  return origin_.rules->require_auth || (worker_.login_needed && origin_.user == nullptr);
}

void Session::forget_login() {
  client_.identity = origin_.user != nullptr ? origin_.user->identity() : upstream::Identity{};
  must_log_in_ = must_log_in_at_first();
}

void Session::logged_in_as(std::string user, std::string password) {
  client_.identity.user = std::move(user);
  client_.identity.password = std::move(password);
  client_.identity.credentials.reset();
  must_log_in_ = false;
}

void Session::end_of_login(int code) {
  if (code != upstream::kLoginRefused && code != upstream::kLoginNeeded) return;
  spdlog::info("client {} ({}): ended, its user can no longer log in", client_.id, stream_->peer());
  close_after_output();
}

ClientFacts Session::facts() const {
  const bool unix_socket = origin_.transport == "unix";
  return {.id = client_.id,
          .peer = unix_socket ? std::string() : stream_->peer(),
          .local_address = origin_.local_address,
          .unix_socket = unix_socket,
          .dedicated = origin_.dedicated,
          .name = client_.name,
          .library_name = client_.library_name,
          .library_version = client_.library_version,
          .user = client_.identity.user.empty() ? worker_.options.user : client_.identity.user,
          .database = client_.identity.database,
          .protocol = static_cast<int>(client_.protocol),
          .redirect = client_.redirect,
          .since = since_,
          .activity = activity_};
}

void Session::tell_directory() {
  worker_.directory.update(facts());
}

// --- the input
// ---------------------------------------------------------------------------------------------------------------------------------

void Session::read_more() {
  if (reading_ || closed_ || input_ended_ || closing_ || input_owner_ != nullptr) return;
  // Reading on while commands wait tells of a client that goes away; a full buffer is the end of that.
  if (!may_go_on() || input_.size() >= kReadAhead) {
    if (input_.full() || output_full()) return;
  }
  input_.compact();
  if (input_.full()) return;
  reading_ = true;
  stream_->async_read_late([this] { return room_to_read(); },
                           [self = shared_from_this()](std::error_code error, std::size_t bytes) {
                             if (!self->has_read(error, bytes)) return;
                             self->input_.received(bytes);
                             self->needs_more_ = false;  // before it was looked at nobody knows
                             if (self->input_waiter_) {
                               base::Task waiter = std::move(self->input_waiter_);
                               waiter();
                             } else {
                               self->in_turn([self] { self->process(); });
                             }
                           });
}

/// For the read of the session's own. What lies in the input stays where it is while an operation may be writing it.
base::MutableBytes Session::room_to_read() {
  if (input_owner_ == nullptr) input_.grow(InputBuffer::kFirst);
  input_lent_ = true;
  return input_.tail();
}

void Session::start_read(std::span<const base::MutableBytes> buffers, base::UniqueFunction<void(std::size_t)> on_data) {
  // A stream tells its end once: a second read would wait for what never comes.
  if (input_ended_) return worker_.loop.post([self = shared_from_this()] { self->close("closed by the client"); });
  reading_ = true;
  stream_->async_read(buffers, [self = shared_from_this(), on_data = std::move(on_data)](std::error_code error,
                                                                                         std::size_t bytes) mutable {
    if (self->has_read(error, bytes)) on_data(bytes);
  });
}

/// A read has ended. False: it brought nothing, and what follows from that is done.
bool Session::has_read(std::error_code error, std::size_t bytes) {
  reading_ = input_lent_ = false;
  if (closed_) return false;
  if (!error) {
    bytes_.in.add(bytes);
    stall_.moved(bytes);
    return true;
  }
  if (base::is_end_of_stream(error)) {
    on_end_of_input();
  } else {
    close("read: " + error.message());
  }
  return false;
}

void Session::on_end_of_input() {
  input_ended_ = true;
  // As the server does: who closes while a command holds more than a place in a queue has given it up. Plain replies
  // are still delivered, for scripts that send, close their side and read.
  if (router_.has_operations() || (router_.blocked() && output_.empty())) return close("closed by the client");
  process();
}

/// The client has closed its side and all that it asked for is answered and taken.
void Session::close_if_over() {
  if (input_ended_ && all_answered() && output_.empty() && (input_.size() == 0 || needs_more_ || closing_))
    close("closed by the client");
}

void Session::process() {
  if (processing_ || closed_) return;
  processing_ = true;
  router_.advance_attach();
  while (!closing_ && !closed_ && input_owner_ == nullptr && may_go_on() && input_.size() != 0) {
    if (!take_command()) break;
  }
  processing_ = false;
  if (closed_ || input_owner_ != nullptr) return;
  if (!input_lent_) {
    // The beginning of a command waits by itself, so that the others may have the buffer that it was read into.
    if (needs_more_ && input_.size() != 0 && input_.size() <= kSmallRest) {
      input_.fit();
    } else {
      input_.release();
    }
    account();
  }
  read_more();
  close_if_over();
}

bool Session::may_go_on() const {
  // All replies under way must fit into what may be queued for this client (limits.client_buffer).
  const std::size_t most_open =
      std::clamp<std::size_t>(worker_.options.client_buffer / kLongReply, 1, kMostOpenReplies);
  // How much a stranger's next command may hold is known when its login is over.
  const bool login_decides = must_log_in_ && router_.has_operations();
  return !login_decides && !output_full() && slots_.open_count() < most_open &&
         worker_.buffered < worker_.options.worker_buffer;
}

/// One step of the parser. False: nothing more can be done now.
bool Session::take_command() {
  using Event = resp::RequestParser::Event;
  // Asked again the parser would take the body for one that is to be buffered.
  if (body_offered_) return begins(router_.take_body());
  if (parser_.limits().authenticated == must_log_in_) {
    resp::RequestLimits limits = parser_.limits();
    limits.authenticated = !must_log_in_;
    parser_.set_limits(limits);
  }
  const std::string_view input = input_.view();
  Event event = parser_.parse(input);
  while (event == Event::kBody && reads_whole()) event = parser_.parse(input);
  needs_more_ = event == Event::kNeedMore;
  switch (event) {
    case Event::kNeedMore:
      make_room();
      return false;
    case Event::kSkip:
      if (!router_.pass_nothing()) return begins(false);
      end_command(parser_.size());
      return true;
    case Event::kError:
      if (!all_answered()) return begins(false);
      protocol_error(parser_.error());
      return false;
    case Event::kCommand:
      return begins(router_.dispatch(parser_.args(input), input.substr(0, parser_.size())));
    case Event::kBody:
      body_offered_ = true;
      return begins(router_.take_body());
  }
  return false;
}

bool Session::all_answered() const {
  return slots_.open_count() == 0 && !router_.has_operations() && !router_.waits_for_pin() && !router_.has_unsent();
}

/// A command that can't begin yet waits from now on, or does already.
bool Session::begins(bool begun) {
  if (!begun && !held_up_ && !closed_) held_up_ = base::Clock::steady().now();
  return begun;
}

/// Whether the large argument that the parser has just offered is read like any other: not the value of a large SET,
/// and not what exceeds kReadWhole.
bool Session::reads_whole() {
  if (parser_.must_stream()) return false;
  if (parser_.body_length() < worker_.options.threshold) return true;
  return !router_.is_large_set(parser_.args(input_.view()));
}

/// For a command that is longer than the input buffer; at most kReadWhole, and within limits.total_buffer.
void Session::make_room() {
  if (!input_.full() || reading_) return;
  if (worker_.buffered + input_.capacity() > worker_.options.worker_buffer) {
    const SlotTag tag = open_reply(CommandClass::kLocal);
    reply_error(tag, "ERR keyferry: no memory to read this command: limits.total_buffer is reached");
    return close_after_output();
  }
  input_.grow(input_.capacity() * 2);
  account();
}

void Session::end_command(std::size_t bytes) {
  parser_.next();
  held_up_.reset();
  input_.consume(bytes);
  activity_->bytes_in.fetch_add(bytes, std::memory_order_relaxed);
  was_active();
}

void Session::was_active() {
  last_active_ = base::Clock::steady().now();
  activity_->last.store(last_active_, std::memory_order_relaxed);
}

// --- for operations
// ----------------------------------------------------------------------------------------------------------------------------

void Session::consume_input(std::size_t bytes) {
  input_.consume(bytes);
  activity_->bytes_in.fetch_add(bytes, std::memory_order_relaxed);
}

void Session::replace_input_owner(const Operation& old, Operation* next) {
  if (input_owner_ == &old) input_owner_ = next;
}

void Session::read_input(std::size_t capacity, base::Task on_data) {
  if (reading_) {
    input_waiter_ = std::move(on_data);
    return;
  }
  input_.grow(capacity);
  const std::array<base::MutableBytes, 1> room{input_.room()};
  input_lent_ = true;
  start_read(room, [this, on_data = std::move(on_data)](std::size_t bytes) mutable {
    input_.received(bytes);
    // Another operation may have taken the input over meanwhile.
    if (!input_waiter_) return on_data();
    base::Task waiter = std::move(input_waiter_);
    waiter();
  });
}

void Session::read_into(std::vector<base::MutableBytes> memory, Behind behind,
                        base::UniqueFunction<void(std::size_t)> on_data) {
  if (reading_) {
    input_waiter_ = [on_data = std::move(on_data)]() mutable { on_data(0); };
    return;
  }
  if (behind == Behind::kStays) return start_read(memory, std::move(on_data));
  std::size_t wanted = 0;
  for (const base::MutableBytes& one : memory) wanted += one.size();
  memory.push_back(input_.room());
  input_lent_ = true;
  start_read(memory, [this, wanted, on_data = std::move(on_data)](std::size_t bytes) mutable {
    const std::size_t taken = std::min(bytes, wanted);
    input_.received(bytes - taken);
    on_data(taken);
  });
}

void Session::give_input_to(Operation* operation) {
  body_offered_ = false;
  held_up_.reset();
  input_owner_ = operation;
}

void Session::input_done() {
  input_owner_ = nullptr;
  was_active();
  if (processing_) return;
  // Its operation goes on without the input: reading on tells of a client that goes away. What came with its end is
  // looked at first, once the operation has gone on: it waits from now on.
  if (input_.size() == 0) return read_more();
  worker_.loop.post([self = shared_from_this()] { self->process(); });
}

// --- its end
// ----------------------------------------------------------------------------------------------------------------------------------

void Session::close(std::string_view reason) {
  if (closed_) return;
  closed_ = true;
  if (!reason.empty()) spdlog::debug("client {} ({}): {}", client_.id, stream_->peer(), reason);
  stream_->close();
  slots_.clear();
  // A write under way may still be reading the queue.
  if (!writing_) output_.clear();
  worker_.buffered -= accounted_;
  accounted_ = 0;
  input_waiter_.reset();
  router_.client_gone();
  worker_.kept_loan.drop(client_.id);
  worker_.directory.remove(client_.id);
  worker_.client_left(client_.id);
}

void Session::tick(base::TimePoint now) {
  if (closed_) return;
  // It closed its side before its blocking command went to the server: an element that was there is still delivered,
  // but nothing would ever tell that nobody waits for a later one.
  // Behind it and a full buffer nothing is read any more, so the end of the input is looked for.
  const bool left = router_.blocked() && (input_ended_ || (!reading_ && stream_->peer_closed()));
  if (std::exchange(left_waiting_, left) && left) return close("closed by the client");
  const bool holds_something = output_.holds_value() || router_.holds_something();
  const bool waited_for =
      (writing_ && (holds_something || closing_)) || (input_owner_ != nullptr && !input_owner_->patient() && reading_);
  // What lies in the kernel's send buffer was not taken by the client: that has room in large steps only.
  const std::size_t unsent = waited_for ? stream_->unsent() : 0;
  if (stall_.stalled(now, waited_for, unsent, worker_.options.stall)) {
    spdlog::info(
        "client {} ({}): closed, it moved less than 64 KiB within limits.stall while memory or a connection waited for "
        "it",
        client_.id, stream_->peer());
    return close("stalled");
  }
  const base::Duration idle_limit = worker_.options.client_idle;
  if (idle_limit != base::Duration{} && idle() && input_owner_ == nullptr && !router_.listens() &&
      now - last_active_ >= idle_limit)
    return close("idle longer than limits.client_idle");
  router_.refresh_login();
  settle(now);
  // What waits for the worker's budget (limits.total_buffer) is woken by nothing of its own.
  process();
}

/// Of a client that has been idle for a second and may be for hours, nothing is kept that its last burst has needed.
void Session::settle(base::TimePoint now) {
  if (slots_.open_count() != 0 || input_owner_ != nullptr || writing_ || now - last_active_ < kSettled) return;
  output_.fit();
  slots_.fit();
  parser_.fit();
  // What waits there to begin may give the input to an operation, which needs the room that there is.
  if (!input_lent_ && (input_.size() == 0 || needs_more_)) input_.fit();
  account();
}

}  // namespace keyferry::gateway
