#pragma once

#include <span>
#include <string_view>

#include "gateway/reply_slots.h"

namespace keyferry::gateway {

class Session;

/// Answers what concerns the connection between client and gateway alone: PING, HELLO, RESET, QUIT and what CLIENT says
/// of the client itself. The reply goes to `tag` and is written in the client's protocol (R4, R6); what this version
/// can't do gets a clear error, and the connection lives (R7).
void run_local(Session& session, std::span<const std::string_view> args, SlotTag tag);

/// What RESET leaves of a client's state.
void reset_client(Session& session);

}  // namespace keyferry::gateway
