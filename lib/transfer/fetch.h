#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/executor.h"
#include "upstream/connection.h"

namespace keyferry::transfer {

class CheckedValue;

/// A GET as the engine is asked for it. Two with the same identity, database and key may be carried as one.
struct FetchRequest {
  /// On whose behalf a lease is asked for.
  std::uint64_t client = 0;
  /// Whose rights it runs with, and on which database.
  upstream::Identity identity;
  std::string key;
  /// How long the value is believed to be: that much memory is leased for it, rounded up to whole regions.
  std::uint64_t length = 0;
  /// Where the value is hashed; null: where its sink is called.
  base::Executor* hash_on = nullptr;
};

/// What became of it.
struct FetchResult {
  enum class Kind : std::uint8_t {
    /// `value` is checked, and shared with whoever else waited for it.
    kValue,
    kMissing,
    /// The server's own error, one that BLOB.TCP_GET gives too: `text` is the whole line without CR LF.
    kRefused,
    /// Only the fabric's way can give this, or no lane was to be had: repeat as BLOB.TCP_GET. `text` is the reason for
    /// fallback_total.
    kRepeat,
    /// The value is longer than the memory leased for it, and the server moved none of it: ask for its length.
    kOutgrown,
    /// No memory within limits.pool_wait; `text` is for the client.
    kNoRoom,
    /// No reply came; `text` says what happened.
    kLost,
    /// leave() or end_client() was heard in time.
    kLeft,
  };
  Kind kind = Kind::kLost;
  std::string text;
  std::shared_ptr<const CheckedValue> value;
};

/// Who asked. Called on the executor it was given with, first (at most once) fetch_leased(), then exactly once
/// fetched(). The engine drops its hold on it there too, so that it dies on its own thread.
class FetchSink {
 public:
  virtual ~FetchSink() = default;
  /// Memory for the value is there: nothing more is needed of the pool.
  virtual void fetch_leased() = 0;
  virtual void fetched(FetchResult result) = 0;
};

}  // namespace keyferry::transfer
