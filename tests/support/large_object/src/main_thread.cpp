#include "main_thread.h"

#include <memory>

namespace keyferry::large_object {
namespace {

ValkeyModuleCtx* detached_context = nullptr;

void run(void* data) {
  const std::unique_ptr<MainThread::Task> task(static_cast<MainThread::Task*>(data));
  (*task)();
}

void run_timer(ValkeyModuleCtx*, void* data) {
  run(data);
}

}  // namespace

void MainThread::prepare(ValkeyModuleCtx* ctx) {
  detached_context = ValkeyModule_GetDetachedThreadSafeContext(ctx);
}

ValkeyModuleCtx* MainThread::context() {
  return detached_context;
}

void MainThread::post(Task task) {
  ValkeyModule_EventLoopAddOneShot(run, new Task(std::move(task)));
}

void MainThread::after(std::chrono::milliseconds delay, Task task) {
  if (delay.count() <= 0) {
    post(std::move(task));
    return;
  }
  ValkeyModule_CreateTimer(detached_context, delay.count(), run_timer, new Task(std::move(task)));
}

}  // namespace keyferry::large_object
