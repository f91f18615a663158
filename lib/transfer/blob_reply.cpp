#include "transfer/blob_reply.h"

#include <array>
#include <limits>
#include <string_view>

#include "transfer/text_match.h"

namespace keyferry::transfer {

namespace {

/// Whether the server may be moving bytes when it says so.
enum class Rma : std::uint8_t { kSettled, kMayRun };
enum class Answer : std::uint8_t { kRefused, kRepeat, kDialect, kReplaceLane };

/// A text matches if it begins with `start` and holds `inside` (lower case) somewhere. The first row that matches
/// decides.
struct Row {
  std::string_view start;
  std::string_view inside;
  Answer answer;
  const char* reason;
  Rma rma;
};

constexpr std::array kErrors{
    Row{"NOPERM", "blob.rdma_", Answer::kRepeat, "noperm", Rma::kSettled},
    Row{"NOPERM", "", Answer::kRefused, "", Rma::kSettled},
    Row{"NOAUTH ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"WRONGTYPE ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"OOM ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"READONLY ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"LOADING ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"MOVED ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"ASK ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"TRYAGAIN ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"CROSSSLOT ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"CLUSTERDOWN ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"MASTERDOWN ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"MISCONF ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"NOREPLICAS ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"BUSY ", "", Answer::kRefused, "", Rma::kSettled},
    Row{"ERR max object size exceeded", "", Answer::kRefused, "", Rma::kSettled},
    Row{"ERR object length must be", "", Answer::kRefused, "", Rma::kSettled},
    Row{"ERR DRAM buffer pool exhausted", "", Answer::kRefused, "", Rma::kSettled},
    Row{"ERR NVMe disk capacity exceeded", "", Answer::kRefused, "", Rma::kSettled},
    // Buffers are taken before the first piece, and the commit comes after the last (blob-rdma spec 3.2, 3.3).
    Row{"ERR disk staging buffer pool exhausted", "", Answer::kRefused, "", Rma::kSettled},
    Row{"ERR failed to set key", "", Answer::kRefused, "", Rma::kSettled},
    // The disk works chunk by chunk beside the fabric.
    Row{"ERR disk read failed", "", Answer::kRefused, "", Rma::kMayRun},
    Row{"ERR disk write failed", "", Answer::kRefused, "", Rma::kMayRun},
    // An older build reads CRC as an rkey (C7).
    Row{"ERR memory address args must be", "", Answer::kDialect, "triples", Rma::kSettled},
    Row{"ERR invalid rkey", "", Answer::kDialect, "triples", Rma::kSettled},
    Row{"ERR too many memory addresses", "", Answer::kRepeat, "triples", Rma::kSettled},
    Row{"ERR invalid memory address", "", Answer::kRepeat, "triples", Rma::kSettled},
    Row{"ERR invalid len", "", Answer::kRepeat, "triples", Rma::kSettled},
    Row{"ERR wrong number of arguments", "", Answer::kRepeat, "dialect", Rma::kSettled},
    Row{"ERR client address space smaller", "", Answer::kRepeat, "window", Rma::kSettled},
    Row{"ERR no RDMA session", "", Answer::kReplaceLane, "no_session", Rma::kSettled},
    Row{"ERR RDMA provider unavailable", "", Answer::kReplaceLane, "server_no_fabric", Rma::kSettled},
    Row{"ERR RDMA ", "", Answer::kRepeat, "rdma_error", Rma::kMayRun},
    Row{"ERR ", "unknown command", Answer::kReplaceLane, "no_module", Rma::kSettled},
    Row{"ERR ", "unknown or disabled command", Answer::kReplaceLane, "no_module", Rma::kSettled},
    // The texts of a refused checksum are not published (blob-rdma spec 2.3); these words only give the reason a better
    // name.
    Row{"ERR ", "checksum", Answer::kRepeat, "checksum", Rma::kMayRun},
    Row{"ERR ", "crc", Answer::kRepeat, "checksum", Rma::kMayRun},
    Row{"", "", Answer::kRepeat, "unknown_error", Rma::kMayRun},
};

bool fences(Rma rma, TrustErrorReplies trust) {
  if (trust == TrustErrorReplies::kNever) return true;
  return trust == TrustErrorReplies::kBeforeRma && rma == Rma::kMayRun;
}

const Row& find_row(std::string_view text) {
  for (const Row& row : kErrors) {
    if (text.starts_with(row.start) && contains_lower(text, row.inside)) return row;
  }
  return kErrors.back();
}

ReplyOutcome classify_error(const std::string& text, const ReplyContext& context) {
  const Row& row = find_row(text);
  ReplyOutcome outcome;
  outcome.verdict = Verdict::kRepeat;
  outcome.aftermath = Aftermath::kUsable;
  outcome.text = row.reason;
  switch (row.answer) {
    case Answer::kRefused:
      outcome.verdict = Verdict::kRefused;
      outcome.text = "-" + text;
      break;
    case Answer::kDialect:
      if (context.op == Op::kSet && context.sent_crc) outcome.verdict = Verdict::kWithoutCrc;
      break;
    case Answer::kReplaceLane:
      outcome.aftermath = Aftermath::kReplaceLane;
      break;
    case Answer::kRepeat:
      break;
  }
  if (fences(row.rma, context.trust)) {
    outcome.aftermath = Aftermath::kFence;
    outcome.fence_reason = row.answer == Answer::kRefused ? "error_reply" : row.reason;
  }
  return outcome;
}

ReplyOutcome unexpected(std::string what) {
  ReplyOutcome outcome;
  outcome.text = std::move(what);
  outcome.fence_reason = "unexpected_reply";
  return outcome;
}

const char* kind_text(const resp::Value& reply) {
  switch (reply.kind) {
    case resp::Value::Kind::kNull:
      return "a null";
    case resp::Value::Kind::kSimple:
      return "a status";
    case resp::Value::Kind::kInteger:
      return "an integer";
    case resp::Value::Kind::kBulk:
      return "a bulk string";
    case resp::Value::Kind::kArray:
      return "an array of another form";
    default:
      return "a reply of another type";
  }
}

ReplyOutcome usable(Verdict verdict) {
  ReplyOutcome outcome;
  outcome.verdict = verdict;
  outcome.aftermath = Aftermath::kUsable;
  return outcome;
}

ReplyOutcome classify_set(const resp::Value& reply) {
  if (reply.kind == resp::Value::Kind::kSimple && reply.text.size() == 2 && contains_lower(reply.text, "ok"))
    return usable(Verdict::kStored);
  return unexpected(std::string("the server answered BLOB.RDMA_SET with ") + kind_text(reply));
}

ReplyOutcome classify_get(const resp::Value& reply, const ReplyContext& context) {
  if (reply.is_null()) return usable(Verdict::kMissing);
  const auto is_integer = [&](std::size_t at) { return reply.children[at].kind == resp::Value::Kind::kInteger; };
  if (reply.kind != resp::Value::Kind::kArray || reply.children.size() != 2 || !is_integer(0) || !is_integer(1)) {
    return unexpected(std::string("the server answered BLOB.RDMA_GET with ") + kind_text(reply));
  }
  const std::int64_t length = reply.children[0].integer;
  const std::int64_t crc = reply.children[1].integer;
  if (length < 0 || crc < 0 || crc > std::numeric_limits<std::uint32_t>::max()) {
    return unexpected("the server answered BLOB.RDMA_GET with an impossible length or checksum");
  }
  if (static_cast<std::uint64_t>(length) > context.window) {
    // An old server: what lies behind the window may be damaged and more may come (C6).
    ReplyOutcome outcome;
    outcome.verdict = Verdict::kRepeat;
    outcome.text = outcome.fence_reason = "length";
    return outcome;
  }
  ReplyOutcome outcome = usable(Verdict::kLanded);
  outcome.length = static_cast<std::uint64_t>(length);
  outcome.crc = static_cast<std::uint32_t>(crc);
  return outcome;
}

}  // namespace

ReplyOutcome classify_reply(const resp::Value& reply, const ReplyContext& context) {
  if (reply.is_error()) return classify_error(reply.text, context);
  return context.op == Op::kSet ? classify_set(reply) : classify_get(reply, context);
}

}  // namespace keyferry::transfer
