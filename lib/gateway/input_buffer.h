#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/bytes.h"

namespace keyferry::gateway {

/// What was read from a client and not used yet, in one piece. No memory while empty, 16 KiB at first, more only on
/// demand. Belongs to the worker's thread.
class InputBuffer {
 public:
  static constexpr std::size_t kFirst = 16 * 1024;
  /// A buffer of kFirst that nobody uses: clients that are served one after the other need but one.
  using Spare = std::unique_ptr<char[]>;

  /// `spare` outlives the buffer.
  explicit InputBuffer(Spare& spare) : spare_(spare) {}
  ~InputBuffer() { give_back(); }
  InputBuffer(const InputBuffer&) = delete;
  InputBuffer& operator=(const InputBuffer&) = delete;

  std::string_view view() const { return {memory_.get() + begin_, end_ - begin_}; }
  std::size_t size() const { return end_ - begin_; }
  /// Moves nothing, so that a read under way goes on into the room it was given.
  void consume(std::size_t bytes) { begin_ += bytes; }

  /// Moves what is there to the front. Not while a read or a write uses the memory.
  void compact() {
    if (begin_ == 0) return;
    if (size() != 0) std::memmove(memory_.get(), memory_.get() + begin_, size());
    end_ -= begin_;
    begin_ = 0;
  }
  /// Room to read into, behind what is there, which stays where it is; empty when there is none.
  base::MutableBytes tail() {
    if (capacity_ == 0) grow(kFirst);
    return {reinterpret_cast<std::byte*>(memory_.get()) + end_, capacity_ - end_};
  }
  /// Both of them.
  base::MutableBytes room() {
    compact();
    return tail();
  }
  void received(std::size_t bytes) { end_ += bytes; }

  /// At least this capacity; never less than now. As compact().
  void grow(std::size_t capacity) {
    if (capacity > capacity_) move_to(capacity);
  }
  std::size_t capacity() const { return capacity_; }
  /// Not one that fit() has made smaller: grow(kFirst) makes room in that.
  bool full() const { return capacity_ >= kFirst && size() == capacity_; }

  /// Gives the memory back if it is empty, unless it is what somewhat larger commands take, of which more may come. As
  /// compact().
  void release() {
    if (size() == 0 && (capacity_ == kFirst || capacity_ > kKept)) give_back();
  }
  /// Keeps no memory while it is empty, and of the first buffer no more than what is there needs. For a client of which
  /// nothing may come for long; grow(kFirst) makes room again. As compact().
  void fit() {
    if (size() == 0) {
      give_back();
    } else if (size() + kSlack < kFirst && capacity_ > size() + kSlack) {
      move_to(size());
    }
  }

 private:
  static constexpr std::size_t kKept = 4 * kFirst;
  // Less than this is not worth moving for.
  static constexpr std::size_t kSlack = 512;

  void move_to(std::size_t capacity) {
    std::unique_ptr<char[]> other = capacity == kFirst ? std::move(spare_) : nullptr;
    if (!other) other = std::make_unique_for_overwrite<char[]>(capacity);
    const std::size_t kept = size();
    if (kept != 0) std::memcpy(other.get(), memory_.get() + begin_, kept);
    give_back();
    memory_ = std::move(other);
    capacity_ = capacity;
    end_ = kept;
  }
  void give_back() {
    if (capacity_ == kFirst && !spare_) spare_ = std::move(memory_);
    memory_.reset();
    capacity_ = begin_ = end_ = 0;
  }

  Spare& spare_;
  std::unique_ptr<char[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace keyferry::gateway
