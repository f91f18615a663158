#include "gateway/raw_pipe.h"

#include <algorithm>

#include "gateway/session.h"

namespace keyferry::gateway {

namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
// A longer command is not looked at piece by piece.
constexpr std::size_t kMostChecked = 1024 * 1024;

}  // namespace

RawPipe::RawPipe(Session& session, std::unique_ptr<upstream::Connection> connection, upstream::LendingPool& pool)
    : Operation(session), connection_(std::move(connection)), pool_(pool) {}
RawPipe::~RawPipe() = default;

void RawPipe::start() {
  to_client();
  to_server();
}

void RawPipe::to_server() {
  const std::string_view bytes =
      session_.input().substr(0, session_.rules().guards() ? carried() : std::string_view::npos);
  if (!connection_) return;
  if (bytes.empty()) {
    return session_.read_input(std::max(kReadBytes, 2 * session_.input().size()), [self = shared_from_this(), this] {
      if (connection_) to_server();
    });
  }
  mark_writes();
  connection_->write({base::as_bytes(bytes)},
                     [self = shared_from_this(), this, count = bytes.size()](std::error_code error) {
                       if (!connection_) return;
                       session_.consume_input(count);
                       // The read tells of a connection that is over, behind what the server said last.
                       if (!error) to_server();
                     });
}

/// How much of the input is whole commands that the listener carries.
std::size_t RawPipe::carried() {
  using Event = resp::RequestParser::Event;
  resp::RequestParser& parser = session_.parser();
  std::size_t count = 0;
  for (;;) {
    const std::string_view rest = session_.input().substr(count);
    Event event = parser.parse(rest);
    while (event == Event::kBody && !parser.must_stream()) event = parser.parse(rest);
    if (event == Event::kNeedMore && rest.size() < kMostChecked) return count;
    const bool whole = event == Event::kCommand || event == Event::kSkip;
    // The server's RESET would make another user of this client than it may be here.
    const bool forbidden = event == Event::kCommand && (session_.rules().denies(parser.args(rest)) ||
                                                        equals_upper(parser.args(rest).front(), "RESET"));
    if (!whole || forbidden) {
      session_.push(whole ? "-NOPERM keyferry: this listener does not carry this command behind SUBSCRIBE, MONITOR or "
                            "CLIENT REPLY (deny_commands, or RESET)\r\n"
                          : "-ERR keyferry: this listener looks at commands behind SUBSCRIBE, MONITOR or CLIENT REPLY, "
                            "and this is none, or longer than 1 MiB\r\n");
      session_.close_after_output();
      end();
      return 0;
    }
    count += parser.size();
    parser.next();
  }
}

void RawPipe::to_client() {
  if (reading_ || !connection_ || session_.output_full()) return;
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
    session_.push(bytes);
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
  session_.operation_done(*this);
}

}  // namespace keyferry::gateway
