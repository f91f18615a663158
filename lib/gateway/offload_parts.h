#pragma once

#include <memory>
#include <string>

#include "gateway/continuation.h"
#include "gateway/offload_command.h"
#include "gateway/reply_slots.h"

namespace keyferry::gateway {

class Session;

/// Removes a key that a command has left; nobody waits for it.
void remove_leftover(Session& session, const std::string& key);
/// Gives a value that was moved aside its key again, unless that has got another value since.
void put_back(Session& session, const std::string& from, const std::string& key);

/// An object that is read where it is: if the key has become a string meanwhile, the command is begun anew.
class AskAgain final : public Continuation {
 public:
  AskAgain(Session& session, SlotTag tag, OffloadCommand::Plan plan);
  Judgement judge(std::string_view line, transfer::Loan& value) override;

 private:
  Session& session_;
  SlotTag tag_;
  OffloadCommand::Plan plan_;
};

/// An object that was moved aside and is read there: removed once it is delivered, else put back.
class TakenAway final : public Continuation {
 public:
  TakenAway(Session& session, std::string moved_to, std::string key);
  Judgement judge(std::string_view line, transfer::Loan& value) override;
  std::shared_ptr<Operation> ended(bool delivered) override;
  std::shared_ptr<Operation> failed(std::string& text) override;

 private:
  Session& session_;
  std::string moved_to_;
  std::string key_;
};

/// A command that was carried out elsewhere and may be told WRONGTYPE because of a large object.
class AskWhy final : public Continuation {
 public:
  AskWhy(Session& session, SlotTag tag, OffloadCommand::Plan plan);
  Judgement judge(std::string_view line, transfer::Loan& value) override;

 private:
  Session& session_;
  SlotTag tag_;
  OffloadCommand::Plan plan_;
};

}  // namespace keyferry::gateway
