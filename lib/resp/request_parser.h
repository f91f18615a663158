#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resp/request_line.h"

namespace keyferry::resp {

/// What one client may send. Sizes in bytes. Each limit is checked on a header, before a byte of the body is taken
/// (R11).
struct RequestLimits {
  size_t max_args = 1024 * 1024;                     ///< arguments of one command, its name included
  uint64_t max_bulk = 512ULL * 1024 * 1024;          ///< one argument (Valkey's proto-max-bulk-len)
  size_t max_inline = 64 * 1024;                     ///< an inline line, or the header of a count or a length (R3)
  uint64_t body_threshold = 64 * 1024;               ///< arguments longer than this are offered with kBody
  uint64_t max_command_bytes = 64ULL * 1024 * 1024;  ///< one command held in the caller's buffer, headers included
  bool authenticated = true;  ///< false: Valkey's bounds for strangers, 10 arguments of 16384 bytes
};

/// Incremental parser of what clients send: RESP arrays of bulk strings, and inline commands.
///
/// The caller owns the input buffer; the parser keeps offsets only, so the buffer may move between two calls. The input
/// always starts at the first byte of the current command and only grows until next(). No byte is looked at twice, so a
/// command that trickles in costs no more than one that arrives whole, and how the input was cut never changes the
/// result (R9).
///
/// Errors: kError is final, error() has Valkey's own text; the caller answers with it and closes that client.
/// Memory: offsets of the current command's arguments (and the unquoted text of an inline one), given back when large.
/// Threads: none of its own; one owner at a time.
class RequestParser {
 public:
  enum class Event : uint8_t {
    kNeedMore,  ///< call again when the input has grown
    kCommand,   ///< args() is the whole command, size() the bytes it took
    kBody,      ///< the header of a large argument is complete, no byte of its body was taken: see body_length()
    kSkip,      ///< nothing to do and nothing to answer: `*0`, `*-1` or a blank line (R2); drop size() bytes
    kError,     ///< see error()
  };

  /// What stream() made of a chunk.
  struct StreamStep {
    size_t consumed = 0;    ///< bytes of the chunk that belong to this command
    bool finished = false;  ///< the command ended behind those bytes: call next()
    bool error = false;     ///< see error()
  };

  RequestParser() = default;
  explicit RequestParser(const RequestLimits& limits) : limits_(limits) {}

  /// Goes on with the current command. Called again after kCommand or kSkip without next() it repeats its answer.
  Event parse(std::string_view input);

  /// After kCommand / kSkip: bytes of the input that the command takes. After body_taken(): counted from the new
  /// input's start.
  size_t size() const { return position_; }

  /// Number of arguments that the command declared; 0 before that is known.
  size_t argc() const { return argc_; }

  /// The complete arguments so far, as views into `input` (an inline command's: into the parser). Valid until the
  /// buffer moves or the parser is called again. After body_taken() only those behind the body taken last.
  std::span<const std::string_view> args(std::string_view input);

  /// True for an inline command, which has no array form on the wire: forward it with append_command().
  bool is_inline() const { return inline_; }

  // --- kBody: an argument longer than limits.body_threshold, or one with which the command outgrows max_command_bytes
  // --- The caller chooses one of:
  //   a) parse() again: the argument is buffered like any other (an error if must_stream());
  //   b) take body_length() + 2 bytes from body_offset() on itself, check the last two with body_ends_well(), then call
  //      body_taken() and go on with parse() on an input that starts right behind them; if body_index() + 1 == argc()
  //      the command is over and body_taken() does what next() does;
  //   c) begin_stream(), then stream().

  uint64_t body_length() const { return body_length_; }  ///< without its CRLF
  size_t body_offset() const { return position_; }       ///< where in the input the body starts
  size_t body_index() const { return index_; }           ///< which argument it is, from 0
  /// True when buffering this argument would break limits.max_command_bytes.
  bool must_stream() const { return must_stream_; }

  /// True when the two bytes behind a body are its CRLF. Otherwise error() is set and the parser has failed.
  bool body_ends_well(std::string_view two_bytes);
  void body_taken();

  /// From the byte at body_offset() + `taken` on the rest of the command goes through stream(). `taken`: bytes of the
  /// body and its CRLF that the caller took already (to drop the rest of a command that failed in mid-body); at most
  /// body_length() + 2. With all of them taken the command may be over already: call stream() at once, with an empty
  /// chunk if there is nothing yet.
  void begin_stream(uint64_t taken = 0);

  /// Finds the command's end without keeping bytes. Later arguments of any number and size pass; max_args and max_bulk
  /// hold.
  StreamStep stream(std::string_view chunk);

  /// After kCommand, kSkip or a finished stream: ready for the next command, whose first byte is the next input's
  /// first.
  void next();

  /// Gives back what the longest command so far has needed; between two commands, when none may come for long.
  void fit();

  /// Valkey's text without "-ERR ", e.g. "Protocol error: invalid bulk length". Empty without an error.
  std::string_view error() const { return error_; }

  /// For AUTH, and for a reload: applies from the next header on.
  void set_limits(const RequestLimits& limits) { limits_ = limits; }
  const RequestLimits& limits() const { return limits_; }

 private:
  enum class State : uint8_t {
    kStart,
    kCountLine,
    kInlineLine,
    kLengthLine,
    kOffered,
    kBody,
    kCommand,
    kSkip,
    kStream,
    kFailed
  };
  enum class StreamState : uint8_t { kLengthLine, kBody, kBodyLf };

  Event fail(std::string_view text);
  Event parse_count(std::string_view input);
  Event parse_inline(std::string_view input);
  Event parse_arguments(std::string_view input);
  Event parse_length(std::string_view input);
  bool accept_line(std::string_view line, char after);
  bool accept_length(uint64_t length);
  void stream_length(std::string_view chunk, size_t& at);
  void end_streamed_body();
  void start_line(size_t at);
  void keep_at_most(size_t arguments, size_t text);

  RequestLimits limits_;
  State state_ = State::kStart;
  StreamState stream_state_ = StreamState::kBody;
  bool inline_ = false;
  bool must_stream_ = false;
  size_t position_ = 0;  ///< first byte not yet accounted for
  size_t scanned_ = 0;   ///< first byte in which the end of the current line was not looked for
  size_t argc_ = 0;
  size_t index_ = 0;  ///< argument being read
  uint64_t body_length_ = 0;
  uint64_t stream_left_ = 0;
  std::array<char, 2> stream_end_{};  ///< judged together, so that streaming and buffering fail at the same byte
  StreamedLine stream_line_;
  std::vector<ArgumentRange> arguments_;
  std::vector<std::string_view> views_;
  std::string inline_text_;
  std::string error_;
};

}  // namespace keyferry::resp
