#pragma once

// Only for sources that already include Boost.Asio.

#include <boost/asio.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <system_error>
#include <vector>

#include "base/bytes.h"
#include "base/executor.h"
#include "base/unique_function.h"

namespace keyferry::base {

/// Any connected socket, TCP or Unix.
using StreamSocket = boost::asio::generic::stream_protocol::socket;

/// One write whose copying into the socket is done on another thread (the copier), a piece a task, so that the socket's
/// own thread (home) is free for others meanwhile. When the socket takes no more, what it took is told; if it took
/// nothing at all, or the write before has found it full, home waits for room first.
///
/// begin(), close() and `handler` belong to the socket's thread, step() to the copier. They take turns by posts: only
/// closing_ is touched by both, written by close() and read by step(). The socket's descriptor stays open until the
/// handler has been posted back, so the copier never writes to one that was given to somebody else.
class CopiedWrite final : public std::enable_shared_from_this<CopiedWrite> {
 public:
  using Handler = UniqueFunction<void(std::error_code, std::size_t)>;
  /// Of one task on the copier, which has the values of other clients to copy too.
  static constexpr std::size_t kPiece = 512 * kKiB;

  /// Two executors of which the write makes use until its handler has run.
  struct Threads {
    Executor& copier;
    Executor& home;
  };

  /// `full`: the socket is known to take nothing just now.
  static std::shared_ptr<CopiedWrite> begin(std::shared_ptr<StreamSocket> socket, Threads threads, bool full,
                                            std::span<const ConstBytes> buffers, Handler handler);

  CopiedWrite(std::shared_ptr<StreamSocket> socket, Threads threads, std::span<const ConstBytes> buffers,
              Handler handler);

  /// The handler has not run yet.
  bool running() const { return static_cast<bool>(handler_); }
  /// Ends it early: the handler runs with operation_canceled, and the socket is closed before that.
  void close();
  /// Once the handler has run: the socket took less than there was.
  bool met_full_socket() const { return full_; }

 private:
  void step();
  /// Bytes that went out, or -errno.
  std::ptrdiff_t send_piece();
  void wait_for_room();
  void finish(std::error_code error);

  const std::shared_ptr<StreamSocket> socket_;
  const int fd_;
  const Threads threads_;
  /// What is left of the buffers; the copier's from begin() to finish().
  std::vector<ConstBytes> left_;
  std::size_t at_ = 0;
  std::size_t sent_ = 0;
  bool full_ = false;
  Handler handler_;
  std::atomic<bool> closing_{false};
};

}  // namespace keyferry::base
