#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gateway/reply_slots.h"
#include "gateway/session.h"
#include "resp/protocol.h"

namespace keyferry::gateway {

/// Answers what concerns the connection between client and gateway alone: RESET, QUIT and, once the server has allowed
/// it, what CLIENT says of the client itself. The reply goes to `tag` and is written in the client's protocol (R4).
void run_local(Session& session, std::span<const std::string_view> args, SlotTag tag);

/// What HELLO without AUTH asks for.
struct Hello {
  /// The error, starting with its code; empty if there is none.
  std::string refusal;
  resp::Protocol protocol = resp::Protocol::kResp2;
  std::string name;
};
/// All options are judged before anything changes, as the server does (R6).
Hello judge_hello(const Session::ClientState& client, std::span<const std::string_view> args);

/// CLIENT GETNAME's.
std::string name_reply(Session& session);

/// What RESET leaves of a client's state.
void reset_client(Session& session);

}  // namespace keyferry::gateway
