#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "blocked_command.h"
#include "faults.h"
#include "valkey_api.h"

namespace keyferry::large_object {

/// `text` begins with its code and must stay valid for ever (a constant), or be a string of its own.
Reply error_reply(const char* text);
Reply error_reply(std::string text);
Reply null_reply();
Reply wrong_type_reply();
Reply ok_reply();

/// [length, crc], or what `shape` wants instead; `window` is the sum of the client's regions.
Reply get_reply(ReplyShape shape, std::uint64_t length, std::uint32_t crc, std::uint64_t window);
/// +OK, or what `shape` wants instead.
Reply set_reply(ReplyShape shape, std::uint64_t length);
/// The addresses in hex, or what `shape` wants instead. Not empty.
Reply hello_reply(ReplyShape shape, std::vector<std::vector<std::byte>> addresses);

/// Ends a command that did not block, as its plan wants: at once, later, by closing the connection, or not at all. Main
/// thread.
void deliver(ValkeyModuleCtx* ctx, const FaultPlan& plan, Reply reply);
/// The same for one that did.
void deliver(const BlockedCommandRef& command, const FaultPlan& plan, Reply reply);

}  // namespace keyferry::large_object
