#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "resp/reply_scanner.h"
#include "resp/value.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// What a new connection says first, in one go, and what it makes of the answers: HELLO 3 or AUTH, SELECT, CLIENT
/// SETINFO, CLIENT ID. Inside of this folder. Pure: bytes in, a verdict out.
class Handshake {
 public:
  enum class State : std::uint8_t { kMore, kDone, kFailed };

  /// kReset: the connection has served a borrower and goes back to what a new one is, by RESET.
  enum class From : std::uint8_t { kNew, kReset };

  explicit Handshake(const ConnectOptions& options, From from = From::kNew);

  /// Everything to be written.
  const std::string& request() const { return request_; }
  /// Takes what the server sent next.
  State take(std::string_view bytes);
  /// kFailed: the step and the cause, "AUTH refused: WRONGPASS ...".
  const std::string& error() const { return error_; }
  /// As a failed Connection::connect() has it.
  int error_code() const { return error_code_; }
  /// What the server said last that was an error; a server that turns everybody away (too many clients, protected mode)
  /// says so and closes.
  const std::string& last_refusal() const { return last_refusal_; }
  /// The answer to CLIENT ID, 0 if refused.
  std::uint64_t client_id() const { return client_id_; }

 private:
  enum class Kind : std::uint8_t {
    kMust,
    /// HELLO, whose answer tells whether it is a primary: any user may ask that.
    kGreet,
    kMay,
    kId,
    /// Whatever the answer, what follows counts.
    kTry,
    /// The first SELECT, by the configured user.
    kChosen,
    /// SELECT; refused it is no failure if the first was not.
    kDatabase
  };
  struct Step {
    std::string_view name;
    Kind kind;
  };
  bool answered(const Step& step);
  bool check_role(const resp::Value& hello);
  bool fail(std::string text, int code = kTurnedAway);

  std::string request_;
  std::vector<Step> steps_;
  std::size_t next_ = 0;
  resp::ReplyScanner scanner_;
  std::string frame_;
  std::string error_;
  int error_code_ = 0;
  std::string last_refusal_;
  std::uint64_t client_id_ = 0;
  bool chosen_ = false;
  bool only_primary_ = false;
};

}  // namespace keyferry::upstream
