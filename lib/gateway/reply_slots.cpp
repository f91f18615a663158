#include "gateway/reply_slots.h"

#include <algorithm>
#include <utility>

namespace keyferry::gateway {

namespace {

// Twice as many whenever they are not enough: a client that waits for each reply has one, a pipeline up to hundreds.
constexpr std::size_t kFirstSlots = 4;
// More are given back as soon as they are free, so that pipelines of many clients, one after the other, use the same
// memory.
constexpr std::size_t kKeptSlots = 16;

}  // namespace

std::string_view name_of(CommandClass command_class) {
  switch (command_class) {
    case CommandClass::kOrdinary:
      return "ordinary";
    case CommandClass::kLocal:
      return "local";
    case CommandClass::kTransferSet:
      return "transfer_set";
    case CommandClass::kTransferGet:
      return "transfer_get";
    case CommandClass::kBulk:
      return "bulk";
    case CommandClass::kPinned:
      return "pinned";
    case CommandClass::kBlocking:
      return "blocking";
  }
  return "unknown";
}

SlotTag ReplySlots::open(CommandClass command_class, base::TimePoint now, Mark writes, const CommandRow* row) {
  marks_.touch(writes);
  if (slots_.full()) slots_.set_capacity(std::max(kFirstSlots, 2 * slots_.capacity()));
  slots_.push_back(Slot{.reply = {.command_class = command_class, .row = row, .opened = now},
                        .writes = writes,
                        .bytes = {},
                        .value = {}});
  return first_ + slots_.size() - 1;
}

void ReplySlots::append(SlotTag tag, std::string_view bytes) {
  Slot& slot = slots_[tag - first_];
  marks_.touch(slot.writes);
  if (is_oldest(tag)) {
    slot.begun = true;
    output_.append(bytes);
  } else {
    slot.bytes.append(bytes);
    buffered_ += bytes.size();
  }
}

void ReplySlots::append_value(SlotTag tag, transfer::SharedValue value) {
  Slot& slot = slots_[tag - first_];
  if (is_oldest(tag)) {
    slot.begun = true;
    output_.append_value(std::move(value));
  } else {
    ++values_;
    slot.value = std::move(value);
  }
}

bool ReplySlots::retract(SlotTag tag) {
  Slot& slot = slots_[tag - first_];
  if (slot.begun) return false;
  buffered_ -= slot.bytes.size();
  slot.bytes.clear();
  if (slot.value) --values_;
  slot.value.reset();
  return true;
}

void ReplySlots::append_push(std::string_view bytes) {
  if (slots_.empty() || !slots_.front().begun) return output_.append(bytes);
  pushes_.append(bytes);
  buffered_ += bytes.size();
}

void ReplySlots::finish(SlotTag tag, base::TimePoint now) {
  slots_[tag - first_].done = true;
  slots_[tag - first_].reply.finished = now;
  drain();
}

void ReplySlots::drain() {
  while (!slots_.empty()) {
    if (!slots_.front().done) return;
    if (watcher_ != nullptr) watcher_->left(slots_.front().reply, output_.appended_total());
    slots_.pop_front();
    ++first_;
    if (!pushes_.empty()) {
      buffered_ -= pushes_.size();
      output_.append(std::exchange(pushes_, {}));
    }
    if (slots_.empty()) {
      if (slots_.capacity() > kKeptSlots) slots_.set_capacity(0);
      return;
    }
    // The next one is the oldest now: what it has gathered may leave, finished or not.
    Slot& next = slots_.front();
    if (!next.bytes.empty()) {
      next.begun = true;
      buffered_ -= next.bytes.size();
      output_.append(next.bytes);
      next.bytes = {};
    }
    if (next.value) {
      next.begun = true;
      --values_;
      output_.append_value(std::exchange(next.value, nullptr));
    }
  }
}

void ReplySlots::fit() {
  if (!slots_.empty()) return;
  slots_.set_capacity(0);
  pushes_.shrink_to_fit();
}

std::optional<base::TimePoint> ReplySlots::oldest() const {
  if (slots_.empty()) return std::nullopt;
  return slots_.front().reply.opened;
}

void ReplySlots::clear() {
  for (const Slot& slot : slots_) marks_.touch(slot.writes);
  first_ += slots_.size();
  slots_.clear();
  pushes_.clear();
  buffered_ = 0;
  values_ = 0;
}

}  // namespace keyferry::gateway
