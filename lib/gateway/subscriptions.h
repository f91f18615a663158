#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace keyferry::gateway {

/// Finds the end of what answers SUBSCRIBE and its like: a frame for each channel, in RESP3 a push and in RESP2 an
/// array, and tells the arrays that are messages from those that are replies. Pure. One for each connection.
class Subscriptions {
 public:
  /// A command whose frames have not all come.
  struct Wanted {
    /// As the frames name it; lives for ever.
    std::string_view kind;
    /// 0: as many as there are subscriptions when its turn comes, and one if there are none.
    std::size_t count = 0;
  };

  /// What a command waits for; nothing if it is none of the family.
  static std::optional<Wanted> wanted_by(std::span<const std::string_view> args);

  /// A whole frame that came while `wanted` was the oldest command under way. True: it was the last one wanted.
  bool take(Wanted& wanted, std::string_view frame);
  /// Whether a whole array of RESP2 is nobody's reply: a message, which can come while there are subscriptions only,
  /// when the server lets a client ask for nothing that could be answered so.
  bool is_message(std::string_view frame) const;
  /// Whether a whole frame is one that `wanted` waits for.
  static bool answers(const Wanted& wanted, std::string_view frame);
  bool any() const { return totals_[0] + totals_[1] != 0; }
  /// RESET.
  void clear() { *this = {}; }

 private:
  enum Family : std::uint8_t { kChannels, kPatterns, kShards };
  /// Subscriptions by family, and the totals that the server told last: of channels and patterns together, of shards.
  std::array<std::size_t, 3> counts_{};
  std::array<std::size_t, 2> totals_{};
};

}  // namespace keyferry::gateway
