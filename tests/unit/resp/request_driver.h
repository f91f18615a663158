#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "resp/request_parser.h"

namespace keyferry::resp::testing {

/// What the caller does when a large argument is offered.
enum class BodyMode : uint8_t { kBuffer, kTake, kStream };

/// All that a stream of requests came to.
struct Outcome {
  std::vector<std::vector<std::string>>
      commands;                ///< arguments; of a streamed command those in front of its first body
  std::vector<size_t> ends;    ///< where in the stream each command or skip ended
  std::vector<size_t> bodies;  ///< lengths offered with kBody
  size_t skips = 0;
  std::string error;

  bool operator==(const Outcome&) const = default;
};

/// Plays the part of a session: feeds a parser piece by piece, from a buffer of exactly the bytes at hand (so that
/// reading past them is seen by a sanitizer) that is never twice at the same place.
class RequestDriver {
 public:
  explicit RequestDriver(const RequestLimits& limits, BodyMode mode = BodyMode::kBuffer)
      : parser_(limits), mode_(mode) {}

  void feed(std::string_view piece) {
    pending_.append(piece);
    while (outcome_.error.empty() && advance()) {
    }
  }

  const Outcome& outcome() const { return outcome_; }
  RequestParser& parser() { return parser_; }

 private:
  enum class Doing : uint8_t { kParse, kTake, kStream };

  bool advance() {
    if (doing_ == Doing::kTake) return take();
    if (doing_ == Doing::kStream) return stream();
    const auto exact = std::make_unique<char[]>(pending_.size());
    std::memcpy(exact.get(), pending_.data(), pending_.size());
    const std::string_view input(exact.get(), pending_.size());
    switch (parser_.parse(input)) {
      case RequestParser::Event::kNeedMore:
        return false;
      case RequestParser::Event::kError:
        return fail();
      case RequestParser::Event::kSkip:
        ++outcome_.skips;
        [[fallthrough]];
      case RequestParser::Event::kCommand:
        keep(input);
        drop(parser_.size());
        finish(parser_.argc() > 0);
        parser_.next();
        return true;
      case RequestParser::Event::kBody:
        return offered(input);
    }
    return false;
  }

  bool offered(std::string_view input) {
    outcome_.bodies.push_back(static_cast<size_t>(parser_.body_length()));
    if (mode_ == BodyMode::kBuffer) return true;
    keep(input);
    drop(parser_.body_offset());
    doing_ = mode_ == BodyMode::kTake ? Doing::kTake : Doing::kStream;
    if (mode_ == BodyMode::kStream) parser_.begin_stream();
    return true;
  }

  bool take() {
    const auto whole = static_cast<size_t>(parser_.body_length()) + 2;
    const size_t part = std::min(whole - taken_.size(), pending_.size());
    taken_.append(pending_, 0, part);
    drop(part);
    if (taken_.size() < whole) return false;
    if (!parser_.body_ends_well(std::string_view(taken_).substr(whole - 2))) return fail();
    arguments_.push_back(taken_.substr(0, whole - 2));
    taken_.clear();
    const bool last = parser_.body_index() + 1 == parser_.argc();
    parser_.body_taken();
    doing_ = Doing::kParse;
    if (last) finish(true);
    return true;
  }

  bool stream() {
    const RequestParser::StreamStep step = parser_.stream(pending_);
    drop(step.consumed);
    if (step.error) return fail();
    if (!step.finished) return false;
    doing_ = Doing::kParse;
    finish(true);
    parser_.next();
    return true;
  }

  void keep(std::string_view input) {
    for (const std::string_view arg : parser_.args(input)) arguments_.emplace_back(arg);
  }

  void drop(size_t bytes) {
    pending_.erase(0, bytes);
    position_ += bytes;
  }

  void finish(bool command) {
    if (command) outcome_.commands.push_back(arguments_);
    arguments_.clear();
    outcome_.ends.push_back(position_);
  }

  bool fail() {
    outcome_.error = parser_.error();
    return false;
  }

  RequestParser parser_;
  BodyMode mode_;
  Doing doing_ = Doing::kParse;
  std::string pending_;
  std::string taken_;
  std::vector<std::string> arguments_;
  size_t position_ = 0;
  Outcome outcome_;
};

/// Feeds `input` cut at each of the ascending `cuts`.
inline Outcome drive(std::string_view input, const RequestLimits& limits, BodyMode mode = BodyMode::kBuffer,
                     const std::vector<size_t>& cuts = {}) {
  RequestDriver driver(limits, mode);
  size_t from = 0;
  for (const size_t cut : cuts) {
    driver.feed(input.substr(from, cut - from));
    from = cut;
  }
  driver.feed(input.substr(from));
  return driver.outcome();
}

}  // namespace keyferry::resp::testing
