#include "error_texts.h"
#include "faults.h"
#include "text.h"

namespace keyferry::large_object {
namespace {

using Effect = std::function<void(FaultPlan&, Command)>;
using Words = std::vector<std::string>;

constexpr unsigned kHello = static_cast<unsigned>(Command::kHello);
constexpr unsigned kGet = static_cast<unsigned>(Command::kRdmaGet);
constexpr unsigned kSet = static_cast<unsigned>(Command::kRdmaSet);
constexpr unsigned kTcp = static_cast<unsigned>(Command::kTcpGet) | static_cast<unsigned>(Command::kTcpSet);
constexpr unsigned kSets = kSet | static_cast<unsigned>(Command::kTcpSet);
constexpr unsigned kInfo = static_cast<unsigned>(Command::kInfo);
constexpr unsigned kTransfers = kGet | kSet;
constexpr unsigned kAll = kHello | kTransfers | kTcp | kInfo;

Effect refuse(std::string& problem, std::string text) {
  problem = std::move(text);
  return nullptr;
}

std::optional<std::uint64_t> number(const Words& words, std::size_t index, std::uint64_t standard) {
  return index < words.size() ? parse_unsigned(words[index], INT32_MAX) : std::optional(standard);
}

bool between(const Words& words, std::size_t least, std::size_t most) {
  return words.size() >= least && words.size() <= most;
}

std::string usage(const FaultKind& kind) {
  return "usage: " + std::string(kind.name) + " " + kind.arguments;
}

template <auto kAction>
Effect mid_transfer(const FaultKind& kind, const Words& words, std::string& problem) {
  constexpr bool kPauses = kAction != MidTransfer::Action::kFail;
  const auto pieces = number(words, 0, 0);
  const auto pause = number(words, 1, 0);
  if (!between(words, 1, kPauses ? 2 : 1) || !pieces || !pause) return refuse(problem, usage(kind));
  const MidTransfer plan{kAction, *pieces, std::chrono::milliseconds(*pause)};
  return [plan](FaultPlan& all, Command) { all.mid_transfer = plan; };
}

template <auto kField>
Effect delay(const FaultKind& kind, const Words& words, std::string& problem) {
  const auto milliseconds = number(words, 0, 0);
  if (!between(words, 1, 1) || !milliseconds) return refuse(problem, usage(kind));
  return [delay = std::chrono::milliseconds(*milliseconds)](FaultPlan& all, Command) { all.*kField = delay; };
}

template <auto kField>
Effect flag(const FaultKind& kind, const Words& words, std::string& problem) {
  if (!words.empty()) return refuse(problem, usage(kind));
  return [](FaultPlan& all, Command) { all.*kField = true; };
}

Effect wrong_checksum(const FaultKind& kind, const Words& words, std::string& problem) {
  if (words.empty()) return [](FaultPlan& all, Command) { all.spoil_checksum = true; };
  const auto value = parse_unsigned(words[0], UINT32_MAX);
  if (words.size() != 1 || !value) return refuse(problem, usage(kind));
  return [crc = static_cast<std::uint32_t>(*value)](FaultPlan& all, Command) { all.checksum = crc; };
}

Effect announced_length(const FaultKind& kind, const Words& words, std::string& problem) {
  const auto value = words.size() == 1 ? parse_unsigned(words[0], INT64_MAX) : std::nullopt;
  if (!value) return refuse(problem, usage(kind));
  return [length = *value](FaultPlan& all, Command) { all.announced_length = length; };
}

Effect spoil_address_vector(const FaultKind& kind, const Words& words, std::string& problem) {
  const auto service = number(words, 0, 0);
  if (!between(words, 0, 1) || !service) return refuse(problem, usage(kind));
  return [index = static_cast<std::size_t>(*service)](FaultPlan& all, Command) { all.spoil_service = index; };
}

struct NamedShape {
  const char* name;
  ReplyShape shape;
  unsigned commands;
};

constexpr NamedShape kShapes[] = {
    {"null", ReplyShape::kNull, kTransfers | kHello},
    {"integer", ReplyShape::kInteger, kTransfers | kHello},
    {"one-element", ReplyShape::kOneElement, kTransfers},
    {"three-elements", ReplyShape::kThreeElements, kTransfers},
    {"empty-array", ReplyShape::kEmptyArray, kTransfers | kHello},
    {"negative-count", ReplyShape::kNegativeCount, kGet},
    {"crc-too-big", ReplyShape::kChecksumTooBig, kGet},
    {"too-long", ReplyShape::kTooLong, kGet},
    {"ok", ReplyShape::kOk, kGet | kHello},
    {"lower-case-ok", ReplyShape::kLowerCaseOk, kSet},
    {"queued", ReplyShape::kQueued, kTransfers | kHello},
    {"unreadable", ReplyShape::kUnreadable, kTransfers | kHello},
    {"odd-hex", ReplyShape::kOddHex, kHello},
    {"not-hex", ReplyShape::kNotHex, kHello},
    {"other-family", ReplyShape::kOtherFamily, kHello},
    {"short-address", ReplyShape::kShortAddress, kHello},
};

Effect reply_shape(const FaultKind& kind, const Words& words, std::string& problem) {
  std::string names;
  for (const auto& row : kShapes) {
    if (words.size() == 1 && equals_ignoring_case(words[0], row.name)) {
      // A shape that this command cannot have leaves its reply alone.
      return [row](FaultPlan& all, Command command) {
        if ((row.commands & static_cast<unsigned>(command)) != 0) all.shape = row.shape;
      };
    }
    names.append(names.empty() ? "" : ", ").append(row.name);
  }
  return refuse(problem, usage(kind) + "; shapes: " + names);
}

Effect error_text(const FaultKind& kind, const Words& words, std::string& problem) {
  if (words.size() != 1 || words[0].empty() || words[0].find_first_of("\r\n") != std::string::npos) {
    return refuse(problem, usage(kind));
  }
  return [text = words[0]](FaultPlan& all, Command) { all.error = text; };
}

// The redirection that the row is named after, to an address nobody listens on unless another is given.
Effect redirection(const FaultKind& kind, const Words& words, std::string& problem) {
  if (!words.empty() && words.size() != 2) return refuse(problem, usage(kind));
  std::string text = equals_ignoring_case(kind.name, "ask") ? "ASK " : "MOVED ";
  text += words.empty() ? "0 127.0.0.1:1" : words[0] + " " + words[1];
  return [text](FaultPlan& all, Command) { all.error = text; };
}

// The row's meaning is the text.
Effect fixed_text(const FaultKind& kind, const Words& words, std::string& problem) {
  if (!words.empty()) return refuse(problem, usage(kind));
  return [text = kind.meaning](FaultPlan& all, Command) { all.error = text; };
}

Effect unknown_command(const FaultKind& kind, const Words& words, std::string& problem) {
  if (!words.empty()) return refuse(problem, usage(kind));
  return [](FaultPlan& all, Command command) {
    all.error = "ERR unknown command '" + std::string(name_of(command)) + "', with args beginning with: ";
  };
}

Effect no_permission(const FaultKind& kind, const Words& words, std::string& problem) {
  if (!words.empty()) return refuse(problem, usage(kind));
  return [](FaultPlan& all, Command command) {
    all.error = "NOPERM User default has no permissions to run the '" + to_lower(name_of(command)) + "' command";
  };
}

}  // namespace

const std::vector<FaultKind>& fault_kinds() {
  using Action = MidTransfer::Action;
  static const auto* kinds = new std::vector<FaultKind>{
      {"fail-after", "pieces", kTransfers, "fails the transfer after that many pieces; no further piece is started",
       mid_transfer<Action::kFail>},
      {"drop-after", "pieces [pause-ms]", kTransfers,
       "closes the connection after that many pieces, pauses, and goes on writing or reading",
       mid_transfer<Action::kDrop>},
      {"early-error", "pieces [pause-ms]", kTransfers,
       "sends the error reply after that many pieces, pauses, and goes on writing or reading",
       mid_transfer<Action::kEarlyError>},
      {"pause-after", "pieces pause-ms", kTransfers, "pauses after that many pieces, then ends well",
       mid_transfer<Action::kPause>},
      {"delay-before-rma", "ms", kTransfers, "waits before the first piece", delay<&FaultPlan::delay_before_rma>},
      {"delay-before-reply", "ms", kAll, "waits between the end of the work and the reply",
       delay<&FaultPlan::delay_before_reply>},
      {"wrong-crc", "[crc]", kGet, "puts a wrong checksum (or this one) into the reply", wrong_checksum},
      {"reply", "shape", kTransfers | kHello, "runs the command and sends a reply of another shape", reply_shape},
      {"info-len", "length", kInfo, "announces this length", announced_length},
      {"spoil-av", "[service]", kHello, "makes a service's address vector refuse every address until the server ends",
       spoil_address_vector},
      {"never-run", "", kAll, "neither runs nor answers the command", flag<&FaultPlan::never_run>},
      {"never-answer", "", kAll, "runs the command and does not answer", flag<&FaultPlan::never_answer>},
      {"drop", "", kAll, "runs the command and closes the connection instead of answering",
       flag<&FaultPlan::drop_before_reply>},
      {"error", "text", kAll, "answers this error (code first) and does nothing", error_text},
      {"oom", "", kSets, kOutOfMemory, fixed_text},
      {"disk-oom", "", kSets, kOutOfDisk, fixed_text},
      {"staging", "", kTransfers | kTcp, kStagingExhausted, fixed_text},
      {"no-fabric", "", kHello, kNoFabric, fixed_text},
      {"session-exists", "", kHello, kSessionExists, fixed_text},
      {"no-session", "", kTransfers, kNoSession, fixed_text},
      {"unknown-command", "", kAll, "the core's text for a command it does not know", unknown_command},
      {"noperm", "", kAll, "the core's text for a command the user may not run", no_permission},
      {"readonly", "", kAll, "READONLY You can't write against a read only replica.", fixed_text},
      {"loading", "", kAll, "LOADING Valkey is loading the dataset in memory", fixed_text},
      {"moved", "[slot host:port]", kAll, "MOVED to that node", redirection},
      {"ask", "[slot host:port]", kAll, "ASK that node", redirection},
      {"clusterdown", "", kAll, "CLUSTERDOWN The cluster is down", fixed_text},
      {"masterdown", "", kAll, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
       fixed_text},
      {"tryagain", "", kAll, "TRYAGAIN Multiple keys request during rehashing of slot", fixed_text},
  };
  return *kinds;
}

}  // namespace keyferry::large_object
