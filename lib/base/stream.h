#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/executor.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/unique_function.h"

namespace keyferry::base {

/// A byte stream in both directions: a client's socket or a connection to a server, whatever carries it (TCP, Unix
/// socket, TLS, RDMA). Belongs to its loop's thread. At most one read and one write are under way at a time. The memory
/// behind the buffers belongs to the stream until the handler runs; the array of spans itself is copied.
class Stream {
 public:
  /// Bytes moved, and an error once the stream is over (is_end_of_stream below tells an orderly end).
  using Handler = UniqueFunction<void(std::error_code, std::size_t)>;
  /// No more than this many spans of one call are used.
  static constexpr std::size_t kMaxSpans = 64;

  virtual ~Stream() = default;
  /// Reads at least one byte into the buffers, in order.
  virtual void async_read(std::span<const MutableBytes> buffers, Handler handler) = 0;
  /// Gives memory to read into, at least one byte.
  using Room = UniqueFunction<MutableBytes()>;
  /// As async_read, for a peer that may be silent for long: a stream that can wait without memory (a plain socket) asks
  /// for `room` when there is something to read, right before the handler, the others at once.
  virtual void async_read_late(Room room, Handler handler) {
    const std::array<MutableBytes, 1> buffer{room()};
    async_read(buffer, std::move(handler));
  }
  /// Writes at least one byte, not necessarily all.
  virtual void async_write(std::span<const ConstBytes> buffers, Handler handler) = 0;
  /// The same for much at once: where the stream is a plain socket, the copying is `copier`'s, a piece at a time.
  /// `home`: the stream's own loop.
  virtual void async_write_by(Executor& copier, Executor& home, std::span<const ConstBytes> buffers, Handler handler) {
    static_cast<void>(copier);
    static_cast<void>(home);
    async_write(buffers, std::move(handler));
  }
  /// Handlers under way run with std::errc::operation_canceled. Calling it again does nothing.
  virtual void close() = 0;
  /// Bytes that were written and that the peer's side has not taken yet; 0 where that can't be told.
  virtual std::size_t unsent() const { return 0; }
  /// The peer has closed its side, whatever there is to be read before that; false where only reading would tell.
  virtual bool peer_closed() const { return false; }
  /// The peer as a person writes it: 127.0.0.1:6379, [::1]:6379 or "unix".
  virtual std::string peer() const = 0;
};

/// True for the error a handler gets when the peer has closed its side in order.
bool is_end_of_stream(const std::error_code& error);

/// The address that a socket is bound to: 127.0.0.1:6379, [::1]:6379, the path of a Unix socket; empty if it can't be
/// told.
std::string local_address(const Fd& socket);

/// Takes over a connected TCP or Unix socket. Throws std::runtime_error if the loop can't watch it.
std::unique_ptr<Stream> adopt_socket(Loop& loop, Fd socket);

}  // namespace keyferry::base
