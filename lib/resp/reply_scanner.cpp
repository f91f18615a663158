#include "resp/reply_scanner.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace keyferry::resp {
namespace {

/// No number, boolean or null is longer.
constexpr uint32_t kMaxScalar = 64 * 1024;
/// A length or count has at most 19 digits.
constexpr uint32_t kMaxDigits = 19;
/// The format and the colon in front of a verbatim string's text.
constexpr uint64_t kVerbatimPrefix = 4;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool fits_scalar(char type, char c) {
  switch (type) {
    case ':':
      return is_digit(c) || c == '-' || c == '+';
    case ',':
      return is_digit(c) || c == '-' || c == '+' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    case '#':
      return c == 't' || c == 'f';
    default:
      return false;
  }
}

std::string printable(char c) {
  constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (byte > ' ' && byte < 0x7f) return {'\'', c, '\''};
  return {'0', 'x', kHex[byte >> 4], kHex[byte & 15]};
}

}  // namespace

bool ReplyScanner::fail(std::string text) {
  error_ = std::move(text);
  state_ = State::kFailed;
  return false;
}

ReplyScanner::Step ReplyScanner::scan(std::string_view chunk) {
  if (state_ == State::kFailed) return {0, Step::Event::kError};
  size_t at = 0;
  while (at < chunk.size()) {
    if (!step(chunk, at)) return {at, Step::Event::kError};
    if (frame_ended_) {
      frame_ended_ = false;
      return {at, Step::Event::kFrameEnd};
    }
  }
  return {at, Step::Event::kNeedMore};
}

/// Goes on from chunk[at], taking at least one byte unless it fails.
bool ReplyScanner::step(std::string_view chunk, size_t& at) {
  switch (state_) {
    case State::kType:
      return take_type(chunk[at++]);
    case State::kText: {
      // A CR alone is part of the text, as in every client: only CRLF ends it.
      const void* hit = std::memchr(chunk.data() + at, '\r', chunk.size() - at);
      at = hit == nullptr ? chunk.size() : static_cast<size_t>(static_cast<const char*>(hit) - chunk.data()) + 1;
      if (hit != nullptr) state_ = State::kTextCr;
      return true;
    }
    case State::kTextCr: {
      const char c = chunk[at++];
      if (c == '\n') {
        end_element();
      } else if (c != '\r') {
        state_ = State::kText;
      }
      return true;
    }
    case State::kNumber:
      return take_number(chunk, at);
    case State::kScalar:
      return take_scalar(chunk, at);
    case State::kNumberLf:
      if (chunk[at] != '\n') return fail("CR without LF behind a length");
      ++at;
      return end_number();
    case State::kScalarLf:
      if (chunk[at] != '\n') return fail("CR without LF behind a value");
      ++at;
      end_element();
      return true;
    case State::kBody: {
      const auto part = static_cast<size_t>(std::min<uint64_t>(body_left_, chunk.size() - at));
      at += part;
      body_left_ -= part;
      if (body_left_ == 0) state_ = State::kBodyCr;
      return true;
    }
    case State::kBodyCr:
      if (chunk[at] != '\r') return fail("a bulk does not end with CRLF");
      ++at;
      state_ = State::kBodyLf;
      return true;
    case State::kBodyLf:
      if (chunk[at] != '\n') return fail("a bulk does not end with CRLF");
      ++at;
      end_element();
      return true;
    case State::kFailed:
      break;
  }
  return false;
}

bool ReplyScanner::take_type(char byte) {
  if (!started_) {
    started_ = true;
    type_ = 0;
    largest_body_ = 0;
  }
  element_ = byte;
  digits_ = 0;
  number_ = 0;
  negative_ = false;
  switch (byte) {
    case '+':
    case '-':
    case '(':  // a script may have put anything into it
      state_ = State::kText;
      break;
    case ':':
    case ',':
    case '#':
    case '_':
      state_ = State::kScalar;
      break;
    case '$':
    case '!':
    case '=':
    case '*':
    case '%':
    case '~':
    case '>':
    case '|':
      state_ = State::kNumber;
      break;
    case ';':
      return fail("streamed string, which no Valkey sends");
    default:
      return fail("unknown type byte " + printable(byte));
  }
  if (levels_.empty() && byte != '|') type_ = byte;
  return true;
}

bool ReplyScanner::take_number(std::string_view chunk, size_t& at) {
  for (; at < chunk.size(); ++at) {
    const char c = chunk[at];
    if (is_digit(c)) {
      if (digits_ == kMaxDigits || (digits_ == 1 && number_ == 0)) return fail("invalid length");
      number_ = number_ * 10 + static_cast<uint64_t>(c - '0');
      ++digits_;
    } else if (c == '-' && digits_ == 0 && !negative_) {
      negative_ = true;
    } else if (c == '\r' && digits_ > 0) {
      ++at;
      state_ = State::kNumberLf;
      return true;
    } else {
      return fail(c == '?' ? "streamed type, which no Valkey sends" : "invalid length");
    }
  }
  return true;
}

bool ReplyScanner::take_scalar(std::string_view chunk, size_t& at) {
  const bool single = element_ == '#';
  for (; at < chunk.size(); ++at) {
    const char c = chunk[at];
    if (c == '\r') {
      if (digits_ == 0 && element_ != '_') return fail("empty value");
      ++at;
      state_ = State::kScalarLf;
      return true;
    }
    if (!fits_scalar(element_, c) || digits_ == (single ? 1 : kMaxScalar))
      return fail("invalid value of type " + printable(element_));
    ++digits_;
  }
  return true;
}

/// The length or count behind a type byte is complete.
bool ReplyScanner::end_number() {
  const bool bulk = element_ == '$' || element_ == '!' || element_ == '=';
  if (negative_) {
    if (number_ != 1 || (element_ != '$' && element_ != '*')) return fail("negative length");
    end_element();
    return true;
  }
  if (!bulk) return open_aggregate(number_);
  if (number_ > limits_.max_bulk) return fail("a bulk is larger than allowed");
  if (element_ == '=' && number_ < kVerbatimPrefix) return fail("a verbatim string without its format");
  largest_body_ = std::max(largest_body_, number_);
  body_left_ = number_;
  state_ = number_ == 0 ? State::kBodyCr : State::kBody;
  return true;
}

bool ReplyScanner::open_aggregate(uint64_t count) {
  if (count > std::min<uint64_t>(limits_.max_count, std::numeric_limits<int64_t>::max()))
    return fail("an aggregate has more elements than allowed");
  const bool attribute = element_ == '|';
  if (count == 0) {
    if (attribute) {
      state_ = State::kType;
    } else {
      end_element();
    }
    return true;
  }
  if (levels_.size() >= limits_.max_depth) return fail("aggregates are nested deeper than allowed");
  levels_.push_back({attribute || element_ == '%' ? count * 2 : count, attribute});
  state_ = State::kType;
  return true;
}

/// An element is complete, and with it every aggregate whose last one it was.
void ReplyScanner::end_element() {
  state_ = State::kType;
  while (!levels_.empty()) {
    Level& level = levels_.back();
    if (--level.left > 0) return;
    const bool attribute = level.attribute;
    levels_.pop_back();
    // What the attribute belongs to follows, and only that counts in the level above.
    if (attribute) return;
  }
  started_ = false;
  frame_ended_ = true;
}

}  // namespace keyferry::resp
