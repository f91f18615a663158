#pragma once

#include <cstdint>
#include <memory>

#include "gateway/operation.h"

namespace keyferry::gateway {

/// Reads the rest of a large command and drops it: its reply, an error, was given already (R7: the connection lives).
class DropInput final : public Operation {
 public:
  /// The parser has just offered the body: all of the command is still in the input.
  static std::shared_ptr<DropInput> whole_command(Session& session);
  /// `taken` bytes of the offered body (and its CR LF) were consumed, and nothing of the command is in the input before
  /// the rest.
  static std::shared_ptr<DropInput> after_body_bytes(Session& session, std::uint64_t taken);
  /// The parser streams the command already; the input begins where it has got to.
  static std::shared_ptr<DropInput> rest_of_stream(Session& session);

  explicit DropInput(Session& session) : Operation(session) {}

  void start() override;
  void client_gone() override;

 private:
  void drop();
};

}  // namespace keyferry::gateway
