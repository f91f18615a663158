#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "base/result.h"
#include "upstream/credentials.h"

namespace keyferry::daemon {

/// The first line of a password file. Throws std::runtime_error that names the option, the file, the cause and the fix.
std::string read_password_file(const std::string& option, const std::string& path);

/// The first line that a command writes, a token for instance: `words` are the program, found by PATH, and its
/// arguments. It is killed after `limit`, or when `stop` becomes true. Any thread; blocks. The child shares this
/// process's memory until it has become the program (posix_spawn), so no page of the pool is copied or marked (R65),
/// and it inherits no descriptor but its output.
base::Result<std::string> password_from_command(const std::vector<std::string>& words, base::Duration limit,
                                                const std::atomic<bool>& stop);

/// One password of the configuration, kept up to date (R58): a file is looked at by each look() and read again when it
/// has changed, a command is run again every `refresh` on a thread of its own. What fails later is logged, once for
/// each cause, and the last password stays. Belongs to the main thread, but for that thread, which only posts its
/// result.
class PasswordSource {
 public:
  struct Options {
    /// The option's name for messages.
    std::string option;
    /// Either a file ...
    std::string file;
    /// ... or a command.
    std::vector<std::string> command;
    base::Duration refresh{};
  };

  /// Reads the file or runs the command once. Throws std::runtime_error that names cause and fix.
  PasswordSource(base::Loop& loop, Options options);
  ~PasswordSource();
  PasswordSource(const PasswordSource&) = delete;
  PasswordSource& operator=(const PasswordSource&) = delete;

  const std::shared_ptr<upstream::Credentials>& credentials() const { return credentials_; }
  /// Now and then, once a second say.
  void look();

 private:
  struct Seen;
  void look_at_file();
  void run_command();
  void finished(base::Result<std::string> result);
  void take(base::Result<std::string> result);

  base::Loop& loop_;
  const Options options_;
  std::shared_ptr<upstream::Credentials> credentials_;
  std::unique_ptr<Seen> seen_;
  std::string last_failure_;
  base::TimePoint next_run_{};
  std::atomic<bool> stop_{false};
  bool running_ = false;
  std::thread thread_;
  /// Results that come after this object has gone are dropped.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace keyferry::daemon
