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

TEST(InputBuffer, HoldsNoMemoryBeforeItIsUsedAndAfterItWasShrunk) {
  InputBuffer buffer;
  EXPECT_EQ(buffer.capacity(), 0U);
  put(buffer, "abc");
  EXPECT_EQ(buffer.capacity(), InputBuffer::kFirst);
  buffer.shrink(0);
  EXPECT_EQ(buffer.view(), "abc") << "what is not used yet must stay";
  buffer.consume(3);
  buffer.shrink(0);
  EXPECT_EQ(buffer.capacity(), 0U);
}

TEST(InputBuffer, ConsumingWhileAReadIsUnderWayLeavesTheRoomWhereItWas) {
  InputBuffer buffer;
  put(buffer, "abcdef");
  const base::MutableBytes room = buffer.room();
  buffer.consume(6);
  std::memcpy(room.data(), "ghi", 3);
  buffer.received(3);
  EXPECT_EQ(buffer.view(), "ghi");
}

TEST(InputBuffer, RoomComesFromWhatWasConsumed) {
  InputBuffer buffer;
  put(buffer, std::string(InputBuffer::kFirst, 'x'));
  EXPECT_TRUE(buffer.full());
  EXPECT_TRUE(buffer.room().empty());
  buffer.consume(10);
  EXPECT_EQ(buffer.room().size(), 10U);
  EXPECT_EQ(buffer.view(), std::string(InputBuffer::kFirst - 10, 'x'));
}

TEST(InputBuffer, GrowingKeepsTheBytes) {
  InputBuffer buffer;
  put(buffer, "0123456789");
  buffer.consume(4);
  buffer.grow(4 * InputBuffer::kFirst);
  EXPECT_EQ(buffer.view(), "456789");
  EXPECT_EQ(buffer.room().size(), 4 * InputBuffer::kFirst - 6);
}

}  // namespace
}  // namespace keyferry::gateway
