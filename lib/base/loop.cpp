#include "base/loop.h"

#include <boost/asio.hpp>
#include <pthread.h>

namespace keyferry::base {

namespace asio = boost::asio;

struct Loop::Impl {
  // Concurrency hint 1: one thread runs it, others only post.
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
};

Loop::Loop() : impl_(std::make_unique<Impl>()) {}
Loop::~Loop() = default;

void Loop::post(Task task) {
  asio::post(impl_->context, [task = std::move(task)]() mutable { task(); });
}

void Loop::run(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
  while (impl_->context.run_one() != 0) {
    impl_->context.poll();
    last_turn_.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  }
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
