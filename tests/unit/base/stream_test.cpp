#include "base/stream.h"

#include <boost/asio.hpp>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "base/copied_write.h"

namespace keyferry::base {
namespace {

class StreamTest : public testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    descriptor = pair[0];
    ours = adopt_socket(loop, Fd(pair[0]));
    peer = Fd(pair[1]);
  }

  Loop loop;
  std::unique_ptr<Stream> ours;
  Fd peer;
  int descriptor = -1;
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

TEST_F(StreamTest, ALateReadAsksForMemoryWhenThereIsSomethingToRead) {
  std::string memory(10, '.');
  bool asked = false;
  ours->async_read_late(
      [&] {
        asked = true;
        return MutableBytes(reinterpret_cast<std::byte*>(memory.data()), memory.size());
      },
      [&](std::error_code error, std::size_t bytes) {
        EXPECT_FALSE(error);
        EXPECT_EQ(bytes, 3U);
        loop.stop();
      });
  // Runs after the loop has looked for events at least once.
  Timer timer(loop);
  timer.start(std::chrono::milliseconds(1), [&] {
    EXPECT_FALSE(asked);
    ASSERT_EQ(::write(peer.get(), "abc", 3), 3);
  });
  loop.run("test");
  EXPECT_EQ(memory, "abc.......");
}

TEST_F(StreamTest, ALateReadFindsWhatCameBeforeIt) {
  ASSERT_EQ(::write(peer.get(), "abcdef", 6), 6);
  std::string got;
  std::array<std::byte, 4> memory{};
  std::function<void()> again = [&] {
    ours->async_read_late([&] { return MutableBytes(memory); },
                          [&](std::error_code error, std::size_t bytes) {
                            EXPECT_FALSE(error);
                            got.append(reinterpret_cast<const char*>(memory.data()), bytes);
                            got.size() == 6 ? loop.stop() : again();
                          });
  };
  again();
  loop.run("test");
  EXPECT_EQ(got, "abcdef");
}

TEST_F(StreamTest, ALateReadTellsAnOrderlyEndAndIsEndedByClose) {
  std::byte byte{};
  int ended = 0;
  ours->async_read_late([&] { return MutableBytes(&byte, 1); },
                        [&](std::error_code error, std::size_t) {
                          EXPECT_TRUE(is_end_of_stream(error));
                          ++ended;
                          ours->async_read_late(
                              [&] {
                                ADD_FAILURE() << "closed";
                                return MutableBytes(&byte, 1);
                              },
                              [&](std::error_code closed, std::size_t) {
                                EXPECT_EQ(closed, std::errc::operation_canceled);
                                ++ended;
                                loop.stop();
                              });
                          ours.reset();
                        });
  peer.reset();
  loop.run("test");
  EXPECT_EQ(ended, 2);
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

/// A copier of its own thread, and a peer that reads when it is told to.
class CopiedWriteTest : public StreamTest {
 protected:
  CopiedWriteTest() : thread([this] { copier.run("copier"); }) {}
  ~CopiedWriteTest() override {
    copier.stop();
    thread.join();
  }
  void write(std::span<const ConstBytes> pieces) {
    ours->async_write_by(copier, loop, pieces, [this](std::error_code failure, std::size_t bytes) {
      error = failure;
      count = bytes;
      on_loop = std::this_thread::get_id() == loop_thread;
      loop.stop();
    });
  }
  std::string read_all(std::size_t bytes) {
    std::string got(bytes, '.');
    std::size_t at = 0;
    while (at < bytes) {
      pollfd readable{peer.get(), POLLIN, 0};
      ::poll(&readable, 1, -1);
      const ssize_t some = ::recv(peer.get(), got.data() + at, bytes - at, 0);
      if (some <= 0) break;
      at += static_cast<std::size_t>(some);
    }
    got.resize(at);
    return got;
  }

  Loop copier;
  std::thread thread;
  std::thread::id loop_thread = std::this_thread::get_id();
  std::error_code error;
  std::size_t count = 0;
  bool on_loop = false;
};

std::string letters(std::size_t bytes) {
  std::string text(bytes, 'a');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + i % 23 + i / 4096 % 3);
  return text;
}

TEST_F(CopiedWriteTest, WritesAllThatTheSocketTakesInOrderAndTellsItOnTheLoop) {
  const std::string head = "head", body = letters(3 * CopiedWrite::kPiece + 5);
  std::string got;
  std::thread reader([&] { got = read_all(head.size() + body.size()); });
  std::string sent = head + body;
  // What the socket did not take at once is asked for again, as a session does.
  for (std::size_t at = 0; at < sent.size(); at += count) {
    const std::string_view left = std::string_view(sent).substr(at);
    const std::size_t first = std::min<std::size_t>(left.size(), 4);
    write(std::array<ConstBytes, 3>{as_bytes(left.substr(0, first)), as_bytes(""), as_bytes(left.substr(first))});
    loop.run("test");
    loop.context().restart();
    EXPECT_TRUE(on_loop);
    if (error || count == 0) {
      ADD_FAILURE() << error.message() << ", " << count << " bytes";
      ours->close();
      break;
    }
  }
  reader.join();
  EXPECT_EQ(got, sent);
}

TEST_F(CopiedWriteTest, ASocketThatTakesNothingIsWaitedFor) {
  const std::string filling = letters(4 * kMiB);
  write(std::array<ConstBytes, 1>{as_bytes(filling)});
  loop.run("test");
  loop.context().restart();
  ASSERT_LT(count, filling.size()) << "the socket took all of it: it is not full";
  const std::size_t lying = count;
  count = 0;
  write(std::array<ConstBytes, 1>{as_bytes("behind")});
  std::thread reader([&] { EXPECT_EQ(read_all(lying), filling.substr(0, lying)); });
  loop.run("test");
  reader.join();
  EXPECT_FALSE(error);
  EXPECT_EQ(count, 6U);
  EXPECT_EQ(read_all(6), "behind");
}

/// A copier whose steps a test takes by hand.
class ByHand final : public Executor {
 public:
  void post(Task task) override { tasks.push_back(std::move(task)); }
  void run_one() {
    Task task = std::move(tasks.front());
    tasks.pop_front();
    task();
  }
  std::deque<Task> tasks;
};

class ClosedWriteTest : public StreamTest {
 protected:
  void write(std::string_view text) {
    ours->async_write_by(copier, loop, std::array<ConstBytes, 1>{as_bytes(text)},
                         [this](std::error_code failure, std::size_t) {
                           error = failure;
                           ++ended;
                           open_in_handler = ::fcntl(descriptor, F_GETFD) != -1;
                         });
  }
  void turn() {
    loop.context().restart();
    loop.context().poll();
  }
  void expect_end() {
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(error, std::errc::operation_canceled);
    EXPECT_FALSE(open_in_handler) << "closed before it is told";
    EXPECT_TRUE(copier.tasks.empty());
  }

  ByHand copier;
  std::error_code error;
  int ended = 0;
  bool open_in_handler = true;
};

TEST_F(ClosedWriteTest, BeforeTheCopierHasBegunTheDescriptorStaysOpenUntilItHasSeenThat) {
  write("nothing of it");
  ours->close();
  turn();
  EXPECT_NE(::fcntl(descriptor, F_GETFD), -1) << "the copier may be about to write";
  EXPECT_EQ(ended, 0);
  copier.run_one();
  turn();
  expect_end();
  char byte = 0;
  EXPECT_EQ(::recv(peer.get(), &byte, 1, 0), 0) << "nothing was sent";
}

TEST_F(ClosedWriteTest, WhileItWaitsForRoomItIsWokenAndEnds) {
  const std::string filling = letters(4 * kMiB);
  while (::send(descriptor, filling.data(), filling.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  write("no room");
  copier.run_one();
  turn();
  ASSERT_TRUE(copier.tasks.empty()) << "it waits";
  ours->close();
  turn();
  ASSERT_EQ(copier.tasks.size(), 1U) << "woken";
  copier.run_one();
  turn();
  expect_end();
}

TEST_F(ClosedWriteTest, TheStreamMayGoBeforeItsWriteHasEnded) {
  write("nothing of it");
  ours.reset();
  EXPECT_NE(::fcntl(descriptor, F_GETFD), -1);
  copier.run_one();
  turn();
  expect_end();
}

TEST_F(CopiedWriteTest, APeerThatHasGoneIsAnError) {
  peer.reset();
  write(std::array<ConstBytes, 1>{as_bytes("nobody")});
  loop.run("test");
  EXPECT_EQ(error, std::errc::broken_pipe);
}

}  // namespace
}  // namespace keyferry::base
