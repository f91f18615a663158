#include "base/copied_write.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace keyferry::base {

namespace {
constexpr std::size_t kSpansOfPiece = 16;
}

std::shared_ptr<CopiedWrite> CopiedWrite::begin(std::shared_ptr<StreamSocket> socket, Threads threads, bool full,
                                                std::span<const ConstBytes> buffers, Handler handler) {
  auto write = std::make_shared<CopiedWrite>(std::move(socket), threads, buffers, std::move(handler));
  if (full) {
    write->wait_for_room();
  } else {
    threads.copier.post([write] { write->step(); });
  }
  return write;
}

CopiedWrite::CopiedWrite(std::shared_ptr<StreamSocket> socket, Threads threads, std::span<const ConstBytes> buffers,
                         Handler handler)
    : socket_(std::move(socket)),
      fd_(socket_->native_handle()),
      threads_(threads),
      left_(buffers.begin(), buffers.end()),
      handler_(std::move(handler)) {}

void CopiedWrite::close() {
  if (closing_.exchange(true)) return;
  // Whoever waits for the socket on its thread is woken; the copier meets a socket that takes nothing more.
  boost::system::error_code ignored;
  socket_->shutdown(StreamSocket::shutdown_both, ignored);
  socket_->cancel(ignored);
}

void CopiedWrite::step() {
  if (closing_.load()) return finish(std::make_error_code(std::errc::operation_canceled));
  full_ = false;
  const std::ptrdiff_t count = send_piece();
  if (count >= 0) {
    sent_ += static_cast<std::size_t>(count);
    if (at_ == left_.size()) return finish({});
    return threads_.copier.post([self = shared_from_this()] { self->step(); });
  }
  const int error = static_cast<int>(-count);
  if (error != EAGAIN && error != EWOULDBLOCK) return finish(std::error_code(error, std::system_category()));
  full_ = true;
  if (sent_ != 0) return finish({});
  threads_.home.post([self = shared_from_this()] { self->wait_for_room(); });
}

std::ptrdiff_t CopiedWrite::send_piece() {
  std::array<iovec, kSpansOfPiece> spans;
  std::size_t count = 0, room = kPiece;
  for (std::size_t i = at_; i < left_.size() && count < spans.size() && room != 0; ++i) {
    const std::size_t bytes = std::min(left_[i].size(), room);
    spans[count++] = {const_cast<std::byte*>(left_[i].data()), bytes};
    room -= bytes;
  }
  msghdr message{};
  message.msg_iov = spans.data();
  message.msg_iovlen = count;
  const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno == EINTR ? 0 : -errno;
  std::size_t taken = static_cast<std::size_t>(sent);
  while (at_ < left_.size() && taken >= left_[at_].size()) taken -= left_[at_++].size();
  if (taken != 0) left_[at_] = left_[at_].subspan(taken);
  return sent;
}

void CopiedWrite::wait_for_room() {
  if (closing_.load()) return finish(std::make_error_code(std::errc::operation_canceled));
  socket_->async_wait(StreamSocket::wait_write, [self = shared_from_this()](const boost::system::error_code&) {
    // An error of the socket is what the next piece meets.
    self->threads_.copier.post([self] { self->step(); });
  });
}

void CopiedWrite::finish(std::error_code error) {
  threads_.home.post([self = shared_from_this(), error] {
    boost::system::error_code ignored;
    const bool closing = self->closing_.load();
    if (closing) self->socket_->close(ignored);
    Handler handler = std::exchange(self->handler_, nullptr);
    handler(closing ? std::make_error_code(std::errc::operation_canceled) : error, self->sent_);
  });
}

}  // namespace keyferry::base
