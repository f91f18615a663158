#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/unique_function.h"
#include "gateway/listener_rules.h"
#include "gateway/tls_server.h"

namespace keyferry::gateway {

struct ListenOptions {
  /// Either an address to listen on ...
  std::string host;
  std::uint16_t port = 0;
  /// ... or the path of a Unix socket with its permission bits.
  std::string path;
  unsigned mode = 0660;
  /// For an address: a client's host that is silent for so long is asked for a sign of life, three times within as long
  /// again (the server's tcp-keepalive no longer reaches it); whole seconds, 0: never.
  base::Duration keepalive{};
  /// For an address: TLS with these files. The listener itself does not look at it.
  std::optional<TlsServerFiles> tls = std::nullopt;
  /// Each client has a connection to the server for itself, for life.
  bool dedicated = false;
  /// What it asks of clients and lets them do.
  ListenerRules rules{};
};

/// A listening socket that hands on what connects. Lives on one loop's thread; constructed before that runs or on it.
class Listener {
 public:
  /// `accepted` gets each connected socket (non-blocking, close-on-exec) and "tcp" or "unix". Throws std::runtime_error
  /// that names address, cause and fix. A leftover Unix socket that nobody listens on is replaced; one that somebody
  /// listens on is an error.
  Listener(base::Loop& loop, const ListenOptions& options,
           base::UniqueFunction<void(base::Fd, std::string_view)> accepted);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Takes no more connections and removes a Unix socket's path. On the loop's thread.
  void close();
  /// The port in use (asked for 0: the kernel's choice); 0 for a Unix socket.
  std::uint16_t port() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace keyferry::gateway
