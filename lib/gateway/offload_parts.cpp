#include "gateway/offload_parts.h"

#include "gateway/session.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

constexpr std::string_view kWrongType = "-WRONGTYPE";

}  // namespace

void remove_leftover(Session& session, const std::string& key) {
  std::string command;
  resp::append_command(command, {"UNLINK", key});
  session.worker().errands.run(session.channel(upstream::Access::kWrites), command,
                               "a key that a command has left could not be removed");
}

void put_back(Session& session, const std::string& from, const std::string& key) {
  // On one connection, so in this order: UNLINK finds something only if the key has got another value since.
  const std::shared_ptr<upstream::Channel> channel = session.channel(upstream::Access::kWrites);
  std::string back;
  resp::append_command(back, {"RENAMENX", from, key});
  session.worker().errands.run(channel, back, "a value that was moved aside could not be put back");
  std::string away;
  resp::append_command(away, {"UNLINK", from});
  session.worker().errands.run(channel, away, "a value that was moved aside could not be removed");
}

AskAgain::AskAgain(Session& session, SlotTag tag, OffloadCommand::Plan plan)
    : session_(session), tag_(tag), plan_(std::move(plan)) {}

Continuation::Judgement AskAgain::judge(std::string_view line, transfer::Loan&) {
  if (!line.starts_with(kWrongType)) return {Judgement::Kind::kDeliver, std::string(line), nullptr};
  session_.worker().kind_hints.note(session_.client().identity, plan_.keys.front(), false);
  return {Judgement::Kind::kHandOver, {}, std::make_shared<OffloadCommand>(session_, tag_, std::move(plan_))};
}

TakenAway::TakenAway(Session& session, std::string moved_to, std::string key)
    : session_(session), moved_to_(std::move(moved_to)), key_(std::move(key)) {}

Continuation::Judgement TakenAway::judge(std::string_view line, transfer::Loan&) {
  if (!line.starts_with(kWrongType)) return {Judgement::Kind::kDeliver, std::string(line), nullptr};
  return {Judgement::Kind::kDeliver,
          "-ERR keyferry: another client has replaced the value in this moment; nothing was removed\r\n", nullptr};
}

std::shared_ptr<Operation> TakenAway::ended(bool delivered) {
  if (delivered) {
    remove_leftover(session_, moved_to_);
  } else {
    put_back(session_, moved_to_, key_);
  }
  return nullptr;
}

std::shared_ptr<Operation> TakenAway::failed(std::string& text) {
  put_back(session_, moved_to_, key_);
  text += "; nothing was removed";
  return nullptr;
}

AskWhy::AskWhy(Session& session, SlotTag tag, OffloadCommand::Plan plan)
    : session_(session), tag_(tag), plan_(std::move(plan)) {}

Continuation::Judgement AskWhy::judge(std::string_view line, transfer::Loan&) {
  if (!line.starts_with(kWrongType)) return {Judgement::Kind::kDeliver, std::string(line), nullptr};
  auto next = std::make_shared<OffloadCommand>(session_, tag_, std::move(plan_));
  next->answered_with(std::string(line));
  return {Judgement::Kind::kHandOver, {}, std::move(next)};
}

}  // namespace keyferry::gateway
