#pragma once

// Only for sources that already include Boost.Asio: a Stream over any Asio stream object (a socket, or TLS over one).

#include <boost/asio.hpp>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/copied_write.h"
#include "base/stream.h"

namespace keyferry::base {

/// Up to Stream::kMaxSpans buffers in a form that Asio takes, without an allocation.
template <typename AsioBuffer>
class BufferList {
 public:
  template <typename Spans>
  explicit BufferList(const Spans& spans) : count_(std::min(spans.size(), Stream::kMaxSpans)) {
    for (std::size_t i = 0; i < count_; ++i) buffers_[i] = AsioBuffer(spans[i].data(), spans[i].size());
  }
  using value_type = AsioBuffer;
  using const_iterator = const AsioBuffer*;
  const_iterator begin() const { return buffers_.data(); }
  const_iterator end() const { return buffers_.data() + count_; }

 private:
  std::array<AsioBuffer, Stream::kMaxSpans> buffers_;
  std::size_t count_;
};

/// The Asio object is shared with the handlers under way, so that it outlives them when the Stream is destroyed first.
template <typename AsioObject>
class AsioStream final : public Stream {
 public:
  AsioStream(std::shared_ptr<AsioObject> object, std::string peer)
      : object_(std::move(object)), peer_(std::move(peer)) {}
  ~AsioStream() override { AsioStream::close(); }

  void async_read(std::span<const MutableBytes> buffers, Handler handler) override {
    object_->async_read_some(BufferList<boost::asio::mutable_buffer>(buffers), completion(std::move(handler)));
  }
  void async_read_late(Room room, Handler handler) override {
    if constexpr (std::is_same_v<AsioObject, StreamSocket>) {
      read_when_ready(object_, std::move(room), std::move(handler));
    } else {
      Stream::async_read_late(std::move(room), std::move(handler));
    }
  }
  void async_write(std::span<const ConstBytes> buffers, Handler handler) override {
    object_->async_write_some(BufferList<boost::asio::const_buffer>(buffers), completion(std::move(handler)));
  }
  void async_write_by(Executor& copier, Executor& home, std::span<const ConstBytes> buffers, Handler handler) override {
    if constexpr (std::is_same_v<AsioObject, StreamSocket>) {
      const auto before = copied_.lock();
      copied_ =
          CopiedWrite::begin(object_, {copier, home}, before && before->met_full_socket(), buffers, std::move(handler));
    } else {
      async_write(buffers, std::move(handler));
    }
  }
  void close() override {
    // The copier may be writing to the descriptor just now: it is closed when that has ended.
    if (const auto copied = copied_.lock(); copied && copied->running()) return copied->close();
    boost::system::error_code ignored;
    object_->lowest_layer().close(ignored);
  }
  std::string peer() const override { return peer_; }
  std::size_t unsent() const override {
    int bytes = 0;
    if (::ioctl(object_->lowest_layer().native_handle(), TIOCOUTQ, &bytes) != 0 || bytes < 0) return 0;
    return static_cast<std::size_t>(bytes);
  }
  bool peer_closed() const override {
    pollfd look{.fd = object_->lowest_layer().native_handle(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&look, 1, 0) == 1 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  }

 private:
  static void read_when_ready(std::shared_ptr<AsioObject> object, Room room, Handler handler) {
    AsioObject& socket = *object;
    auto ready = [object = std::move(object), room = std::move(room),
                  handler = std::move(handler)](const boost::system::error_code& error) mutable {
      if (error) return handler(std::error_code(error), 0);
      const MutableBytes memory = room();
      const ssize_t got = ::recv(object->native_handle(), memory.data(), memory.size(), MSG_DONTWAIT);
      if (got > 0) return handler({}, static_cast<std::size_t>(got));
      if (got == 0) return handler(std::error_code(boost::system::error_code(boost::asio::error::eof)), 0);
      const int failure = errno;
      if (failure != EAGAIN && failure != EINTR) return handler({failure, std::system_category()}, 0);
      read_when_ready(std::move(object), std::move(room), std::move(handler));
    };
    socket.async_wait(AsioObject::wait_read, std::move(ready));
  }
  auto completion(Handler handler) {
    return [object = object_, handler = std::move(handler)](const boost::system::error_code& error,
                                                            std::size_t count) mutable {
      handler(std::error_code(error), count);
    };
  }

  std::shared_ptr<AsioObject> object_;
  std::string peer_;
  /// The last one that was begun. What carries it on owns it, as its handler may own this stream.
  std::weak_ptr<CopiedWrite> copied_;
};

struct WatchedSocket {
  std::shared_ptr<StreamSocket> socket;
  /// As Stream::peer() gives it.
  std::string peer;
};

/// Takes over a connected socket, without delay for small writes. Throws std::runtime_error if the loop can't watch it.
WatchedSocket watch_socket(Loop& loop, Fd socket);

}  // namespace keyferry::base
