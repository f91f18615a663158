#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "telemetry/registry.h"
#include "transfer/checked_value.h"

namespace keyferry::gateway {

/// What a client is to be sent, in order: text of our own and values that lie in the pool. The queue owns the text and
/// its share of each value until they are written: the lease goes back when the socket of the last client that shares
/// the value has taken its last byte. Belongs to the worker's thread.
class OutputQueue {
 public:
  /// `deliver`, if given, is fed with the time from append_value() to each value's last byte being taken.
  explicit OutputQueue(telemetry::Histogram* deliver = nullptr) : deliver_(deliver) {}

  void append(std::string_view bytes);
  /// The value as one bulk string: header, the bytes straight out of the pool, CR LF.
  void append_value(transfer::SharedValue value);

  bool empty() const { return items_.empty(); }
  /// Bytes held in memory of the process; what lies in the pool is bounded by the pool and not counted.
  std::size_t buffered() const { return buffered_; }
  /// All bytes that were ever appended, and those of them that were written.
  std::uint64_t appended_total() const { return appended_; }
  std::uint64_t written_total() const { return written_; }
  /// True while a value of the pool waits for the client.
  bool holds_value() const { return values_ != 0; }
  /// Values of the pool that wait for the client.
  std::size_t values() const { return values_; }

  /// The next bytes to write, at most that many, as spans that stay valid until written(). A bound is what lets others
  /// have their turn: to a client that reads as fast as it is written to, one write would take a value of any size.
  std::span<const base::ConstBytes> gather(std::size_t most_spans, std::size_t most_bytes);
  /// The socket took this many bytes of what gather() gave.
  void written(std::size_t bytes);
  /// Drops everything; only when no write is under way.
  void clear();
  /// Keeps no memory that is not in use; as clear().
  void fit();

 private:
  struct Text {
    std::string bytes;
    /// Set while a write may be reading it: it must not grow, as growing moves its bytes.
    bool lent = false;
  };
  struct Value {
    transfer::SharedValue value;
    base::TimePoint since;
  };
  using Item = std::variant<Text, Value>;

  void gather_value(const transfer::CheckedValue& value, std::size_t skip, std::size_t most_spans);

  telemetry::Histogram* const deliver_;
  /// No memory while it is empty, as most are most of the time.
  std::list<Item> items_;
  /// Bytes of the first item that were written already.
  std::size_t front_written_ = 0;
  std::size_t buffered_ = 0;
  std::uint64_t appended_ = 0;
  std::uint64_t written_ = 0;
  std::size_t values_ = 0;
  std::vector<base::ConstBytes> spans_;
};

}  // namespace keyferry::gateway
