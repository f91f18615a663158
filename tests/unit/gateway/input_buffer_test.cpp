#include "gateway/input_buffer.h"

#include <gtest/gtest.h>

namespace keyferry::gateway {
namespace {

void put(InputBuffer& buffer, std::string_view text) {
  const base::MutableBytes room = buffer.room();
  ASSERT_GE(room.size(), text.size());
  std::memcpy(room.data(), text.data(), text.size());
  buffer.received(text.size());
}

TEST(InputBuffer, HoldsNoMemoryBeforeItIsUsedAndAfterItWasReleased) {
  InputBuffer::Spare spare;
  InputBuffer buffer(spare);
  EXPECT_EQ(buffer.capacity(), 0U);
  put(buffer, "abc");
  EXPECT_EQ(buffer.capacity(), InputBuffer::kFirst);
  buffer.release();
  EXPECT_EQ(buffer.view(), "abc") << "what is not used yet must stay";
  buffer.consume(3);
  buffer.release();
  EXPECT_EQ(buffer.capacity(), 0U);
}

TEST(InputBuffer, TheNextOneTakesWhatWasReleased) {
  InputBuffer::Spare spare;
  InputBuffer first(spare), second(spare);
  const void* memory = first.room().data();
  first.release();
  EXPECT_EQ(spare.get(), memory);
  EXPECT_EQ(second.room().data(), memory);
  EXPECT_FALSE(spare);
  EXPECT_NE(first.room().data(), memory);
  second.release();
  first.release();
  EXPECT_EQ(spare.get(), memory) << "one is enough";
}

TEST(InputBuffer, SomewhatLargerMemoryIsReleasedWhenNothingMayComeForLong) {
  InputBuffer::Spare spare;
  InputBuffer buffer(spare);
  buffer.grow(2 * InputBuffer::kFirst);
  buffer.release();
  EXPECT_EQ(buffer.capacity(), 2 * InputBuffer::kFirst);
  buffer.fit();
  EXPECT_EQ(buffer.capacity(), 0U);
  buffer.grow(8 * InputBuffer::kFirst);
  buffer.release();
  EXPECT_EQ(buffer.capacity(), 0U);
}

TEST(InputBuffer, PartOfACommandKeepsNoMoreThanItNeedsUntilMoreComes) {
  InputBuffer::Spare spare;
  InputBuffer buffer(spare);
  put(buffer, "xxx*2\r\n$4");
  buffer.consume(3);
  buffer.fit();
  EXPECT_FALSE(buffer.full()) << "grow(kFirst) makes room: it may be read into";
  EXPECT_EQ(buffer.view(), "*2\r\n$4");
  EXPECT_EQ(buffer.capacity(), 6U);
  EXPECT_TRUE(spare) << "another client may have it";
  buffer.grow(InputBuffer::kFirst);
  put(buffer, "\r\n");
  EXPECT_EQ(buffer.view(), "*2\r\n$4\r\n");
}

TEST(InputBuffer, TheTailLeavesWhatIsThereWhereItIs) {
  InputBuffer::Spare spare;
  InputBuffer buffer(spare);
  put(buffer, "abcdef");
  buffer.consume(2);
  const char* lent = buffer.view().data();
  const base::MutableBytes tail = buffer.tail();
  EXPECT_EQ(buffer.view().data(), lent);
  EXPECT_EQ(static_cast<const void*>(tail.data()), lent + 4);
  buffer.compact();
  EXPECT_EQ(buffer.view(), "cdef");
  EXPECT_EQ(buffer.tail().size(), InputBuffer::kFirst - 4);
}

TEST(InputBuffer, ConsumingWhileAReadIsUnderWayLeavesTheRoomWhereItWas) {
  InputBuffer::Spare spare;
  InputBuffer buffer(spare);
  put(buffer, "abcdef");
  const base::MutableBytes room = buffer.room();
  buffer.consume(6);
  std::memcpy(room.data(), "ghi", 3);
  buffer.received(3);
  EXPECT_EQ(buffer.view(), "ghi");
}

TEST(InputBuffer, RoomComesFromWhatWasConsumed) {
  InputBuffer::Spare spare;
  InputBuffer buffer(spare);
  put(buffer, std::string(InputBuffer::kFirst, 'x'));
  EXPECT_TRUE(buffer.full());
  EXPECT_TRUE(buffer.room().empty());
  buffer.consume(10);
  EXPECT_EQ(buffer.room().size(), 10U);
  EXPECT_EQ(buffer.view(), std::string(InputBuffer::kFirst - 10, 'x'));
}

TEST(InputBuffer, GrowingKeepsTheBytes) {
  InputBuffer::Spare spare;
  InputBuffer buffer(spare);
  put(buffer, "0123456789");
  buffer.consume(4);
  buffer.grow(4 * InputBuffer::kFirst);
  EXPECT_EQ(buffer.view(), "456789");
  EXPECT_EQ(buffer.room().size(), 4 * InputBuffer::kFirst - 6);
}

}  // namespace
}  // namespace keyferry::gateway
