#include "base/loop.h"

#include <boost/asio.hpp>
#include <pthread.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace keyferry::base {

namespace asio = boost::asio;

namespace {

/// What other threads have posted. Asio's own queue would do, but rings while it holds its lock: the thread that it
/// wakes waits for that lock at once, two switches more for each task where both share a CPU. Here whoever found the
/// box empty rings, with the lock let go.
///
/// Any thread puts; the loop's thread takes; the lock orders them.
class Inbox {
 public:
  /// True: nobody has rung for it yet. Once closed, the task is destroyed unrun.
  bool put(Task task) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    tasks_.push_back(std::move(task));
    return tasks_.size() == 1;
  }

  void swap(std::vector<Task>& taken) {
    const std::lock_guard lock(mutex_);
    tasks_.swap(taken);
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  std::mutex mutex_;
  std::vector<Task> tasks_;
  bool closed_ = false;
};

int new_bell() {
  const int bell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell < 0) throw std::system_error(errno, std::system_category(), "eventfd");
  return bell;
}

// Others have so much more of the time than what runs behind them.
constexpr int kOthersShare = 4;
// What a burst leaves of a list of tasks.
constexpr std::size_t kKeptTasks = 1024;

}  // namespace

struct Loop::Impl {
  explicit Impl(const Clock& its_clock) : clock(its_clock) { listen(); }
  ~Impl() {
    // What is destroyed unrun may post once more; that is destroyed as well.
    inbox.close();
    closed = true;
    std::vector<Task> rest;
    inbox.swap(rest);
    batch.clear();
    behind.clear();
  }

  void post(Task task) {
    if (inbox.put(std::move(task))) ring();
  }

  void ring() {
    // Never refused: the counter does not fill up, as it is read before the box is emptied.
    [[maybe_unused]] const int ignored = ::eventfd_write(bell.native_handle(), 1);
  }

  void listen() {
    bell.async_read_some(asio::buffer(rung), [this](const boost::system::error_code& error, std::size_t) {
      if (error) return;
      run_posted();
      listen();
    });
  }

  void run_posted() {
    // Not empty: stop() came in the middle of it, and the loop runs once more.
    const bool resumed = !batch.empty();
    if (!resumed) inbox.swap(batch);
    for (; next < batch.size() && !context.stopped(); ++next) std::exchange(batch[next], nullptr)();
    const bool stopped = next < batch.size();
    if (stopped || resumed) ring();
    if (stopped) return;
    next = 0;
    if (batch.capacity() > kKeptTasks) {
      batch = std::vector<Task>();
    } else {
      batch.clear();
    }
  }

  void post_behind(Task task) {
    if (closed) return;
    if (behind.empty()) others_since = clock.now();
    behind.push_back(std::move(task));
    run_behind_later();
  }

  // Asio takes what is posted here behind what is ready, and looks for more that is ready before it comes to it again.
  void run_behind_later() {
    if (behind.empty() || std::exchange(behind_posted, true)) return;
    asio::post(context, [this] { run_behind(); });
  }

  void run_behind() {
    const TimePoint begin = clock.now();
    const TimePoint end = begin + (begin - others_since) / kOthersShare;
    do {
      Task task = std::move(behind.front());
      behind.pop_front();
      task();
      others_since = clock.now();
    } while (!behind.empty() && others_since < end && !context.stopped());
    behind_posted = false;
    run_behind_later();
  }

  const Clock& clock;
  Inbox inbox;
  std::vector<Task> batch;
  std::size_t next = 0;
  std::deque<Task> behind;
  // When the part of this turn began that belongs to others.
  TimePoint others_since{};
  bool behind_posted = false;
  bool closed = false;
  // Concurrency hint 1: one thread runs it.
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::posix::stream_descriptor bell{context, new_bell()};
  std::array<std::uint64_t, 1> rung{};
};

Loop::Loop(const Clock& clock) : impl_(std::make_unique<Impl>(clock)) {}
Loop::~Loop() = default;

void Loop::post(Task task) {
  // The loop's own thread wakes nobody: Asio's queue for that takes no lock.
  if (!impl_->context.get_executor().running_in_this_thread()) return impl_->post(std::move(task));
  asio::post(impl_->context, [task = std::move(task)]() mutable { task(); });
}

void Loop::post_behind(Task task) {
  impl_->post_behind(std::move(task));
}

void Loop::run(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
  impl_->context.run();
}

void Loop::stop() {
  impl_->context.stop();
}

asio::io_context& Loop::context() {
  return impl_->context;
}

struct Timer::State {
  explicit State(asio::io_context& context) : timer(context) {}
  asio::steady_timer timer;
  // Counts starts and cancels: a handler that was already queued when its timer was cancelled sees another number and
  // does nothing.
  std::uint64_t generation = 0;
};

Timer::Timer(Loop& loop) : state_(std::make_shared<State>(loop.context())) {}
Timer::~Timer() {
  cancel();
}

void Timer::start(Duration delay, Task task) {
  const std::uint64_t mine = ++state_->generation;
  state_->timer.expires_after(delay);
  state_->timer.async_wait(
      [state = state_, mine, task = std::move(task)](const boost::system::error_code& error) mutable {
        if (!error && state->generation == mine) task();
      });
}

void Timer::cancel() {
  ++state_->generation;
  state_->timer.cancel();
}

}  // namespace keyferry::base
