#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/stream.h"
#include "base/unique_function.h"

namespace keyferry::gateway {

/// Files of a TLS listener, PEM. `ca` empty: clients need no certificate; else each must show one that it signed.
struct TlsServerFiles {
  std::string cert;
  std::string key;
  std::string ca;
  bool operator==(const TlsServerFiles&) const = default;
};

/// The server's side of TLS for one listener: certificate, key, tickets for resumption (R56). Made and refreshed by the
/// main thread; workers read the current context, an atomic shared pointer that only refresh() replaces, so files are
/// never read on a worker (R57). What was accepted before a refresh keeps the context it began with.
class TlsServer {
 public:
  /// Throws std::runtime_error that names the file and what is wrong with it.
  explicit TlsServer(TlsServerFiles files);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  /// Loads the files again if one has changed. What can't be loaded is an error in the log, once for each state of the
  /// files, and the old certificate stays in use.
  void refresh();

  using Done = base::UniqueFunction<void(base::Result<std::unique_ptr<base::Stream>>)>;
  /// Shakes hands with a client that has connected, on the thread of `loop`; at most 10 s. `done` never runs inside the
  /// call. There is no way to call it off.
  void accept(base::Loop& loop, base::Fd socket, Done done) const;

 private:
  struct State;
  const TlsServerFiles files_;
  std::unique_ptr<State> state_;
};

}  // namespace keyferry::gateway
