#include <spdlog/spdlog.h>

#include <utility>

#include "gateway/command_effects.h"
#include "gateway/session.h"
#include "resp/writer.h"

// The part of the Session that answers: the places of its replies, and what leaves.

namespace keyferry::gateway {

namespace {

// A client whose replies queue beyond this is not served further until it has taken them (R31).
constexpr std::size_t kHighWater = base::kMiB;
// One write: a worker is never busy with one client's value for longer than this takes (promise 5).
// The last 4 KiB are for the reply's ends, so that a value of whole MiB needs no write more for them.
constexpr std::size_t kWriteBytes = 516 * base::kKiB;
// Of one hand-over to the copier, after which limits.stall sees what has moved.
constexpr std::size_t kCopierBytes = 8 * base::kMiB;

}  // namespace

// --- replies
// -----------------------------------------------------------------------------------------------------------------------------------

SlotTag Session::open_reply(CommandClass command_class) {
  const bool local = command_class == CommandClass::kLocal;
  const auto held_up = std::exchange(held_up_, std::nullopt);
  return slots_.open(command_class, held_up ? *held_up : base::Clock::steady().now(),
                     local ? ReplySlots::Mark::kNothing : may_write(),
                     activity_->command.load(std::memory_order_relaxed));
}

/// What the command that the parser gave may write (WriteMarks).
ReplySlots::Mark Session::may_write() {
  const transfer::WriteMarks& writes = worker_.engine.writes();
  if (!writes.any_immutable()) return ReplySlots::Mark::kNothing;
  return write_mark(writes, parser_.args(input_.view()), !body_offered_);
}

void Session::reply(SlotTag tag, std::string_view bytes) {
  if (closed_) return;
  // It has become a replica, or the name leads elsewhere now (R46).
  if (bytes.starts_with("-READONLY") && speaks_of_its_server(tag) && worker_.where.doubt(base::Clock::steady().now())) {
    spdlog::warn("{}: a server answered READONLY: new connections are made, by its name as it is now",
                 worker_.options.node);
    worker_.channels.review();
  }
  slots_.append(tag, bytes);
  account();
  schedule_flush();
}

/// Whether the bytes begin a reply, from a connection that leads where new ones lead; scripts say what they like.
bool Session::speaks_of_its_server(SlotTag tag) const {
  const CommandRow* const row = slots_.row(tag);
  const bool script = row != nullptr && (row->name.starts_with("EVAL") || row->name.starts_with("FCALL"));
  return !script && slots_.is_blank(tag) && !router_.misplaced();
}

void Session::reply_error(SlotTag tag, std::string_view text) {
  std::string bytes;
  resp::append_error(bytes, text);
  reply(tag, bytes);
  finish_reply(tag);
}

void Session::reply_value(SlotTag tag, transfer::SharedValue value) {
  if (closed_) return;
  slots_.append_value(tag, std::move(value));
  account();
  schedule_flush();
}

void Session::finish_reply(SlotTag tag) {
  if (closed_) return;
  const auto index = static_cast<std::size_t>(slots_.command_class(tag));
  worker_.metrics.commands[index]->add();
  const base::TimePoint now = base::Clock::steady().now();
  worker_.metrics.command_seconds[index]->observe(base::seconds(now - slots_.opened(tag)));
  activity_->commands.fetch_add(1, std::memory_order_relaxed);
  note_login_change(tag);
  slots_.finish(tag, now);
  schedule_flush();
}

/// Before the reply leaves. Such a command in a transaction is queued first and takes effect with EXEC.
void Session::note_login_change(SlotTag tag) {
  const CommandRow* const row = slots_.row(tag);
  // What was refused here has changed nothing.
  if (row == nullptr || slots_.command_class(tag) == CommandClass::kLocal) return;
  if (may_change_logins(*row)) {
    login_change_queued_ = true;
  } else if (!login_change_queued_ || row->name != "EXEC") {
    return;
  } else {
    login_change_queued_ = false;
  }
  worker_.login_changes.count();
}

void Session::asked(SlotTag tag, base::TimePoint when) {
  if (slow_ && slots_.is_open(tag)) slots_.asked(tag, when);
}

void Session::protocol_error(std::string_view text) {
  if (closed_ || closing_) return;
  if (router_.is_silent()) return close_after_output();
  const SlotTag tag = open_reply(CommandClass::kLocal);
  reply_error(tag, "ERR " + std::string(text));
  close_after_output();
}

void Session::close_after_output() {
  closing_ = true;
  worker_.directory.remove(client_.id);
  schedule_flush();
}

void Session::push(std::string_view bytes) {
  if (closed_ || closing_) return;
  slots_.append_push(bytes);
  account();
  schedule_flush();
}

void Session::end_with_server(std::string_view reason) {
  if (router_.has_operations()) return close(reason);
  spdlog::debug("client {} ({}): {}", client_.id, stream_->peer(), reason);
  slots_.clear();
  close_after_output();
}

void Session::account() {
  const std::uint64_t input = input_.capacity() > InputBuffer::kFirst ? input_.capacity() : 0;
  const std::uint64_t output = output_queued();
  const std::uint64_t now = output + input;
  activity_->output.store(output, std::memory_order_relaxed);
  worker_.buffered += now - accounted_;
  accounted_ = now;
}

bool Session::output_full() const {
  return output_queued() >= kHighWater;
}

// --- the output
// --------------------------------------------------------------------------------------------------------------------------------

void Session::schedule_flush() {
  if (flush_scheduled_ || closed_) return;
  flush_scheduled_ = true;
  // Commands that waited for these replies go on, whether or not the client takes anything: it may be sending first.
  later([self = shared_from_this()] {
    self->flush_scheduled_ = false;
    self->flush();
    self->process();
  });
}

void Session::in_turn(base::Task task) {
  if (router_.gives_way()) return worker_.loop.post_behind(std::move(task));
  task();
}

void Session::later(base::Task task) {
  if (router_.gives_way()) return worker_.loop.post_behind(std::move(task));
  worker_.loop.post(std::move(task));
}

void Session::flush() {
  if (writing_ || closed_) return;
  if (output_.empty()) return after_output();
  writing_ = true;
  auto written = [self = shared_from_this()](std::error_code error, std::size_t bytes) {
    self->on_written(error, bytes);
  };
  if (output_.holds_value()) {
    const auto much = output_.gather(base::Stream::kMaxSpans, kCopierBytes);
    if (base::total(much) >= kCopierFrom)
      return stream_->async_write_by(worker_.copier, worker_.loop, much, std::move(written));
  }
  stream_->async_write(output_.gather(base::Stream::kMaxSpans, kWriteBytes), std::move(written));
}

void Session::on_written(std::error_code error, std::size_t bytes) {
  writing_ = false;
  if (closed_) {
    output_.clear();
    return;
  }
  if (error) return close("write: " + error.message());
  bytes_.out.add(bytes);
  activity_->bytes_out.fetch_add(bytes, std::memory_order_relaxed);
  stall_.moved(bytes);
  output_.written(bytes);
  if (slow_) slow_->taken(output_.written_total());
  account();
  if (!output_full()) after_output();
  flush();
}

/// There is room again: whoever waited for it goes on.
void Session::after_output() {
  if (closed_) return;
  if (closing_ && output_.empty() && slots_.open_count() == 0) return close("");
  router_.output_drained();
  process();
}

}  // namespace keyferry::gateway
