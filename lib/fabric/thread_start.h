#pragma once

#include <pthread.h>

#include <csignal>

namespace keyferry::fabric {

/// First thing on a thread of the fabric: its name (15 characters), and no signals, which are the main thread's
/// business.
inline void begin_thread(const char* name) {
  ::pthread_setname_np(::pthread_self(), name);
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace keyferry::fabric
