#pragma once

#include <boost/circular_buffer.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "gateway/output_queue.h"
#include "transfer/checked_value.h"
#include "transfer/write_marks.h"

namespace keyferry::gateway {

struct CommandRow;

/// Names the reply to one command of one client.
using SlotTag = std::uint64_t;

/// What a command counts as in commands_total and command_seconds.
enum class CommandClass : std::uint8_t {
  kOrdinary,
  kLocal,
  kTransferSet,
  kTransferGet,
  kBulk,
  /// On a connection of the client's own; what may wait there for ever by itself (R24).
  kPinned,
  kBlocking
};
inline constexpr std::size_t kCommandClasses = 7;
std::string_view name_of(CommandClass command_class);

/// Keeps a client's replies in the order of its commands (R9, R20): whatever order they are finished in, they reach the
/// output in order, and each command has exactly one. It also tells of writes, when their command is taken up and
/// before their reply can be seen (WriteMarks), as every command has its slot whichever way it goes. Belongs to the
/// worker's thread.
class ReplySlots {
 public:
  using Mark = transfer::WriteMarks::Mark;

  ReplySlots(OutputQueue& output, transfer::WriteMarks& marks) : output_(output), marks_(marks) {}

  /// A reply that is complete, as it leaves.
  struct Reply {
    CommandClass command_class;
    /// Null: the table does not know the command.
    const CommandRow* row = nullptr;
    base::TimePoint opened;
    /// When the command was handed to a connection to the server; zero: it was not.
    base::TimePoint asked{};
    base::TimePoint finished{};
  };
  /// Follows replies on their way to the client.
  class Watcher {
   public:
    /// All of a reply is in the output, its last byte being the `end`th of all that the client gets.
    virtual void left(const Reply& reply, std::uint64_t end) = 0;

   protected:
    ~Watcher() = default;
  };
  /// `watcher` is told of each reply that leaves, and lives until none does any more.
  void watch_with(Watcher& watcher) { watcher_ = &watcher; }

  /// Before the command is sent anywhere. `writes`: what it may write. `row`: see Reply.
  SlotTag open(CommandClass command_class, base::TimePoint now, Mark writes, const CommandRow* row = nullptr);
  /// The command is handed to a connection to the server.
  void asked(SlotTag tag, base::TimePoint when) { slots_[tag - first_].reply.asked = when; }
  /// Bytes of a reply. They go straight to the output when the slot is the oldest, and wait in it otherwise.
  void append(SlotTag tag, std::string_view bytes);
  void append_value(SlotTag tag, transfer::SharedValue value);
  /// Takes back what was appended. False if some of it has gone to the output already.
  bool retract(SlotTag tag);
  /// Bytes that are nobody's reply: they leave now, or, when the oldest reply has begun to, behind it (R5).
  void append_push(std::string_view bytes);
  /// The reply is complete.
  void finish(SlotTag tag, base::TimePoint now = {});

  bool is_oldest(SlotTag tag) const { return tag == first_; }
  bool is_open(SlotTag tag) const { return tag - first_ < slots_.size(); }
  /// Replies that are not complete or wait behind one that isn't.
  std::size_t open_count() const { return slots_.size(); }
  /// Bytes waiting in slots.
  std::size_t buffered() const { return buffered_; }
  /// Values of the pool waiting in slots.
  std::size_t values() const { return values_; }
  /// When the oldest open command began; nullopt if none is open.
  std::optional<base::TimePoint> oldest() const;
  /// It has become clear what the command is.
  void classify(SlotTag tag, CommandClass command_class) { slots_[tag - first_].reply.command_class = command_class; }
  CommandClass command_class(SlotTag tag) const { return slots_[tag - first_].reply.command_class; }
  /// Null: the table does not know the command.
  const CommandRow* row(SlotTag tag) const { return slots_[tag - first_].reply.row; }
  /// Nothing of the reply has come yet.
  bool is_blank(SlotTag tag) const {
    const Slot& slot = slots_[tag - first_];
    return !slot.begun && slot.bytes.empty() && !slot.value;
  }
  base::TimePoint opened(SlotTag tag) const { return slots_[tag - first_].reply.opened; }
  void clear();
  /// Keeps no memory that is not in use.
  void fit();

 private:
  struct Slot {
    Reply reply;
    Mark writes = Mark::kNothing;
    bool done = false;
    bool begun = false;
    std::string bytes;
    transfer::SharedValue value;
  };

  void drain();

  OutputQueue& output_;
  transfer::WriteMarks& marks_;
  Watcher* watcher_ = nullptr;
  std::string pushes_;
  /// Unlike a deque it has no memory until it is used, and gives it back when it is told to.
  boost::circular_buffer<Slot> slots_;
  SlotTag first_ = 0;
  std::size_t buffered_ = 0;
  std::size_t values_ = 0;
};

}  // namespace keyferry::gateway
