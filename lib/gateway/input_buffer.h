#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/bytes.h"

namespace keyferry::gateway {

/// What was read from a client and not used yet, in one piece. No memory while empty and idle, 16 KiB at first, more
/// only on demand. Belongs to the worker's thread.
class InputBuffer {
 public:
  static constexpr std::size_t kFirst = 16 * 1024;

  std::string_view view() const { return {memory_.get() + begin_, end_ - begin_}; }
  std::size_t size() const { return end_ - begin_; }
  /// Moves nothing, so that a read under way goes on into the room it was given.
  void consume(std::size_t bytes) { begin_ += bytes; }

  /// Room to read into; moves what is there to the front first. Empty when the buffer is full. Not while a read is
  /// under way.
  base::MutableBytes room() {
    if (capacity_ == 0) grow(kFirst);
    if (begin_ != 0) {
      if (size() != 0) std::memmove(memory_.get(), memory_.get() + begin_, size());
      end_ -= begin_;
      begin_ = 0;
    }
    return {reinterpret_cast<std::byte*>(memory_.get()) + end_, capacity_ - end_};
  }
  void received(std::size_t bytes) { end_ += bytes; }

  /// At least this capacity; never less than now. Not while a read is under way.
  void grow(std::size_t capacity) {
    if (capacity <= capacity_) return;
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (size() != 0) std::memcpy(larger.get(), memory_.get() + begin_, size());
    end_ = size();
    begin_ = 0;
    memory_ = std::move(larger);
    capacity_ = capacity;
  }
  std::size_t capacity() const { return capacity_; }
  bool full() const { return capacity_ != 0 && size() == capacity_; }

  /// Gives memory beyond `keep` bytes back if it is empty; only while no read is under way.
  void shrink(std::size_t keep) {
    if (size() == 0 && capacity_ > keep) {
      memory_.reset();
      capacity_ = begin_ = end_ = 0;
    }
  }

 private:
  std::unique_ptr<char[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace keyferry::gateway
