#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "gateway/offload_table.h"
#include "gateway/operation.h"
#include "gateway/reply_slots.h"

namespace keyferry::gateway {

class Session;

/// The operation for a whole command of which a key stands under `transfer.offload`. `alone`: it is too large for a
/// shared channel.
std::shared_ptr<Operation> offloaded_command(Session& session, SlotTag tag, const Offloaded& offloaded,
                                             std::span<const std::string_view> args, bool alone);

/// The operation for such a command whose large argument the parser has just offered and that is not stored as an
/// object; it takes the input. For OffloadRoute::kNotOnObject.
std::shared_ptr<Operation> offloaded_stream(Session& session, SlotTag tag, const Offloaded& offloaded);

/// The operation for a SET of such a key whose value the parser has just offered; it takes the input.
std::shared_ptr<Operation> offloaded_set(Session& session, SlotTag tag, std::string_view key);

}  // namespace keyferry::gateway
