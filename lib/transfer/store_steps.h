#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "resp/value.h"

namespace keyferry::transfer {

/// When a key shall end.
struct Expiry {
  /// A point in time (milliseconds since 1970, the server's clock) rather than a span from now.
  bool absolute = false;
  std::int64_t milliseconds = 0;
};

/// What shall be done on the same connection once a value is stored, as BLOB.*_SET has neither an expiry nor replaces a
/// key of another type (blob-rdma spec 2.3, 6.4).
struct StoreExtras {
  std::optional<Expiry> expiry;
  /// The name that the stored key takes in the end, in place of whatever is there; empty: it keeps its own. A reader of
  /// this name sees what was there before or all of the new value, with its expiry, and nothing between.
  std::string rename_to;

  bool empty() const { return !expiry && rename_to.empty(); }
};

/// The commands that follow a store which the server has answered +OK: expiry, new name, and if one of them fails the
/// removal of what was stored. The same on a lane as on a bulk connection. A plain value; one owner at a time.
class StoreSteps {
 public:
  StoreSteps(std::string key, StoreExtras extras) : key_(std::move(key)), extras_(std::move(extras)) {}

  /// The next command, whole; nullopt when all is done. After each replied() has to be called with its reply.
  std::optional<std::string> next();
  void replied(const resp::Value& reply);

  /// The first error that came, without "-"; empty: none. What was stored is removed then.
  const std::string& error() const { return error_; }
  /// The key that BLOB.*_SET names.
  const std::string& key() const { return key_; }
  const StoreExtras& extras() const { return extras_; }

 private:
  enum class Step : std::uint8_t { kExpiry, kRename, kDone, kRemove, kRemoved };

  std::string key_;
  StoreExtras extras_;
  Step step_ = Step::kExpiry;
  std::string error_;
};

}  // namespace keyferry::transfer
