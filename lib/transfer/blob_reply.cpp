#include "transfer/blob_reply.h"

#include <limits>
#include <string_view>

#include "transfer/dialect.h"
#include "transfer/text_match.h"

namespace keyferry::transfer {

namespace {

bool fences(Rma rma, TrustErrorReplies trust) {
  if (trust == TrustErrorReplies::kNever) return true;
  return trust == TrustErrorReplies::kBeforeRma && rma == Rma::kMayRun;
}

ReplyOutcome classify_error(const std::string& text, const ReplyContext& context) {
  const KnownError& known = known_error(text);
  ReplyOutcome outcome;
  outcome.verdict = Verdict::kRepeat;
  outcome.aftermath = Aftermath::kUsable;
  outcome.text = known.reason;
  switch (known.answer) {
    case Answer::kRefused:
      outcome.verdict = Verdict::kRefused;
      outcome.text = "-" + text;
      break;
    case Answer::kWithoutCrc:
      if (context.op == Op::kSet && context.sent_crc) outcome.verdict = Verdict::kWithoutCrc;
      break;
    case Answer::kReplaceLane:
    case Answer::kUnsettled:
      outcome.aftermath = Aftermath::kReplaceLane;
      break;
    case Answer::kRepeat:
      break;
  }
  if (fences(known.rma, context.trust)) {
    outcome.aftermath = Aftermath::kFence;
    outcome.fence_reason = known.answer == Answer::kRefused ? "error_reply" : known.reason;
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
