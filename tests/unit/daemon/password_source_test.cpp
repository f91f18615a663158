#include "daemon/password_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "daemon/config_ids.h"

namespace keyferry::daemon {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PasswordSourceTest : public ::testing::Test {
 protected:
  PasswordSourceTest() : path_(::testing::TempDir() + "keyferry-password-" + std::to_string(::getpid())) {}
  ~PasswordSourceTest() override { std::remove(path_.c_str()); }

  /// As a secret's mount does it: a new file takes the old one's place.
  void write(const std::string& text) {
    std::ofstream(path_ + ".new", std::ios::binary) << text;
    std::rename((path_ + ".new").c_str(), path_.c_str());
  }
  std::string password() { return read_password_file("upstream.password_file", path_); }
  std::string error() {
    try {
      password();
      return "";
    } catch (const std::runtime_error& wrong) {
      return wrong.what();
    }
  }
  PasswordSource::Options file() const { return {"upstream.password_file", path_, {}, {}}; }

  base::Loop loop_;
  std::string path_;
};

TEST_F(PasswordSourceTest, ThePasswordIsTheFirstLine) {
  write("geheim\n");
  EXPECT_EQ(password(), "geheim");
  write("ge heim\r\nsecond line\n");
  EXPECT_EQ(password(), "ge heim");
  write("no end of line");
  EXPECT_EQ(password(), "no end of line");
}

TEST_F(PasswordSourceTest, ABadFileNamesCauseAndFixButNotThePassword) {
  write("");
  EXPECT_THAT(error(), HasSubstr("its first line is no password"));
  write("\n");
  EXPECT_THAT(error(), HasSubstr("its first line is no password"));
  write(std::string(10000, 'x'));
  EXPECT_THAT(error(), HasSubstr("1 to 8192 bytes"));
  EXPECT_THAT(error(), Not(HasSubstr("xxxx")));
  write(std::string("a\0b\n", 4));
  EXPECT_THAT(error(), HasSubstr("is no password"));
  std::remove(path_.c_str());
  EXPECT_THAT(error(), HasSubstr("upstream.password_file can't be read: " + path_ + ": No such file or directory"));
}

TEST_F(PasswordSourceTest, R58AChangedFileIsReadAgainAndABadOneChangesNothing) {
  write("first\n");
  PasswordSource source(loop_, file());
  const auto credentials = source.credentials();
  const std::uint64_t number = credentials->number();
  source.look();
  EXPECT_EQ(credentials->number(), number);
  write("second\n");
  source.look();
  EXPECT_EQ(credentials->now().password, "second");
  EXPECT_NE(credentials->number(), number);
  write("\n");
  source.look();
  EXPECT_EQ(credentials->now().password, "second");
  write("third\n");
  source.look();
  EXPECT_EQ(credentials->now().password, "third");
}

TEST_F(PasswordSourceTest, R58ACommandsOutputIsAPassword) {
  const std::atomic<bool> never{false};
  const base::Duration limit = std::chrono::minutes(1);
  base::Result<std::string> password = password_from_command({"printf", "token\\nmore"}, limit, never);
  ASSERT_TRUE(password) << password.error().message;
  EXPECT_EQ(*password, "token");
  EXPECT_THAT(password_from_command({"false"}, limit, never).error().message, HasSubstr("status 1"));
  EXPECT_THAT(password_from_command({"true"}, limit, never).error().message, HasSubstr("no password"));
  EXPECT_THAT(password_from_command({"/no/such/program"}, limit, never).error().message, HasSubstr("started"));
  const std::atomic<bool> now{true};
  EXPECT_THAT(password_from_command({"sleep", "1000"}, limit, now).error().message, HasSubstr("stopped"));
  EXPECT_THAT(password_from_command({"sleep", "1000"}, base::Duration(1), never).error().message, HasSubstr("within"));
  // Its output ends and it does not: nothing waits for it beyond the limit.
  EXPECT_THAT(password_from_command({"sh", "-c", "echo token; exec >&-; sleep 1000"}, std::chrono::seconds(1), never)
                  .error()
                  .message,
              AnyOf(HasSubstr("did not end"), HasSubstr("within")));
}

TEST_F(PasswordSourceTest, R58ACommandIsRunAgain) {
  write("first\n");
  PasswordSource source(loop_, {"upstream.password_command", "", {"cat", path_}, base::Duration(1)});
  const auto credentials = source.credentials();
  EXPECT_EQ(credentials->now().password, "first");
  write("second\n");
  source.look();
  // Its end is posted here.
  base::Timer again(loop_);
  base::Task wait = [&] {
    if (credentials->now().password == "second") return loop_.stop();
    again.start(std::chrono::milliseconds(1), [&] { wait(); });
  };
  loop_.post([&] { wait(); });
  loop_.run("test");
  EXPECT_EQ(credentials->now().password, "second");
}

TEST(ConfigIds, UsersAndGroupsHaveNamesOrNumbers) {
  EXPECT_EQ(uid_of("1000"), 1000U);
  EXPECT_EQ(uid_of("root"), 0U);
  EXPECT_EQ(gid_of("root"), 0U);
  EXPECT_FALSE(uid_of("no such user"));
  EXPECT_FALSE(gid_of(""));
  const auto mapped = parse_user_by_uid("1000 app /etc/keyferry/app password");
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->uid, 1000U);
  EXPECT_EQ(mapped->user, "app");
  EXPECT_EQ(mapped->password_file, "/etc/keyferry/app password");
  for (const char* bad : {"", "1000", "1000 app", "1000 app ", "1000  /file", "nobody-here app /file"})
    EXPECT_FALSE(parse_user_by_uid(bad)) << bad;
}

}  // namespace
}  // namespace keyferry::daemon
