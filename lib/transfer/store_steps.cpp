#include "transfer/store_steps.h"

#include "resp/writer.h"

namespace keyferry::transfer {

std::optional<std::string> StoreSteps::next() {
  if (step_ == Step::kExpiry && !extras_.expiry) step_ = Step::kRename;
  if (step_ == Step::kRename && extras_.rename_to.empty()) step_ = Step::kDone;
  std::string command;
  switch (step_) {
    case Step::kExpiry:
      // A span counts from here: the gateway's clock may differ from the server's.
      resp::append_command(command, {extras_.expiry->absolute ? "PEXPIREAT" : "PEXPIRE", key_,
                                     std::to_string(extras_.expiry->milliseconds)});
      return command;
    case Step::kRename:
      resp::append_command(command, {"RENAME", key_, extras_.rename_to});
      return command;
    case Step::kRemove:
      resp::append_command(command, {"UNLINK", key_});
      return command;
    case Step::kDone:
    case Step::kRemoved:
      break;
  }
  return std::nullopt;
}

void StoreSteps::replied(const resp::Value& reply) {
  if (step_ == Step::kRemove) {
    step_ = Step::kRemoved;
    return;
  }
  // An expiry answered 0 found no key: another client has removed it since, which is as if that came after all of this.
  const bool good = step_ == Step::kExpiry ? reply.kind == resp::Value::Kind::kInteger
                                           : reply.kind == resp::Value::Kind::kSimple && reply.text == "OK";
  if (good) {
    step_ = step_ == Step::kExpiry ? Step::kRename : Step::kDone;
    return;
  }
  error_ = reply.is_error() ? reply.text : "ERR unexpected reply";
  step_ = Step::kRemove;
}

}  // namespace keyferry::transfer
