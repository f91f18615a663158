#include "gateway/raw_pipe.h"

#include <algorithm>
#include <span>
#include <utility>

#include "gateway/client_ids.h"
#include "gateway/command_table.h"
#include "gateway/local_commands.h"
#include "gateway/session.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
// With less than this queued for the client the server is read on: what a slow one leaves is to lie there, where its
// limits see it.
constexpr std::size_t kMostAhead = 32 * 1024;
// A longer command is not looked at piece by piece.
constexpr std::size_t kMostChecked = 1024 * 1024;
constexpr std::string_view kResetReply = "+RESET\r\n";
// How long after them what the server says may be the answer: later the worker has asked by itself.
constexpr base::Duration kMayAnswer = std::chrono::seconds(1);

/// Commands whose arguments are looked at, so that none of them may be too long to be kept.
bool speaks_of_clients(std::span<const std::string_view> args) {
  return args.size() >= 2 && equals_upper(args[0], "CLIENT") &&
         (equals_upper(args[1], "KILL") || equals_upper(args[1], "UNBLOCK") || equals_upper(args[1], "TRACKING"));
}

}  // namespace

RawPipe::RawPipe(Session& session, std::unique_ptr<upstream::Connection> connection, upstream::LendingPool& pool,
                 const Begin& begin)
    : Operation(session),
      connection_(std::move(connection)),
      pool_(pool),
      must_see_reset_(session.worker().options.logs_in || session.rules().guards()),
      ends_at_reset_(must_see_reset_ || !session.dedicated()),
      body_offered_(begin.body_offered),
      after_skip_(begin.after_skip) {}
RawPipe::~RawPipe() = default;

void RawPipe::start() {
  to_client();
  to_server();
}

void RawPipe::to_server() {
  instead_.clear();
  const std::string_view bytes = session_.input().substr(0, follows_ ? carried() : std::string_view::npos);
  if (!connection_) return;
  if (bytes.empty()) {
    return session_.read_input(std::max(kReadBytes, 2 * session_.input().size()), [self = shared_from_this(), this] {
      if (connection_) to_server();
    });
  }
  mark_writes();
  connection_->write({base::as_bytes(instead_.empty() ? bytes : instead_)},
                     [self = shared_from_this(), this, count = bytes.size()](std::error_code error) {
                       if (!connection_) return;
                       session_.consume_input(count);
                       // The read tells of a connection that is over, behind what the server said last.
                       if (error) return;
                       if (reset_ == Reset::kNone) return to_server();
                       reset_ = Reset::kWritten;
                       finish_reset();
                     });
}

/// How much of the input may pass: whole commands that the listener carries, up to RESET or one that goes in other
/// words (instead_); where it has no rules, long ones in part. 0 and the end of the client for one that it does not
/// carry.
std::size_t RawPipe::carried() {
  using Event = resp::RequestParser::Event;
  resp::RequestParser& parser = session_.parser();
  const bool guards = session_.rules().guards();
  std::size_t count = 0;
  for (;;) {
    const std::string_view rest = session_.input().substr(count);
    if (in_long_command_) {
      const resp::RequestParser::StreamStep step = parser.stream(rest);
      count += step.consumed;
      if (step.error) return pass_all();
      if (!step.finished) return count;
      in_long_command_ = false;
      parser.next();
      continue;
    }
    // Asked again the parser would take the body for one that is to be kept.
    Event event = std::exchange(body_offered_, false) ? Event::kBody : parser.parse(rest);
    while (guards && event == Event::kBody && !parser.must_stream()) event = parser.parse(rest);
    if (event == Event::kNeedMore && (!guards || rest.size() < kMostChecked)) return count;
    // The server says what is wrong, and closes.
    if (!guards && event == Event::kError) return pass_all();
    const bool known = event == Event::kCommand || event == Event::kBody;
    const auto args = known ? parser.args(rest) : std::span<const std::string_view>{};
    if (const std::string_view text = refusal(event, args); !text.empty()) {
      body_offered_ = event == Event::kBody;
      // What came before it is written first.
      if (count == 0) refuse(text);
      return count;
    }
    note_login_change(args);
    if (event == Event::kBody) {
      count += parser.body_offset();
      parser.begin_stream();
      in_long_command_ = true;
      after_skip_ = false;
      continue;
    }
    const bool resets =
        ends_at_reset_ && args.size() == 1 && equals_upper(args[0], "RESET") && !after_skip_ && !replies_lost_;
    const auto words = in_server_words(args, session_.worker().directory, session_.dedicated());
    if ((resets || words) && count != 0) return count;
    if (words) resp::append_command(instead_, std::vector<std::string_view>(words->begin(), words->end()));
    if (resets) reset_ = Reset::kAsked;
    // A replica's connection is not reset, and what it gets are no replies.
    if (!guards && !args.empty() && (equals_upper(args[0], "SYNC") || equals_upper(args[0], "PSYNC")))
      return pass_all();
    if (event == Event::kCommand)
      after_skip_ = args.size() == 3 && equals_upper(args[0], "CLIENT") && equals_upper(args[1], "REPLY") &&
                    equals_upper(args[2], "SKIP");
    count += parser.size();
    parser.next();
    if (resets || words) return count;
  }
}

/// Why what the parser gave may not pass: the reply that ends the client. Empty: it may.
std::string_view RawPipe::refusal(resp::RequestParser::Event event, std::span<const std::string_view> args) const {
  using Event = resp::RequestParser::Event;
  const bool whole = event == Event::kCommand || event == Event::kSkip;
  if (session_.rules().guards() && !whole)
    return "-ERR keyferry: this listener looks at commands behind SUBSCRIBE, MONITOR or CLIENT REPLY, and this is "
           "none, or longer than 1 MiB\r\n";
  if (!whole && speaks_of_clients(args)) return "-ERR keyferry: an argument of this command is too long\r\n";
  const bool unseen =
      must_see_reset_ && (after_skip_ || replies_lost_) && args.size() == 1 && equals_upper(args[0], "RESET");
  if (unseen || (!args.empty() && session_.rules().denies(args)))
    return "-NOPERM keyferry: this listener does not carry this command behind SUBSCRIBE, MONITOR or CLIENT REPLY "
           "(deny_commands, or RESET behind CLIENT REPLY SKIP or SYNC)\r\n";
  return {};
}

void RawPipe::refuse(std::string_view text) {
  session_.push(text);
  session_.close_after_output();
  end();
}

/// What a transaction holds is done by its EXEC.
void RawPipe::note_login_change(std::span<const std::string_view> args) {
  const CommandRow* const row = args.empty() ? nullptr : find_command(args);
  if (row == nullptr) return;
  const bool changes = may_change_logins(*row);
  if (!changes && !(login_change_queued_ && row->name == "EXEC")) return;
  login_change_queued_ = changes;
  logins_mentioned_ = base::Clock::steady().now();
}

std::size_t RawPipe::pass_all() {
  follows_ = false;
  return std::string_view::npos;
}

/// Whether the reply to RESET is among these bytes of the server's, whose replies are followed from the first on.
/// Nothing comes behind it, as nothing was asked.
bool RawPipe::follow_replies(std::string_view bytes) {
  while (!bytes.empty()) {
    const resp::ReplyScanner::Step step = replies_.scan(bytes);
    begun_.append(bytes.substr(0, std::min(step.consumed, kResetReply.size() + 1 - begun_.size())));
    bytes.remove_prefix(step.consumed);
    if (step.event == resp::ReplyScanner::Step::Event::kNeedMore) return false;
    const bool is_reset = begun_ == kResetReply;
    begun_.clear();
    if (step.event == resp::ReplyScanner::Step::Event::kError) {
      // A replica's stream, say.
      replies_lost_ = true;
      return false;
    }
    if (is_reset && reset_ != Reset::kNone) return true;
  }
  return false;
}

/// RESET was written, which may be told later than its reply comes, and answered: the client is what it was when it
/// came.
void RawPipe::finish_reset() {
  if (reset_ != Reset::kWritten || !reset_answered_) return;
  WorkerContext& worker = session_.worker();
  if (worker.knows_logins()) return become_what_it_was();
  worker.when_logins_known([self = shared_from_this(), this] {
    if (connection_) become_what_it_was();
  });
}

void RawPipe::become_what_it_was() {
  reset_client(session_);
  session_.tell_directory();
  end();
}

void RawPipe::to_client() {
  if (reading_ || !connection_ || session_.output_queued() >= kMostAhead) return;
  reading_ = true;
  connection_->read([self = shared_from_this(), this](std::error_code error, std::string_view bytes) {
    reading_ = false;
    if (!connection_) return;
    if (error) {
      // The client is to have what the server said last.
      session_.close_after_output();
      return end();
    }
    mark_writes();
    if (base::Clock::steady().now() - logins_mentioned_ < kMayAnswer) session_.worker().login_changes.count();
    session_.push(bytes);
    if (follows_ && !replies_lost_ && follow_replies(bytes)) {
      reset_answered_ = true;
      return finish_reset();
    }
    to_client();
  });
}

/// What passes may write any key: told before it leaves, and before what comes back can be seen.
void RawPipe::mark_writes() {
  transfer::WriteMarks& writes = session_.worker().engine.writes();
  if (writes.any_immutable()) writes.touch(transfer::WriteMarks::Mark::kEverything);
}

void RawPipe::output_drained() {
  to_client();
}

void RawPipe::client_gone() {
  if (connection_) end();
}

void RawPipe::end() {
  const auto self = shared_from_this();
  const upstream::Carrier carrier = connection_->carrier();
  connection_->close();
  connection_.reset();
  pool_.lost(carrier);
  session_.worker().directory.pinned(session_.client().id, 0);
  session_.operation_done(*this);
}

}  // namespace keyferry::gateway
