#include "gateway/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "gateway/blob_get.h"
#include "gateway/blob_set.h"
#include "gateway/bulk_exchange.h"
#include "gateway/command_table.h"
#include "gateway/drop_input.h"
#include "gateway/local_commands.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

// A client whose replies queue beyond this is not served further until it has taken them (R31).
constexpr std::size_t kHighWater = base::kMiB;
// Commands of one client in flight on a shared channel, so that one pipeline can't fill it for the others.
constexpr std::size_t kMostOpenReplies = 256;
// The longest reply that a shared channel delivers whole; a longer one is paused when its client does not take it.
constexpr std::size_t kLongReply = 64 * base::kKiB;
constexpr std::size_t kMostOverlappingGets = 4;
// One write: a worker is never busy with one client's value for longer than this takes (promise 5).
constexpr std::size_t kWriteBytes = 512 * base::kKiB;
// A command up to this size is read whole before a connection is asked for, so that a client that stops in the middle
// of one holds nothing that others need.
constexpr std::size_t kReadWhole = base::kMiB;
// A larger command does not go by a shared channel (R33).
constexpr std::size_t kMostShared = 64 * base::kKiB + 512;
// What a client may send ahead while its earlier commands are carried out.
constexpr std::size_t kReadAhead = 64 * base::kKiB;
// Less than this within limits.stall is no progress.
constexpr std::uint64_t kStallBytes = 64 * base::kKiB;

resp::RequestLimits request_limits(const GatewayOptions& options) {
  resp::RequestLimits limits;
  limits.max_bulk = options.value_max;
  limits.max_command_bytes = std::min<std::uint64_t>(kReadWhole, options.client_buffer);
  // "Longer than": a value of exactly the threshold must be offered as a body.
  limits.body_threshold = std::min<std::uint64_t>(limits.body_threshold, options.threshold - 1);
  return limits;
}

}  // namespace

Session::Session(WorkerContext& worker, std::unique_ptr<base::Stream> stream, std::uint64_t id,
                 std::string_view listener_transport)
    : worker_(worker),
      stream_(std::move(stream)),
      bytes_in_(worker.metrics.shard.counter(telemetry::Metric::kBytesTotal, {"in", "client", listener_transport})),
      bytes_out_(worker.metrics.shard.counter(telemetry::Metric::kBytesTotal, {"out", "client", listener_transport})),
      parser_(request_limits(worker.options)),
      slots_(output_),
      last_active_(base::Clock::steady().now()) {
  client_.id = id;
  output_.on_value_written(
      [&histogram = worker.metrics.deliver_get](base::Duration waited) { histogram.observe(base::seconds(waited)); });
}

Session::~Session() = default;

void Session::start() {
  read_more();
}

// --- the input
// ---------------------------------------------------------------------------------------------------------------------------------

void Session::read_more() {
  if (reading_ || closed_ || input_ended_ || closing_ || input_owner_ != nullptr) return;
  // Reading on while commands wait tells of a client that goes away; a full buffer is the end of that.
  if (!may_go_on() || input_.size() >= kReadAhead) {
    if (input_.full() || output_full()) return;
  }
  const std::array<base::MutableBytes, 1> room{input_.room()};
  if (room[0].empty()) return;
  start_read(room, [this](std::size_t bytes) {
    input_.received(bytes);
    if (input_waiter_) {
      base::Task waiter = std::move(input_waiter_);
      waiter();
    } else {
      process();
    }
  });
}

void Session::start_read(std::span<const base::MutableBytes> buffers, base::UniqueFunction<void(std::size_t)> on_data) {
  reading_ = true;
  stream_->async_read(buffers, [self = shared_from_this(), on_data = std::move(on_data)](std::error_code error,
                                                                                         std::size_t bytes) mutable {
    self->reading_ = false;
    if (self->closed_) return;
    if (error) {
      if (base::is_end_of_stream(error)) {
        self->on_end_of_input();
      } else {
        self->close("read: " + error.message());
      }
      return;
    }
    self->bytes_in_.add(bytes);
    self->moved_ += bytes;
    on_data(bytes);
  });
}

void Session::on_end_of_input() {
  input_ended_ = true;
  // As the server does: who closes while a command holds more than a place in a queue has given it up. Plain replies
  // are still delivered, for scripts that send, close their side and read.
  if (!operations_.empty()) return close("closed by the client");
  process();
}

/// The client has closed its side and all that it asked for is answered and taken.
void Session::close_if_over() {
  if (input_ended_ && slots_.open_count() == 0 && operations_.empty() && output_.empty()) close("closed by the client");
}

void Session::process() {
  if (processing_ || closed_) return;
  processing_ = true;
  while (!closing_ && !closed_ && input_owner_ == nullptr && may_go_on() && input_.size() != 0) {
    if (!take_command()) break;
  }
  processing_ = false;
  if (closed_ || input_owner_ != nullptr) return;
  if (!reading_) {
    input_.shrink(4 * InputBuffer::kFirst);
    account();
  }
  read_more();
  close_if_over();
}

bool Session::may_go_on() const {
  // All replies under way must fit into what may be queued for this client (limits.client_buffer).
  const std::size_t most_open =
      std::clamp<std::size_t>(worker_.options.client_buffer / kLongReply, 1, kMostOpenReplies);
  return !output_full() && slots_.open_count() < most_open && worker_.buffered < worker_.options.worker_buffer;
}

bool Session::output_full() const {
  return output_.buffered() + slots_.buffered() >= kHighWater;
}

/// One step of the parser. False: nothing more can be done now.
bool Session::take_command() {
  using Event = resp::RequestParser::Event;
  // Asked again the parser would take the body for one that is to be buffered.
  if (body_offered_) return take_body();
  const std::string_view input = input_.view();
  Event event = parser_.parse(input);
  while (event == Event::kBody && reads_whole()) event = parser_.parse(input);
  switch (event) {
    case Event::kNeedMore:
      make_room();
      return false;
    case Event::kSkip:
      end_command(parser_.size());
      return true;
    case Event::kError:
      protocol_error(parser_.error());
      return false;
    case Event::kCommand:
      return dispatch(parser_.args(input), input.substr(0, parser_.size()));
    case Event::kBody:
      body_offered_ = true;
      return take_body();
  }
  return false;
}

/// Whether the large argument that the parser has just offered is read like any other: not the value of a large SET,
/// and not what exceeds kReadWhole.
bool Session::reads_whole() {
  if (parser_.must_stream()) return false;
  if (parser_.body_length() < worker_.options.threshold) return true;
  const std::span<const std::string_view> args = parser_.args(input_.view());
  return args.empty() || classify(args).route != Route::kBlobSet;
}

/// For a command that is longer than the input buffer; at most kReadWhole, and within limits.total_buffer.
void Session::make_room() {
  if (!input_.full() || reading_) return;
  if (worker_.buffered + input_.capacity() > worker_.options.worker_buffer) {
    const SlotTag tag = slots_.open(CommandClass::kLocal, base::Clock::steady().now());
    reply_error(tag, "ERR keyferry: no memory to read this command: limits.total_buffer is reached");
    return close_after_output();
  }
  input_.grow(input_.capacity() * 2);
  account();
}

void Session::end_command(std::size_t bytes) {
  parser_.next();
  input_.consume(bytes);
  last_active_ = base::Clock::steady().now();
}

bool Session::dispatch(std::span<const std::string_view> args, std::string_view raw) {
  const Classified command = classify(args);
  switch (command.route) {
    case Route::kOrdinary:
      return forward(args, raw);
    case Route::kRefused:
      refuse(command.refusal);
      end_command(raw.size());
      return true;
    case Route::kHangUp:
      close("it sent a line of HTTP");
      return false;
    case Route::kLocal: {
      const SlotTag tag = slots_.open(CommandClass::kLocal, base::Clock::steady().now());
      run_local(*this, args, tag);
      end_command(raw.size());
      return true;
    }
    case Route::kBlobGet:
    case Route::kBlobSet:
      return start_blob(command.route, args, raw);
  }
  return false;
}

bool Session::start_blob(Route route, std::span<const std::string_view> args, std::string_view raw) {
  const bool large = route == Route::kBlobGet && args.size() == 2;
  // Small, or with arguments that the server will judge: as it is, on a connection of its own, because the module
  // blocks it meanwhile.
  if (!large) return forward_alone(args, raw, route == Route::kBlobSet ? "set" : "get");
  if (!operation_may_start(true)) return false;
  const SlotTag tag = slots_.open(CommandClass::kTransferGet, base::Clock::steady().now());
  auto operation = std::make_shared<BlobGet>(*this, tag, std::string(args[1]));
  end_command(raw.size());
  start_operation(std::move(operation), false);
  return true;
}

/// A whole command on a connection of its own. `counted_as`: see BulkExchange::count_as; empty for ordinary commands.
bool Session::forward_alone(std::span<const std::string_view> args, std::string_view raw, std::string_view counted_as) {
  if (!operation_may_start(false)) return false;
  std::string bytes;
  resp::append_command(bytes, args);
  const SlotTag tag = slots_.open(CommandClass::kBulk, base::Clock::steady().now());
  auto exchange = std::make_shared<BulkExchange>(*this, tag, BulkSource::whole(std::move(bytes)));
  if (!counted_as.empty()) exchange->count_as(counted_as, false);
  end_command(raw.size());
  start_operation(std::move(exchange), false);
  return true;
}

bool Session::forward(std::span<const std::string_view> args, std::string_view raw) {
  if (raw.size() > kMostShared) return forward_alone(args, raw, {});
  if (!ordinary_may_start()) return false;
  const SlotTag tag = slots_.open(CommandClass::kOrdinary, base::Clock::steady().now());
  upstream::Channel& to = *channel();
  ++outstanding_;
  if (parser_.is_inline()) {
    std::string bytes;
    resp::append_command(bytes, args);
    worker_.metrics.server_out.add(bytes.size());
    to.send(bytes, *this, tag);
  } else {
    worker_.metrics.server_out.add(raw.size());
    to.send(raw, *this, tag);
  }
  end_command(raw.size());
  return true;
}

bool Session::ordinary_may_start() const {
  if (!operations_.empty()) return false;
  if (outstanding_ == 0) return true;
  return channel_->accepts() && channel_protocol_ == client_.protocol;
}

bool Session::operation_may_start(bool get) const {
  if (outstanding_ != 0) return false;
  if (operations_.empty()) return true;
  return get && operations_.size() < kMostOverlappingGets &&
         std::all_of(operations_.begin(), operations_.end(), [](const auto& operation) { return operation->is_get(); });
}

/// A command with a large argument, whose body has not been taken yet (R11).
bool Session::take_body() {
  const std::span<const std::string_view> args = parser_.args(input_.view());
  const Classified command = args.empty() ? Classified{} : classify(args);
  if (command.route == Route::kRefused) {
    refuse_large(command.refusal);
    return true;
  }
  if (command.route == Route::kHangUp) {
    close("it sent a line of HTTP");
    return false;
  }
  if (command.route == Route::kLocal) {
    refuse_large("ERR keyferry: an argument of this command is too long");
    return true;
  }
  if (!operation_may_start(false)) return false;
  const bool set = command.route == Route::kBlobSet && parser_.argc() == 3 && parser_.body_index() == 2 &&
                   parser_.body_length() >= worker_.options.threshold;
  if (set && start_large_set()) return true;
  auto exchange = std::make_shared<BulkExchange>(*this, slots_.open(CommandClass::kBulk, base::Clock::steady().now()),
                                                 BulkSource::from_input());
  if (command.route == Route::kBlobSet) exchange->count_as("set", false);
  start_operation(std::move(exchange), true);
  return true;
}

/// False: the value goes as BLOB.TCP_SET, which was counted with its reason.
bool Session::start_large_set() {
  if (!worker_.engine.available()) {
    worker_.metrics.count_fallback(worker_.engine.unavailable_reason());
    return false;
  }
  if (parser_.body_length() > worker_.engine.largest_value()) {
    worker_.metrics.count_fallback("larger_than_half_the_pool");
    return false;
  }
  const std::span<const std::string_view> args = parser_.args(input_.view());
  const SlotTag tag = slots_.open(CommandClass::kTransferSet, base::Clock::steady().now());
  start_operation(
      std::make_shared<BlobSet>(*this, tag, std::string(args[1]), parser_.body_length(), !has_undelivered()), true);
  return true;
}

void Session::start_operation(std::shared_ptr<Operation> operation, bool owns_input) {
  if (owns_input) body_offered_ = false;
  operations_.push_back(operation);
  if (owns_input) input_owner_ = operation.get();
  operation->start();
}

void Session::refuse(std::string_view text) {
  const SlotTag tag = slots_.open(CommandClass::kLocal, base::Clock::steady().now());
  reply_error(tag, text);
}

void Session::refuse_large(std::string_view text) {
  refuse(text);
  start_operation(DropInput::whole_command(*this), true);
}

// --- for operations
// ----------------------------------------------------------------------------------------------------------------------------

void Session::consume_input(std::size_t bytes) {
  input_.consume(bytes);
}

void Session::read_input(std::size_t capacity, base::Task on_data) {
  if (reading_) {
    input_waiter_ = std::move(on_data);
    return;
  }
  input_.grow(capacity);
  const std::array<base::MutableBytes, 1> room{input_.room()};
  start_read(room, [this, on_data = std::move(on_data)](std::size_t bytes) mutable {
    input_.received(bytes);
    on_data();
  });
}

void Session::read_into(std::vector<base::MutableBytes> memory, base::UniqueFunction<void(std::size_t)> on_data) {
  if (reading_) {
    input_waiter_ = [on_data = std::move(on_data)]() mutable { on_data(0); };
    return;
  }
  start_read(memory, std::move(on_data));
}

void Session::input_done() {
  input_owner_ = nullptr;
  last_active_ = base::Clock::steady().now();
  // Its operation goes on without the input: reading on tells of a client that goes away.
  if (!processing_) read_more();
}

void Session::operation_done(Operation& operation) {
  const auto found =
      std::find_if(operations_.begin(), operations_.end(), [&](const auto& one) { return one.get() == &operation; });
  if (found == operations_.end()) return;
  const std::shared_ptr<Operation> keep = *found;
  operations_.erase(found);
  if (input_owner_ == &operation) input_owner_ = nullptr;
  if (closed_) return;
  advance_gets();
  process();
}

void Session::continue_with(Operation& old, std::shared_ptr<Operation> next) {
  const auto found =
      std::find_if(operations_.begin(), operations_.end(), [&](const auto& one) { return one.get() == &old; });
  if (found == operations_.end() || closed_) return operation_done(old);
  const std::shared_ptr<Operation> keep = std::exchange(*found, next);
  if (input_owner_ == &old) input_owner_ = next.get();
  next->start();
  advance_gets();
}

void Session::advance_gets() {
  // Values that the client has not taken yet count, too: who reads slowly must not gather the pool.
  std::size_t held = output_.values() + slots_.values();
  // Copied: asking may end an operation at once, which changes the list.
  for (const std::shared_ptr<Operation>& operation : std::vector(operations_)) {
    if (operation->wants_lease()) {
      if (held >= kMostOverlappingGets) return;
      operation->ask_for_lease();
    }
    if (!operation->past_lease()) return;
    ++held;
  }
}

const std::shared_ptr<upstream::Channel>& Session::channel() {
  if (!channel_ || (outstanding_ == 0 &&
                    (!channel_->accepts() || channel_protocol_ != client_.protocol || channel_->pending() != 0))) {
    channel_ = worker_.channels.pick(client_.protocol);
    channel_protocol_ = client_.protocol;
  }
  return channel_;
}

// --- replies
// -----------------------------------------------------------------------------------------------------------------------------------

bool Session::on_reply(std::uint64_t tag, std::string_view bytes, bool last) {
  worker_.metrics.server_in.add(bytes.size());
  if (last) --outstanding_;
  if (closed_) return true;
  slots_.append(tag, bytes);
  if (last) finish_reply(tag);
  account();
  schedule_flush();
  if (output_.buffered() + slots_.buffered() > worker_.options.client_buffer) {
    close("it does not take its replies: more than limits.client_buffer are queued");
    return true;
  }
  channel_paused_ = output_full() && channel_->retired();
  return !channel_paused_;
}

void Session::on_reply_lost(std::uint64_t tag, upstream::Lost lost, bool begun, std::string_view reason) {
  --outstanding_;
  channel_paused_ = false;
  if (closed_) return;
  if (begun && !slots_.retract(tag)) {
    // Half a reply has left: nothing that could follow would be understood (promise 1).
    return close("the rest of a reply was lost: " + std::string(reason));
  }
  std::string text = "ERR keyferry: " + std::string(reason);
  text += lost == upstream::Lost::kNotSent ? "; the command was not sent" : "; the command may have run";
  reply_error(tag, text);
}

void Session::reply(SlotTag tag, std::string_view bytes) {
  if (closed_) return;
  slots_.append(tag, bytes);
  account();
  schedule_flush();
}

void Session::reply_error(SlotTag tag, std::string_view text) {
  std::string bytes;
  resp::append_error(bytes, text);
  reply(tag, bytes);
  finish_reply(tag);
}

void Session::reply_value(SlotTag tag, transfer::CheckedValue value) {
  if (closed_) return;
  slots_.append_value(tag, std::move(value));
  account();
  schedule_flush();
}

void Session::finish_reply(SlotTag tag) {
  if (closed_) return;
  const auto index = static_cast<std::size_t>(slots_.command_class(tag));
  worker_.metrics.commands[index]->add();
  worker_.metrics.command_seconds[index]->observe(base::seconds(base::Clock::steady().now() - slots_.opened(tag)));
  slots_.finish(tag);
  schedule_flush();
}

void Session::protocol_error(std::string_view text) {
  if (closed_ || closing_) return;
  const SlotTag tag = slots_.open(CommandClass::kLocal, base::Clock::steady().now());
  reply_error(tag, "ERR " + std::string(text));
  close_after_output();
}

void Session::close_after_output() {
  closing_ = true;
  schedule_flush();
}

void Session::account() {
  const std::uint64_t input = input_.capacity() > InputBuffer::kFirst ? input_.capacity() : 0;
  const std::uint64_t now = output_.buffered() + slots_.buffered() + input;
  worker_.buffered += now - accounted_;
  accounted_ = now;
}

// --- the output
// --------------------------------------------------------------------------------------------------------------------------------

void Session::schedule_flush() {
  if (flush_scheduled_ || closed_) return;
  flush_scheduled_ = true;
  // Once a turn of the loop: the replies of a pipeline leave in one write. Commands that waited for these replies go
  // on, whether or not the client takes anything: it may be sending first.
  worker_.loop.post([self = shared_from_this()] {
    self->flush_scheduled_ = false;
    self->flush();
    self->process();
  });
}

void Session::flush() {
  if (writing_ || closed_) return;
  if (output_.empty()) return after_output();
  writing_ = true;
  stream_->async_write(
      output_.gather(base::Stream::kMaxSpans, kWriteBytes),
      [self = shared_from_this()](std::error_code error, std::size_t bytes) { self->on_written(error, bytes); });
}

void Session::on_written(std::error_code error, std::size_t bytes) {
  writing_ = false;
  if (closed_) {
    output_.clear();
    return;
  }
  if (error) return close("write: " + error.message());
  bytes_out_.add(bytes);
  moved_ += bytes;
  output_.written(bytes);
  account();
  if (!output_full()) after_output();
  flush();
}

/// There is room again: whoever waited for it goes on.
void Session::after_output() {
  if (closed_) return;
  if (closing_ && output_.empty() && slots_.open_count() == 0) return close("");
  if (channel_paused_) {
    channel_paused_ = false;
    channel_->resume();
  }
  for (const std::shared_ptr<Operation>& operation : std::vector(operations_)) operation->output_drained();
  advance_gets();
  process();
}

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
  if (channel_paused_) {
    channel_paused_ = false;
    channel_->resume();
  }
  input_waiter_.reset();
  for (const std::shared_ptr<Operation>& operation : std::vector(operations_)) operation->client_gone();
}

void Session::tick(base::TimePoint now) {
  if (closed_) return;
  const bool holds_something = output_.holds_value() || !operations_.empty() || channel_paused_;
  const bool waited_for = (writing_ && holds_something) || (input_owner_ != nullptr && reading_);
  // What lies in the kernel's send buffer was not taken by the client: that has room in steps of megabytes only.
  const std::uint64_t moved = waited_for ? moved_ - std::min<std::uint64_t>(moved_, stream_->unsent()) : moved_;
  if (!waited_for || moved >= moved_mark_ + kStallBytes || mark_time_ == base::TimePoint{}) {
    moved_mark_ = moved;
    mark_time_ = now;
  } else if (now - mark_time_ >= worker_.options.stall) {
    spdlog::info(
        "client {} ({}): closed, it moved less than 64 KiB within limits.stall while memory or a connection waited for "
        "it",
        client_.id, stream_->peer());
    return close("stalled");
  }
  const base::Duration idle_limit = worker_.options.client_idle;
  if (idle_limit != base::Duration{} && idle() && now - last_active_ >= idle_limit)
    close("idle longer than limits.client_idle");
  // What waits for the worker's budget (limits.total_buffer) is woken by nothing of its own.
  process();
}

}  // namespace keyferry::gateway
