#include "resp/request_parser.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "resp/integer.h"

namespace keyferry::resp {
namespace {

constexpr int64_t kStrangerArgs = 10;
constexpr uint64_t kStrangerBulk = 16384;
/// Storage that a command left behind is kept for the next one up to here.
constexpr size_t kKeptArguments = 1024;
constexpr size_t kKeptText = 4096;

enum class Line : uint8_t { kPartial, kWhole, kTooLong };

/// Looks for `end` in the line that starts at `start`. Only its first `limit` + 1 bytes may hold it, however many are
/// there already, so that the verdict does not depend on how the input was cut.
Line find_end(std::string_view input, size_t start, size_t limit, char end, size_t& scanned, size_t& found) {
  const size_t there = input.size() - start;
  const size_t window = start + (there > limit ? limit + 1 : there);
  if (scanned < window) {
    if (const void* hit = std::memchr(input.data() + scanned, end, window - scanned)) {
      found = static_cast<size_t>(static_cast<const char*>(hit) - input.data());
      scanned = found;
      return Line::kWhole;
    }
    scanned = window;
  }
  return there > limit ? Line::kTooLong : Line::kPartial;
}

/// The usual header, complete and well formed, without a search: `$`, up to 18 digits, CRLF. Anything else takes the
/// slow way.
bool quick_length(std::string_view input, size_t& at, uint64_t& length) {
  const char* p = input.data() + at;
  const char* const end = input.data() + input.size();
  if (end - p < 4 || *p != '$') return false;
  ++p;
  const char* const digits = p;
  uint64_t value = 0;
  while (p < end && p - digits < 18 && *p >= '0' && *p <= '9') value = value * 10 + static_cast<uint64_t>(*p++ - '0');
  const auto count = p - digits;
  if (count == 0 || (*digits == '0' && count > 1)) return false;
  if (end - p < 2 || p[0] != '\r' || p[1] != '\n') return false;
  at = static_cast<size_t>(p + 2 - input.data());
  length = value;
  return true;
}

}  // namespace

RequestParser::Event RequestParser::fail(std::string_view text) {
  error_ = "Protocol error: ";
  error_ += text;
  state_ = State::kFailed;
  return Event::kError;
}

void RequestParser::start_line(size_t at) {
  position_ = at;
  scanned_ = at;
}

RequestParser::Event RequestParser::parse(std::string_view input) {
  if (input.size() < position_ || input.size() < scanned_) return Event::kNeedMore;
  switch (state_) {
    case State::kStart:
      if (input.empty()) return Event::kNeedMore;
      inline_ = input.front() != '*';
      state_ = inline_ ? State::kInlineLine : State::kCountLine;
      return inline_ ? parse_inline(input) : parse_count(input);
    case State::kCountLine:
      return parse_count(input);
    case State::kInlineLine:
      return parse_inline(input);
    case State::kOffered:
      if (must_stream_) return fail("command exceeds the buffer limit");
      state_ = State::kBody;
      return parse_arguments(input);
    case State::kLengthLine:
    case State::kBody:
      return parse_arguments(input);
    case State::kCommand:
      return Event::kCommand;
    case State::kSkip:
      return Event::kSkip;
    case State::kStream:
      return fail("parse() of a command that is being streamed");
    case State::kFailed:
      break;
  }
  return Event::kError;
}

RequestParser::Event RequestParser::parse_count(std::string_view input) {
  size_t cr = 0;
  const Line line = find_end(input, 0, limits_.max_inline, '\r', scanned_, cr);
  if (line == Line::kTooLong) return fail("too big mbulk count string");
  if (line == Line::kPartial || input.size() - cr < 2) return Event::kNeedMore;
  if (input[cr + 1] != '\n') return fail("invalid CRLF in request");
  const auto count = parse_integer(input.substr(1, cr - 1));
  if (!count || *count > std::numeric_limits<int32_t>::max()) return fail("invalid multibulk length");
  if (*count > kStrangerArgs && !limits_.authenticated) return fail("unauthenticated multibulk length");
  if (*count > 0 && static_cast<uint64_t>(*count) > limits_.max_args) return fail("invalid multibulk length");
  start_line(cr + 2);
  if (*count <= 0) {
    state_ = State::kSkip;
    return Event::kSkip;
  }
  argc_ = static_cast<size_t>(*count);
  state_ = State::kLengthLine;
  return parse_arguments(input);
}

RequestParser::Event RequestParser::parse_inline(std::string_view input) {
  size_t newline = 0;
  const Line line = find_end(input, 0, limits_.max_inline, '\n', scanned_, newline);
  if (line == Line::kTooLong) return fail("too big inline request");
  if (line == Line::kPartial) return Event::kNeedMore;
  const bool crlf = newline > 0 && input[newline - 1] == '\r';
  const std::string_view text = input.substr(0, newline - (crlf ? 1 : 0));
  // The server takes a NUL for the end of what it received and so never finds the end of such a line: it ends with this
  // error.
  if (text.find('\0') != std::string_view::npos) return fail("too big inline request");
  if (!split_inline(text, inline_text_, arguments_)) return fail("unbalanced quotes in request");
  if (arguments_.size() > limits_.max_args) return fail("invalid multibulk length");
  position_ = newline + 1;
  argc_ = arguments_.size();
  index_ = argc_;
  state_ = argc_ == 0 ? State::kSkip : State::kCommand;
  return argc_ == 0 ? Event::kSkip : Event::kCommand;
}

/// Checks a length against the limits and takes it.
bool RequestParser::accept_length(uint64_t length) {
  if (length > limits_.max_bulk) {
    fail("invalid bulk length");
  } else if (length > kStrangerBulk && !limits_.authenticated) {
    fail("unauthenticated bulk length");
  } else {
    body_length_ = length;
    return true;
  }
  return false;
}

/// Checks a header line that ended with a CR and `after`, in the order of the server, so that the same fault gets the
/// same text.
bool RequestParser::accept_line(std::string_view line, char after) {
  if (!line.starts_with('$')) {
    const char got = line.empty() || line.front() == '\n' ? ' ' : line.front();
    fail(std::string("expected '$', got '") + got + "'");
    return false;
  }
  if (after != '\n') {
    fail("invalid CRLF in request");
    return false;
  }
  const auto length = parse_integer(line.substr(1));
  if (!length || *length < 0) {
    fail("invalid bulk length");
    return false;
  }
  return accept_length(static_cast<uint64_t>(*length));
}

/// Reads the header of one argument. kCommand: taken, its body may be read.
RequestParser::Event RequestParser::parse_length(std::string_view input) {
  uint64_t length = 0;
  size_t after = position_;
  if (quick_length(input, after, length)) {
    if (!accept_length(length)) return Event::kError;
  } else {
    size_t cr = 0;
    const Line line = find_end(input, position_, limits_.max_inline, '\r', scanned_, cr);
    if (line == Line::kTooLong) return fail("too big bulk count string");
    if (line == Line::kPartial || input.size() - cr < 2) return Event::kNeedMore;
    if (!accept_line(input.substr(position_, cr - position_), input[cr + 1])) return Event::kError;
    after = cr + 2;
  }
  start_line(after);
  const uint64_t room = limits_.max_command_bytes > after ? limits_.max_command_bytes - after : 0;
  must_stream_ = room < 2 || body_length_ > room - 2;
  const bool offer = must_stream_ || body_length_ > limits_.body_threshold;
  state_ = offer ? State::kOffered : State::kBody;
  return offer ? Event::kBody : Event::kCommand;
}

RequestParser::Event RequestParser::parse_arguments(std::string_view input) {
  while (true) {
    if (state_ == State::kLengthLine) {
      const Event event = parse_length(input);
      if (event != Event::kCommand) return event;
    }
    if (input.size() - position_ < body_length_ + 2) return Event::kNeedMore;
    const auto length = static_cast<size_t>(body_length_);
    if (!body_ends_well(input.substr(position_ + length, 2))) return Event::kError;
    arguments_.push_back({position_, length});
    start_line(position_ + length + 2);
    if (++index_ == argc_) {
      state_ = State::kCommand;
      return Event::kCommand;
    }
    state_ = State::kLengthLine;
  }
}

std::span<const std::string_view> RequestParser::args(std::string_view input) {
  const std::string_view base = inline_ ? std::string_view(inline_text_) : input;
  views_.clear();
  for (const ArgumentRange& argument : arguments_) {
    if (argument.offset > base.size()) break;
    views_.push_back(base.substr(argument.offset, argument.length));
  }
  return views_;
}

bool RequestParser::body_ends_well(std::string_view two_bytes) {
  if (two_bytes.size() == 2 && two_bytes[0] == '\r' && two_bytes[1] == '\n') return true;
  fail("invalid CRLF in request");
  return false;
}

void RequestParser::body_taken() {
  if (state_ != State::kOffered) return;
  if (++index_ == argc_) {
    next();
    return;
  }
  arguments_.clear();
  must_stream_ = false;
  start_line(0);
  state_ = State::kLengthLine;
}

void RequestParser::begin_stream(uint64_t taken) {
  if (state_ != State::kOffered) return;
  state_ = State::kStream;
  stream_left_ = body_length_ - std::min(taken, body_length_);
  stream_state_ = StreamState::kBody;
  if (taken > body_length_) {
    stream_end_[0] = '\r';
    stream_state_ = StreamState::kBodyLf;
    if (taken > body_length_ + 1) end_streamed_body();
  }
}

void RequestParser::end_streamed_body() {
  ++index_;
  stream_line_ = {};
  stream_state_ = StreamState::kLengthLine;
}

/// Takes what `chunk` holds of a length line from `at` on and moves `at` behind it.
void RequestParser::stream_length(std::string_view chunk, size_t& at) {
  if (stream_line_.ended) {
    if (!accept_line(stream_line_.text(), chunk[at++])) return;
    stream_left_ = body_length_;
    stream_state_ = StreamState::kBody;
    return;
  }
  const size_t room = limits_.max_inline - std::min(limits_.max_inline, stream_line_.length);
  const size_t start = at;
  size_t scanned = at;
  const Line line = find_end(chunk, start, room, '\r', scanned, at);
  if (line == Line::kTooLong) {
    fail("too big bulk count string");
    return;
  }
  if (line == Line::kPartial) at = chunk.size();
  stream_line_.append(chunk.substr(start, at - start));
  if (line == Line::kWhole) {
    stream_line_.ended = true;
    ++at;
  }
}

RequestParser::StreamStep RequestParser::stream(std::string_view chunk) {
  if (state_ != State::kStream) {
    if (state_ != State::kFailed) fail("stream() of a command that is not being streamed");
    return {0, false, true};
  }
  size_t at = 0;
  while (index_ < argc_ && at < chunk.size() && state_ == State::kStream) {
    if (stream_state_ == StreamState::kLengthLine) {
      stream_length(chunk, at);
    } else if (stream_state_ == StreamState::kBody && stream_left_ > 0) {
      const uint64_t step = std::min<uint64_t>(stream_left_, chunk.size() - at);
      stream_left_ -= step;
      at += static_cast<size_t>(step);
    } else if (stream_state_ == StreamState::kBody) {
      stream_end_[0] = chunk[at++];
      stream_state_ = StreamState::kBodyLf;
    } else {
      stream_end_[1] = chunk[at++];
      if (body_ends_well({stream_end_.data(), stream_end_.size()})) end_streamed_body();
    }
  }
  if (state_ == State::kFailed) return {at, false, true};
  return {at, index_ == argc_, false};
}

void RequestParser::next() {
  if (state_ == State::kFailed) return;
  state_ = State::kStart;
  inline_ = false;
  must_stream_ = false;
  start_line(0);
  argc_ = 0;
  index_ = 0;
  body_length_ = 0;
  arguments_.clear();
  views_.clear();
  inline_text_.clear();
  keep_at_most(kKeptArguments, kKeptText);
}

void RequestParser::keep_at_most(size_t arguments, size_t text) {
  if (arguments_.capacity() > arguments) std::vector<ArgumentRange>().swap(arguments_);
  if (views_.capacity() > arguments) std::vector<std::string_view>().swap(views_);
  if (inline_text_.capacity() > text) std::string().swap(inline_text_);
}

void RequestParser::fit() {
  if (state_ == State::kStart && position_ == 0) keep_at_most(0, 0);
}

}  // namespace keyferry::resp
