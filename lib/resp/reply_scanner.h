#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace keyferry::resp {

/// Bounds on what a server may send. The scanner keeps no bytes, so these only tell a broken stream from a large reply:
/// a DUMP may well exceed proto-max-bulk-len and a SMEMBERS has as many members as the set.
struct ReplyLimits {
  uint64_t max_bulk = 1ULL << 40;   ///< bytes of one bulk
  uint64_t max_count = 1ULL << 32;  ///< elements (of a map: pairs) of one aggregate
  size_t max_depth = 128;           ///< aggregates inside one another
};

/// Finds where frames end in what a server sends (RESP2 and RESP3), without copying or keeping bytes.
///
/// A frame is one top-level reply or push, together with attributes that precede it. Chunks may be cut anywhere (R9).
/// A push inside an aggregate counts as an element, because SUBSCRIBE within MULTI is answered so.
/// Streamed strings and aggregates (`$?`, `*?`, `;`), which no Valkey sends, are an error.
///
/// Errors are final: the place in the stream is lost and the connection has to be closed.
/// Memory: one counter for each level of nesting. Threads: none of its own; one owner at a time.
class ReplyScanner {
 public:
  struct Step {
    enum class Event : uint8_t { kNeedMore, kFrameEnd, kError };
    size_t consumed =
        0;  ///< kNeedMore: all; kFrameEnd: up to and with the frame's last byte; kError: up to the offending byte
    Event event = Event::kNeedMore;
  };

  ReplyScanner() = default;
  explicit ReplyScanner(const ReplyLimits& limits) : limits_(limits) {}

  /// Takes bytes up to the end of the current frame. Call it again with the rest of the chunk for the next one.
  Step scan(std::string_view chunk);

  /// Type byte of the current frame, or of the last one between frames: '>' is a push and out of band (R5). An
  /// attribute in front is not the type. 0 before it is known.
  char type() const { return type_; }

  /// Longest bulk announced so far in the current (between frames: last) frame, known from its header on. Bytes.
  uint64_t largest_body() const { return largest_body_; }

  /// True when no byte of the next frame was seen yet.
  bool at_frame_start() const { return state_ == State::kType && !started_; }

  /// What was wrong, for the log. Empty without an error.
  std::string_view error() const { return error_; }

 private:
  enum class State : uint8_t {
    kType,
    kText,
    kTextCr,
    kNumber,
    kNumberLf,
    kScalar,
    kScalarLf,
    kBody,
    kBodyCr,
    kBodyLf,
    kFailed
  };
  struct Level {
    uint64_t left;
    bool attribute;
  };

  bool take_type(char byte);
  bool take_number(std::string_view chunk, size_t& at);
  bool take_scalar(std::string_view chunk, size_t& at);
  bool end_number();
  bool open_aggregate(uint64_t count);
  void end_element();
  bool step(std::string_view chunk, size_t& at);
  bool fail(std::string text);

  ReplyLimits limits_;
  State state_ = State::kType;
  bool started_ = false;
  bool frame_ended_ = false;
  char type_ = 0;
  char element_ = 0;  ///< type byte of the element being read
  bool negative_ = false;
  uint32_t digits_ = 0;  ///< bytes of the current number or scalar so far
  uint64_t number_ = 0;
  uint64_t body_left_ = 0;
  uint64_t largest_body_ = 0;
  std::vector<Level> levels_;
  std::string error_;
};

}  // namespace keyferry::resp
