#include "gateway/listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace keyferry::gateway {
namespace {

class ListenerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("kf-listener-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  ListenOptions unix_socket(unsigned mode) {
    return {.host = {}, .port = 0, .path = (folder / "sock").string(), .mode = mode};
  }
  static base::Fd connect_to(const Listener& listener) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(listener.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    base::Fd client(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return client;
  }
  static std::string failure_of(base::Loop& loop, const ListenOptions& options) {
    try {
      const Listener listener(loop, options, [](base::Fd, std::string_view) {});
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder;
  base::Loop loop;
};

TEST_F(ListenerTest, HandsOnWhatConnectsOverTcp) {
  std::string transport;
  Listener listener(loop, {.host = "127.0.0.1", .port = 0, .path = {}}, [&](base::Fd socket, std::string_view kind) {
    EXPECT_TRUE(socket);
    // Bounded: the kernel's own choice would grow to megabytes.
    int most = 0;
    socklen_t size = sizeof(most);
    EXPECT_EQ(::getsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &most, &size), 0);
    EXPECT_GT(most, 256 * 1024);
    EXPECT_LE(most, 512 * 1024);
    transport = kind;
    loop.stop();
  });
  const base::Fd client = connect_to(listener);
  loop.run("test");
  EXPECT_EQ(transport, "tcp");
}

TEST_F(ListenerTest, AClientWhoseHostFallsSilentIsAskedForASignOfLife) {
  const auto value_of = [](const base::Fd& socket, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(socket.get(), level, name, &value, &size), 0);
    return value;
  };
  for (const int seconds : {0, 90}) {
    ListenOptions options{.host = "127.0.0.1", .port = 0, .path = {}};
    options.keepalive = std::chrono::seconds(seconds);
    base::Loop own;
    Listener listener(own, options, [&](base::Fd socket, std::string_view) {
      EXPECT_EQ(value_of(socket, SOL_SOCKET, SO_KEEPALIVE), seconds == 0 ? 0 : 1);
      if (seconds != 0) {
        EXPECT_EQ(value_of(socket, IPPROTO_TCP, TCP_KEEPIDLE), 90);
        EXPECT_EQ(value_of(socket, IPPROTO_TCP, TCP_KEEPINTVL), 30);
        EXPECT_EQ(value_of(socket, IPPROTO_TCP, TCP_KEEPCNT), 3);
      }
      own.stop();
    });
    const base::Fd client = connect_to(listener);
    own.run("test");
  }
}

TEST_F(ListenerTest, AUnixSocketHasItsModeFromTheStartAndIsRemovedAtTheEnd) {
  const ListenOptions options = unix_socket(0640);
  Listener listener(loop, options, [](base::Fd, std::string_view) {});
  struct stat found {};
  ASSERT_EQ(::stat(options.path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0640U);
  listener.close();
  EXPECT_FALSE(std::filesystem::exists(options.path));
}

TEST_F(ListenerTest, ALeftOverSocketIsReplacedButOneInUseIsNot) {
  const ListenOptions options = unix_socket(0600);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, options.path.c_str());
  {
    const base::Fd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  const Listener listener(loop, options, [](base::Fd, std::string_view) {});
  EXPECT_NE(failure_of(loop, options).find("another process listens there"), std::string::npos);
}

TEST_F(ListenerTest, AFileOfAnotherKindIsLeftAlone) {
  const ListenOptions options = unix_socket(0600);
  std::ofstream(options.path) << "keep me";
  EXPECT_NE(failure_of(loop, options).find("a file of another kind"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(options.path));
}

TEST_F(ListenerTest, APortInUseSaysSo) {
  const Listener listener(loop, {.host = "127.0.0.1", .port = 0, .path = {}}, [](base::Fd, std::string_view) {});
  const std::string text = failure_of(loop, {.host = "127.0.0.1", .port = listener.port(), .path = {}});
  EXPECT_NE(text.find("127.0.0.1:" + std::to_string(listener.port())), std::string::npos) << text;
  EXPECT_NE(text.find("another process listens there"), std::string::npos) << text;
}

TEST_F(ListenerTest, ATooLongPathSaysSo) {
  ListenOptions options = unix_socket(0600);
  options.path += std::string(200, 'x');
  EXPECT_NE(failure_of(loop, options).find("longer than"), std::string::npos);
}

}  // namespace
}  // namespace keyferry::gateway
