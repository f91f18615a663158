#include "gateway/subscriptions.h"

#include <algorithm>

#include "gateway/command_table.h"
#include "resp/decode.h"

namespace keyferry::gateway {

namespace {

struct Command {
  std::string_view name;
  std::string_view kind;
  bool begins;
};

constexpr std::array kCommands{
    Command{"SUBSCRIBE", "subscribe", true},        Command{"PSUBSCRIBE", "psubscribe", true},
    Command{"SSUBSCRIBE", "ssubscribe", true},      Command{"UNSUBSCRIBE", "unsubscribe", false},
    Command{"PUNSUBSCRIBE", "punsubscribe", false}, Command{"SUNSUBSCRIBE", "sunsubscribe", false},
};

/// The text of an aggregate's first element, if that is a bulk string.
std::string_view first_text(std::string_view frame) {
  const std::size_t header = frame.find('\n');
  if (header == std::string_view::npos) return {};
  frame.remove_prefix(header + 1);
  const std::size_t length = frame.find('\n');
  if (!frame.starts_with('$') || length == std::string_view::npos) return {};
  frame.remove_prefix(length + 1);
  return frame.substr(0, frame.find('\r'));
}

}  // namespace

std::optional<Subscriptions::Wanted> Subscriptions::wanted_by(std::span<const std::string_view> args) {
  for (const Command& command : kCommands) {
    if (equals_upper(args[0], command.name)) return Wanted{command.kind, args.size() - 1};
  }
  return std::nullopt;
}

bool Subscriptions::is_message(std::string_view frame) const {
  const std::string_view kind = first_text(frame);
  return any() && (kind == "message" || kind == "pmessage" || kind == "smessage");
}

bool Subscriptions::answers(const Wanted& wanted, std::string_view frame) {
  return first_text(frame) == wanted.kind;
}

bool Subscriptions::take(Wanted& wanted, std::string_view frame) {
  const resp::DecodeResult decoded = resp::decode(frame);
  if (!decoded.ok() || decoded.value.children.size() != 3) return false;
  const auto& parts = decoded.value.children;
  if (parts[0].text != wanted.kind || parts[2].kind != resp::Value::Kind::kInteger) return false;
  const Family family = wanted.kind[0] == 'p'                                                   ? kPatterns
                        : wanted.kind.substr(0, 2) == "ss" || wanted.kind.substr(0, 3) == "sun" ? kShards
                                                                                                : kChannels;
  std::size_t& count = counts_[family];
  if (wanted.count == 0) wanted.count = std::max<std::size_t>(count, 1);
  std::size_t& told = totals_[family == kShards ? 1 : 0];
  const auto total = static_cast<std::size_t>(std::max<std::int64_t>(parts[2].integer, 0));
  if (total > told) ++count;
  if (total < told && count > 0) --count;
  told = total;
  return --wanted.count == 0;
}

}  // namespace keyferry::gateway
