#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "transfer/write_marks.h"

namespace keyferry::gateway {

/// What a command may do to the data, as far as its name tells. Beside the table of ways (command_table.h), which holds
/// exceptions only, because this one has to know the harmless: whatever is not in it may change anything.
enum class Effect : std::uint8_t {
  kReads,
  /// It changes at most keys that stand among its arguments.
  kNamedKeys,
  /// A script, EXEC, FLUSHALL, SWAPDB, a module's command, one that is newer than this table.
  kAnything,
};

/// `name` in any case.
Effect effect_of(std::string_view name);

/// What to touch when this command is forwarded and answered. `whole` false: a large argument and what follows it are
/// not read yet and may name any key, unless it is the value of BLOB.TCP_SET or SET.
transfer::WriteMarks::Mark write_mark(const transfer::WriteMarks& marks, std::span<const std::string_view> args,
                                      bool whole = true);

}  // namespace keyferry::gateway
