#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keyferry::large_object {

enum class Command : unsigned { kHello = 1, kRdmaGet = 2, kRdmaSet = 4, kTcpGet = 8, kTcpSet = 16, kInfo = 32 };

/// "BLOB.RDMA_GET".
std::string_view name_of(Command command);

/// Replies of a wrong shape. What each writes is decided where the command's reply is made (replies.h).
enum class ReplyShape {
  kRegular,
  kNull,
  kInteger,
  kOneElement,
  kThreeElements,
  kEmptyArray,
  kNegativeCount,
  kChecksumTooBig,
  kTooLong,
  kOk,
  kLowerCaseOk,
  kQueued,
  kUnreadable,
  kOddHex,
  kNotHex,
  kOtherFamily,
  kShortAddress,
};

/// What is to go wrong in the middle of a transfer, after `pieces` of its pieces have ended.
struct MidTransfer {
  enum class Action {
    kFail,        // the transfer fails, as if the next piece had
    kDrop,        // the client's connection is closed; the other pieces go on after the pause
    kEarlyError,  // the error reply goes out; the other pieces go on after the pause
    kPause,       // nothing but the pause
  };

  Action action = Action::kFail;
  std::size_t pieces = 0;
  std::chrono::milliseconds pause{0};
};

/// Everything that is to go wrong with one command.
struct FaultPlan {
  /// The reply instead of running the command.
  std::optional<std::string> error;
  /// The command is neither run nor answered.
  bool never_run = false;
  std::chrono::milliseconds delay_before_rma{0};
  std::optional<MidTransfer> mid_transfer;
  /// Replaces the checksum of the reply.
  std::optional<std::uint32_t> checksum;
  bool spoil_checksum = false;
  ReplyShape shape = ReplyShape::kRegular;
  /// Replaces the LEN of BLOB.INFO.
  std::optional<std::uint64_t> announced_length;
  /// Index of a service whose address vector is to be spoilt.
  std::optional<std::size_t> spoil_service;
  std::chrono::milliseconds delay_before_reply{0};
  /// The connection is closed instead of the reply; the command has run.
  bool drop_before_reply = false;
  /// No reply; the command has run.
  bool never_answer = false;
};

/// One row of the table of faults.
struct FaultKind {
  const char* name;
  const char* arguments;  // as the help shows them
  unsigned commands;      // Command bits it can apply to
  const char* meaning;
  /// Checks the arguments and gives what a command's plan is to be changed by; nullptr inside and a problem if they are
  /// wrong.
  std::function<void(FaultPlan&, Command)> (*parse)(const FaultKind& kind, const std::vector<std::string>& arguments,
                                                    std::string& problem);
};

const std::vector<FaultKind>& fault_kinds();

/// The faults that are armed. Main thread.
class Faults {
 public:
  struct Armed {
    const FaultKind* kind;
    std::vector<std::string> arguments;
    unsigned commands;
    std::optional<std::string> key;
    /// Commands it still applies to; none: until it is cleared.
    std::optional<std::uint64_t> left;
    std::function<void(FaultPlan&, Command)> effect;
  };

  /// `words`: name, arguments, then any of ON command, KEY key, COUNT n. Empty, or what is wrong.
  std::string arm(const std::vector<std::string>& words);

  /// All, or those of one name; how many there were.
  std::size_t clear(const std::optional<std::string>& name);

  [[nodiscard]] const std::list<Armed>& armed() const { return armed_; }

  /// What happens to this command; counts down every fault that applies.
  FaultPlan take(Command command, std::string_view key);

 private:
  std::list<Armed> armed_;
};

}  // namespace keyferry::large_object
