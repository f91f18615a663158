#include "daemon/password_source.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "base/fd.h"

namespace keyferry::daemon {

namespace {

// Tokens of managed services have one or two thousand bytes.
constexpr std::size_t kLongest = 8 * 1024;
constexpr base::Duration kCommandLimit = std::chrono::seconds(30);
constexpr base::Duration kRetry = std::chrono::seconds(10);
constexpr int kPollMilliseconds = 100;
// Whoever has closed its output ends at once, as a rule.
constexpr int kReapMilliseconds = 2;

/// The first line; an error if it is no password.
base::Result<std::string> first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty() || line.size() > kLongest || line.find('\0') != std::string::npos)
    return base::Error{"its first line is no password (1 to 8192 bytes)"};
  return line;
}

base::Result<std::string> read_first_line(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return base::Error{std::strerror(errno)};
  if (S_ISDIR(info.st_mode)) return base::Error{"is a directory"};
  std::ifstream file(path, std::ios::binary);
  if (!file) return base::Error{std::strerror(errno)};
  std::string text(kLongest + 2, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return first_line(text);
}

/// Starts it with an output that is read here; throws nothing, the error is errno's.
base::Result<pid_t> spawn(const std::vector<std::string>& words, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, 1);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  // This process ignores some signals; the program is to find them as usual.
  sigset_t all, none;
  ::sigfillset(&all);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  // A group of its own, so that what it starts ends with it.
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return base::Error{std::strerror(error), error};
  return child;
}

}  // namespace

std::string read_password_file(const std::string& option, const std::string& path) {
  base::Result<std::string> line = read_first_line(path);
  if (line) return *line;
  throw std::runtime_error(option + " can't be read: " + path + ": " + line.error().message +
                           "; give it the password in its first line, readable for this user");
}

base::Result<std::string> password_from_command(const std::vector<std::string>& words, base::Duration limit,
                                                const std::atomic<bool>& stop) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return base::Error{std::strerror(errno)};
  const base::Fd in(ends[0]);
  base::Fd out(ends[1]);
  const base::Result<pid_t> child = spawn(words, out.get());
  out = {};
  if (!child) return base::Error{"it can't be started: " + child.error().message};
  const base::TimePoint until = base::Clock::steady().now() + limit;
  std::string text, trouble;
  for (;;) {
    pollfd wait{in.get(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, kPollMilliseconds);
    if (stop.load() || base::Clock::steady().now() >= until) {
      trouble = stop.load() ? "stopped" : "no answer within " + std::to_string(base::seconds(limit)) + " s";
      break;
    }
    if (ready <= 0) continue;
    std::array<char, 4096> bytes{};
    const ssize_t count = ::read(in.get(), bytes.data(), bytes.size());
    if (count <= 0) break;
    // More than a password is read to its end and not kept.
    if (text.size() <= kLongest) text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  // It may have closed its output and live on.
  while (trouble.empty() && ::waitpid(child.value(), &status, WNOHANG) == 0) {
    if (stop.load() || base::Clock::steady().now() >= until) {
      trouble = stop.load() ? "stopped" : "it closed its output and did not end";
    } else {
      ::poll(nullptr, 0, kReapMilliseconds);
    }
  }
  if (!trouble.empty()) {
    ::kill(-child.value(), SIGKILL);
    while (::waitpid(child.value(), &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (!trouble.empty()) return base::Error{trouble};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return base::Error{WIFEXITED(status) ? "it ended with status " + std::to_string(WEXITSTATUS(status))
                                         : std::string("it was ended by a signal")};
  return first_line(text);
}

/// By what a changed file is known.
struct PasswordSource::Seen {
  struct timespec modified {};
  ino_t inode = 0;
  off_t size = -1;

  static Seen of(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return {};
    return {info.st_mtim, info.st_ino, info.st_size};
  }
  bool operator==(const Seen& other) const {
    return modified.tv_sec == other.modified.tv_sec && modified.tv_nsec == other.modified.tv_nsec &&
           inode == other.inode && size == other.size;
  }
};

PasswordSource::PasswordSource(base::Loop& loop, Options options)
    : loop_(loop), options_(std::move(options)), seen_(std::make_unique<Seen>()) {
  if (!options_.file.empty()) {
    *seen_ = Seen::of(options_.file);
    credentials_ = std::make_shared<upstream::Credentials>(read_password_file(options_.option, options_.file));
    return;
  }
  base::Result<std::string> password = password_from_command(options_.command, kCommandLimit, stop_);
  if (!password) {
    throw std::runtime_error(options_.option + ": " + options_.command.front() + " gave no password: " +
                             password.error().message + "; run it by hand as this user to see why");
  }
  credentials_ = std::make_shared<upstream::Credentials>(*password);
  next_run_ = base::Clock::steady().now() + options_.refresh;
}

PasswordSource::~PasswordSource() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

void PasswordSource::look() {
  if (!options_.file.empty()) return look_at_file();
  if (!running_ && base::Clock::steady().now() >= next_run_) run_command();
}

void PasswordSource::look_at_file() {
  const Seen now = Seen::of(options_.file);
  if (now == *seen_) return;
  base::Result<std::string> line = read_first_line(options_.file);
  // One that is being written, or is not there for a moment, is looked at again.
  if (line) *seen_ = now;
  take(std::move(line));
}

void PasswordSource::run_command() {
  running_ = true;
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread([this, &loop = loop_, alive = std::weak_ptr(alive_)] {
    base::Result<std::string> result = password_from_command(options_.command, kCommandLimit, stop_);
    loop.post([this, alive, result = std::move(result)]() mutable {
      if (!alive.expired()) finished(std::move(result));
    });
  });
}

void PasswordSource::finished(base::Result<std::string> result) {
  running_ = false;
  next_run_ = base::Clock::steady().now() + (result ? options_.refresh : std::min(options_.refresh, kRetry));
  take(std::move(result));
}

void PasswordSource::take(base::Result<std::string> result) {
  if (!result) {
    if (result.error().message != last_failure_)
      spdlog::error("{}: no new password, the last one stays: {}", options_.option, result.error().message);
    last_failure_ = result.error().message;
    return;
  }
  last_failure_.clear();
  if (*result == credentials_->now().password) return;
  credentials_->renew(std::move(*result));
  spdlog::info("{}: a new password is used from now on", options_.option);
}

}  // namespace keyferry::daemon
