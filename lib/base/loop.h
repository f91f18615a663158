#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/executor.h"

namespace boost::asio {
class io_context;
}

namespace keyferry::base {

/// One thread's event loop. post() and stop() may be called from any thread; everything else, and all that is built on
/// a loop (Stream, Timer), belongs to the loop's thread alone. Destroying the loop destroys what still waits in it,
/// unrun.
class Loop final : public Executor {
 public:
  /// `clock` outlives the loop; post_behind() shares time out by it.
  explicit Loop(const Clock& clock = Clock::steady());
  ~Loop() override;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void post(Task task) override;
  /// For what others need not wait for. Such tasks run in their order, one in each turn of the loop, behind what is
  /// ready when it begins; where that takes long, as many of them as a fifth of the time is enough for.
  void post_behind(Task task);
  /// Runs on the calling thread until stop(). Names the thread `name` (15 characters are kept by the kernel).
  void run(const std::string& name);
  void stop();

  /// For the few places that open sockets and timers; needs <boost/asio.hpp>.
  boost::asio::io_context& context();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs a task on its loop once, after a delay. Belongs to the loop's thread. Starting again or destroying it cancels
/// what was set.
class Timer {
 public:
  explicit Timer(Loop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void start(Duration delay, Task task);
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace keyferry::base
