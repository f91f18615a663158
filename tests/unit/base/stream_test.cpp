#include "base/stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <string>

namespace keyferry::base {
namespace {

class StreamTest : public testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    ours = adopt_socket(loop, Fd(pair[0]));
    peer = Fd(pair[1]);
  }

  Loop loop;
  std::unique_ptr<Stream> ours;
  Fd peer;
};

TEST_F(StreamTest, ReadsIntoSeveralPlacesInOrder) {
  std::string first(3, '.');
  std::string second(10, '.');
  const std::array<MutableBytes, 2> buffers{MutableBytes(reinterpret_cast<std::byte*>(first.data()), first.size()),
                                            MutableBytes(reinterpret_cast<std::byte*>(second.data()), second.size())};
  ASSERT_EQ(::write(peer.get(), "abcdef", 6), 6);
  std::size_t count = 0;
  ours->async_read(buffers, [&](std::error_code error, std::size_t bytes) {
    EXPECT_FALSE(error);
    count = bytes;
    loop.stop();
  });
  loop.run("test");
  EXPECT_EQ(count, 6U);
  EXPECT_EQ(first + second, "abcdef.......");
}

TEST_F(StreamTest, WritesFromSeveralPlacesInOrder) {
  const std::array<ConstBytes, 3> pieces{as_bytes("one "), as_bytes(""), as_bytes("two")};
  ours->async_write(pieces, [&](std::error_code error, std::size_t bytes) {
    EXPECT_FALSE(error);
    EXPECT_EQ(bytes, 7U);
    loop.stop();
  });
  loop.run("test");
  char got[16];
  ASSERT_EQ(::read(peer.get(), got, sizeof(got)), 7);
  EXPECT_EQ(std::string_view(got, 7), "one two");
}

TEST_F(StreamTest, AnOrderlyEndIsToldApart) {
  peer.reset();
  std::byte byte{};
  const std::array<MutableBytes, 1> buffer{MutableBytes(&byte, 1)};
  ours->async_read(buffer, [&](std::error_code error, std::size_t) {
    EXPECT_TRUE(is_end_of_stream(error));
    loop.stop();
  });
  loop.run("test");
}

TEST_F(StreamTest, ClosingEndsTheReadUnderWayEvenWhenTheStreamIsDestroyedAtOnce) {
  std::byte byte{};
  const std::array<MutableBytes, 1> buffer{MutableBytes(&byte, 1)};
  bool ended = false;
  ours->async_read(buffer, [&](std::error_code error, std::size_t) {
    EXPECT_EQ(error, std::errc::operation_canceled);
    ended = true;
    loop.stop();
  });
  ours.reset();
  EXPECT_FALSE(ended) << "never inside the call";
  loop.run("test");
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace keyferry::base
