#pragma once

#include <memory>

#include "gateway/operation.h"
#include "gateway/pin.h"

namespace keyferry::gateway {

/// A command with a large argument on the client's own connection: it is handed on as it comes, at most about 1 MiB
/// ahead of what the server has taken. Ends with the command's last byte; the reply, if there is one, is the Pin's.
/// Belongs to the worker's thread.
class PinUpload final : public Operation {
 public:
  /// The parser has just offered the argument.
  PinUpload(Session& session, std::shared_ptr<Pin> pin, SlotTag tag, PinPlan plan);
  ~PinUpload() override;

  void start() override;
  void client_gone() override;

 private:
  void pass_on();

  std::shared_ptr<Pin> pin_;
  SlotTag tag_;
  PinPlan plan_;
  /// It has no reply (Pin::Silence).
  bool silent_ = false;
};

}  // namespace keyferry::gateway
