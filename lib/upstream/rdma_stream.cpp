#include "upstream/rdma_stream.h"

#include <boost/asio.hpp>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "upstream/rdma_transport.h"
#include "upstream/rdma_tuning.h"

namespace keyferry::upstream {

namespace asio = boost::asio;

// The two descriptors belong to the link; they are only watched here.
struct RdmaConnection::Watched {
  explicit Watched(asio::io_context& context) : events(context), completions(context) {}
  ~Watched() {
    if (events.is_open()) events.release();
    if (completions.is_open()) completions.release();
  }
  asio::posix::stream_descriptor events, completions;
};

namespace {

// Beyond the statuses of work completions.
enum Cause { kRemoved = 1000, kProtocol, kQueueBroken };

class RdmaCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "rdma"; }
  std::string message(int value) const override {
    switch (value) {
      case kRemoved:
        return "the RDMA device was removed";
      case kProtocol:
        return "the server broke the protocol of Valkey over RDMA";
      case kQueueBroken:
        return "the RDMA queue pair takes nothing any more";
      default:
        return std::string("RDMA: ") + ibv_wc_status_str(static_cast<ibv_wc_status>(value));
    }
  }
};

std::error_code rdma_error(int value) {
  static const RdmaCategory category;
  return {value, category};
}

std::string in_seconds(base::Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", base::seconds(duration));
  return text;
}

std::error_code closed_by_server() {
  return std::error_code(boost::system::error_code(asio::error::eof));
}

Endpoint with_port(Endpoint endpoint, std::uint16_t port) {
  if (endpoint.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&endpoint.storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&endpoint.storage)->sin_port = htons(port);
  }
  return endpoint;
}

class RdmaStream final : public base::Stream {
 public:
  explicit RdmaStream(std::shared_ptr<RdmaConnection> connection) : connection_(std::move(connection)) {}
  ~RdmaStream() override { RdmaStream::close(); }
  void async_read(std::span<const base::MutableBytes> buffers, Handler handler) override {
    connection_->read(buffers, std::move(handler));
  }
  void async_write(std::span<const base::ConstBytes> buffers, Handler handler) override {
    connection_->write(buffers, std::move(handler));
  }
  void close() override { connection_->close(); }
  std::string peer() const override { return connection_->peer(); }

 private:
  std::shared_ptr<RdmaConnection> connection_;
};

class RdmaTransport final : public Transport {
 public:
  RdmaTransport(base::Loop& loop, const RdmaSettings& settings) : loop_(loop), settings_(settings) {}
  ~RdmaTransport() override {
    if (connection_) connection_->call_off();
  }
  void dial(const Endpoint& endpoint, Done done) override {
    if (connection_) connection_->call_off();
    connection_ = std::make_shared<RdmaConnection>(loop_, settings_, endpoint);
    connection_->dial(std::move(done));
  }
  std::string_view step() const override { return connection_ ? connection_->step() : "RDMA"; }

 private:
  base::Loop& loop_;
  const RdmaSettings settings_;
  std::shared_ptr<RdmaConnection> connection_;
};

}  // namespace

base::Result<std::unique_ptr<Transport>> make_rdma_transport(base::Loop& loop, const RdmaSettings& settings) {
  return std::unique_ptr<Transport>(std::make_unique<RdmaTransport>(loop, settings));
}

RdmaConnection::RdmaConnection(base::Loop& loop, const RdmaSettings& settings, const Endpoint& endpoint)
    : loop_(loop),
      settings_(settings),
      endpoint_(with_port(endpoint, settings.port)),
      peer_(endpoint_.text()),
      keepalive_(loop),
      farewell_(loop),
      connect_limit_(loop),
      ledger_({.ring = settings.buffer, .queue = rdma_tuning().queue}),
      received_(settings.buffer) {}

// In this order: nothing watches the descriptors any more when the link closes them.
RdmaConnection::~RdmaConnection() {
  watched_.reset();
  link_.reset();
}

void RdmaConnection::dial(Done done) {
  done_ = std::move(done);
  auto link = RdmaLink::open();
  if (!link) return fail_dial(link.error().message, link.error().code);
  link_ = std::move(*link);
  watched_ = std::make_unique<Watched>(loop_.context());
  watched_->events.assign(link_->event_fd());
  watch_events();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.resolve_timeout);
  const auto resolving =
      link_->resolve(reinterpret_cast<const sockaddr*>(&endpoint_.storage), static_cast<int>(milliseconds.count()));
  if (!resolving) fail_dial(resolving.error().message, resolving.error().code);
}

std::string_view RdmaConnection::step() const {
  switch (dialling() ? phase_ : reached_) {
    case Phase::kAddress:
      return "RDMA address";
    case Phase::kRoute:
      return "RDMA route";
    case Phase::kConnect:
      return "RDMA connect";
    case Phase::kAnnounce:
      // The two refusals of the server that have no text (spec 4).
      return "RDMA: connected, but the server announces no buffer (protected-mode, or maxclients reached?)";
    default:
      return "RDMA";
  }
}

void RdmaConnection::call_off() {
  // Handed over: it is its stream's now.
  if (!done_) return;
  done_.reset();
  close();
}

void RdmaConnection::watch_events() {
  watched_->events.async_wait(asio::posix::stream_descriptor::wait_read,
                              [self = shared_from_this()](const boost::system::error_code& error) {
                                if (error || self->phase_ == Phase::kGone) return;
                                self->on_events();
                                if (self->phase_ != Phase::kGone) self->watch_events();
                              });
}

void RdmaConnection::watch_completions() {
  watched_->completions.async_wait(asio::posix::stream_descriptor::wait_read,
                                   [self = shared_from_this()](const boost::system::error_code& error) {
                                     if (error || self->phase_ == Phase::kGone) return;
                                     self->on_completions();
                                     if (self->phase_ != Phase::kGone) self->watch_completions();
                                   });
}

void RdmaConnection::on_events() {
  while (phase_ != Phase::kGone) {
    const auto event = link_->next_event();
    if (!event) return;
    on_event(*event);
  }
}

void RdmaConnection::on_event(const RdmaLink::Event& event) {
  using Kind = RdmaLink::Event::Kind;
  if (event.kind == Kind::kGone) forget_device();
  if (phase_ == Phase::kFarewell) return finish_if_done();
  switch (event.kind) {
    case Kind::kAddress:
    case Kind::kRoute:
    case Kind::kEstablished:
      if (const auto next = next_step(event.kind); !next) fail_dial(next.error().message, next.error().code);
      return;
    case Kind::kDisconnected:
      if (dialling()) return fail_dial("closed by the server before it announced a buffer (maxclients reached?)", 0);
      // What came before the end is in the queue still.
      if (spinning_) {
        // on_completions() would leave it to the next turn of the loop.
        static_cast<void>(drain());
      } else {
        on_completions();
      }
      return end(closed_by_server());
    case Kind::kGone:
    case Kind::kFailed:
      if (dialling()) return fail_dial(event.text, 0);
      return end(rdma_error(kRemoved));
  }
}

// Nothing completes any more, and nobody answers a farewell. The kernel says for ever that the completion queue's
// descriptor has an error, so who went on to watch it would turn in circles until the connection is closed.
void RdmaConnection::forget_device() {
  if (watched_->completions.is_open()) watched_->completions.release();
  link_->abandon();
}

base::Result<void> RdmaConnection::next_step(RdmaLink::Event::Kind reached) {
  using Kind = RdmaLink::Event::Kind;
  if (reached == Kind::kAddress && phase_ == Phase::kAddress) {
    phase_ = Phase::kRoute;
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.resolve_timeout);
    return link_->route(static_cast<int>(milliseconds.count()));
  }
  if (reached == Kind::kRoute && phase_ == Phase::kRoute) {
    phase_ = Phase::kConnect;
    if (auto prepared = link_->prepare(settings_); !prepared) return prepared;
    connect_limit_.start(rdma_tuning().connect_timeout, [self = shared_from_this()] {
      if (self->dialling()) self->fail_dial("no answer within " + in_seconds(rdma_tuning().connect_timeout), ETIMEDOUT);
    });
    watched_->completions.assign(link_->completion_fd());
    watch_completions();
    return link_->connect();
  }
  if (reached == Kind::kEstablished && phase_ == Phase::kConnect) begin();
  return {};
}

void RdmaConnection::begin() {
  phase_ = Phase::kAnnounce;
  // As the protocol's workflow shows them; commands do not wait for the answer (spec 2), which is the first proof of
  // credit.
  send(RdmaSendLedger::Kind::kProbe, {.opcode = RdmaMessage::Opcode::kGetServerFeature});
  send(RdmaSendLedger::Kind::kOther, {.opcode = RdmaMessage::Opcode::kSetClientFeature});
  announce();
  if (window_) open();
}

// Both sides may send: the stream is handed over.
void RdmaConnection::open() {
  if (phase_ != Phase::kAnnounce || !done_) return;
  phase_ = Phase::kOpen;
  connect_limit_.cancel();
  keep_alive();
  loop_.post([self = shared_from_this()] {
    if (!self->done_) return;
    Done done = std::move(self->done_);
    done(std::unique_ptr<base::Stream>(std::make_unique<RdmaStream>(self)));
  });
}

void RdmaConnection::on_completions() {
  if (phase_ == Phase::kGone || !watched_->completions.is_open()) return;
  // First armed, then polled until nothing is left: the other way round an event is lost (R61, R62). Who spins polls on
  // anyway.
  if (!(spinning_ ? link_->take_notifications() : link_->arm())) {
    // A device that goes may be seen here first.
    forget_device();
    return phase_ == Phase::kFarewell ? finish_if_done() : end(rdma_error(kRemoved));
  }
  if (spinning_) return;
  if (drain()) spin();
}

// True: something had come, and was seen to.
bool RdmaConnection::drain() {
  bool any = false;
  for (auto completions = link_->poll(); !completions.empty(); completions = link_->poll()) {
    any = true;
    for (const ibv_wc& completion : completions) on_completion(completion);
  }
  if (phase_ == Phase::kFarewell) {
    finish_if_done();
  } else {
    advance();
  }
  return any;
}

// Looks at the queue in every turn of the loop until nothing has moved for RdmaTuning::spin. Posted each time, so that
// sockets and timers have their turns in between.
void RdmaConnection::spin() {
  if (rdma_tuning().spin == base::Duration{} || phase_ != Phase::kOpen) return;
  spin_until_ = base::Clock::steady().now() + rdma_tuning().spin;
  if (!std::exchange(spinning_, true)) loop_.post([self = shared_from_this()] { self->spin_once(); });
}

void RdmaConnection::spin_once() {
  const base::TimePoint now = base::Clock::steady().now();
  if (phase_ == Phase::kOpen && drain()) spin_until_ = now + rdma_tuning().spin;
  if (phase_ == Phase::kOpen && now < spin_until_)
    return loop_.post([self = shared_from_this()] { self->spin_once(); });
  spinning_ = false;
  on_completions();
}

void RdmaConnection::on_completion(const ibv_wc& completion) {
  const bool receive = (completion.wr_id & RdmaLink::kReceiveMark) != 0;
  if (receive) link_->receive_ended();
  if (completion.status != IBV_WC_SUCCESS) {
    // Flushed ones follow from what ended the connection.
    if (completion.status != IBV_WC_WR_FLUSH_ERR) {
      end(rdma_error(static_cast<int>(completion.status)));
    } else if (phase_ != Phase::kFarewell) {
      end(closed_by_server());
    }
    return;
  }
  if (!receive) return ledger_.completed(completion.wr_id);
  const std::uint64_t slot = completion.wr_id & ~RdmaLink::kReceiveMark;
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    ledger_.peer_wrote();
    if (!received_.arrived(ntohl(completion.imm_data))) end(rdma_error(kProtocol));
  } else {
    const auto message = completion.byte_len == RdmaMessage::kBytes ? decode(link_->message(slot)) : std::nullopt;
    message ? on_message(*message) : end(rdma_error(kProtocol));
  }
  if (phase_ != Phase::kFarewell && !link_->post_receive(slot)) end(rdma_error(kQueueBroken));
}

void RdmaConnection::on_message(const RdmaMessage& message) {
  switch (message.opcode) {
    case RdmaMessage::Opcode::kRegisterXferMemory:
      if (message.length == 0) return end(rdma_error(kProtocol));
      window_ = Window{message.address, message.key};
      ledger_.announced(message.length);
      return open();
    case RdmaMessage::Opcode::kGetServerFeature:
      return ledger_.probe_answered();
    case RdmaMessage::Opcode::kSetClientFeature:
    case RdmaMessage::Opcode::kKeepalive:
      return;
  }
}

// Sends and hands out whatever can be by now.
void RdmaConnection::advance() {
  if (phase_ == Phase::kOpen) {
    if (announcement_due_) announce();
    if (ledger_.probe_wanted()) send(RdmaSendLedger::Kind::kProbe, {.opcode = RdmaMessage::Opcode::kGetServerFeature});
    if (const auto notice = ledger_.notice(); notice && !link_->post_data(*notice, window_->address, window_->key))
      end(rdma_error(kQueueBroken));
  }
  serve_read();
  serve_write();
}

bool RdmaConnection::send(RdmaSendLedger::Kind kind, const RdmaMessage& message) {
  const auto place = ledger_.control(kind);
  if (!place) return false;
  sent_lately_ = true;
  if (!link_->post_control(*place, message)) end(rdma_error(kQueueBroken));
  return true;
}

void RdmaConnection::announce() {
  const base::MutableBytes buffer = link_->receive_buffer();
  announcement_due_ = !send(RdmaSendLedger::Kind::kAnnounce, {.opcode = RdmaMessage::Opcode::kRegisterXferMemory,
                                                              .address = reinterpret_cast<std::uint64_t>(buffer.data()),
                                                              .length = static_cast<std::uint32_t>(buffer.size()),
                                                              .key = link_->receive_key()});
}

void RdmaConnection::read(std::span<const base::MutableBytes> buffers, base::Stream::Handler handler) {
  if (closed_ || read_done_) {
    const auto error = std::make_error_code(closed_ ? std::errc::operation_canceled : std::errc::operation_in_progress);
    return loop_.post([handler = std::move(handler), error]() mutable { handler(error, 0); });
  }
  read_buffers_.assign(buffers.begin(), buffers.end());
  read_done_ = std::move(handler);
  serve_read();
}

void RdmaConnection::serve_read() {
  if (!read_done_ || (received_.readable() == 0 && !error_)) return;
  std::size_t total = 0;
  for (const base::MutableBytes& target : read_buffers_) {
    const std::size_t bytes = std::min(target.size(), received_.readable());
    if (bytes == 0) break;
    std::memcpy(target.data(), link_->receive_buffer().data() + received_.offset(), bytes);
    total += bytes;
    if (!received_.take(bytes)) continue;
    // Read to its very end: from now on the server may fill it again, so nothing more is taken from it in this call.
    if (phase_ == Phase::kOpen) announce();
    break;
  }
  const std::error_code error = total == 0 ? error_ : std::error_code();
  loop_.post([handler = std::move(read_done_), error, total]() mutable { handler(error, total); });
  read_done_.reset();
}

void RdmaConnection::write(std::span<const base::ConstBytes> buffers, base::Stream::Handler handler) {
  if (closed_ || write_done_) {
    const auto error = std::make_error_code(closed_ ? std::errc::operation_canceled : std::errc::operation_in_progress);
    return loop_.post([handler = std::move(handler), error]() mutable { handler(error, 0); });
  }
  write_buffers_.assign(buffers.begin(), buffers.end());
  write_done_ = std::move(handler);
  serve_write();
}

// As much as there is room for, in one work request: so commands that were handed over together notify the server once.
void RdmaConnection::serve_write() {
  if (!write_done_) return;
  std::size_t total = 0;
  if (!error_) {
    std::size_t wanted = 0;
    for (const base::ConstBytes& source : write_buffers_) wanted += source.size();
    const auto data = ledger_.data(wanted);
    if (!data) return;
    const base::MutableBytes ring = link_->ring();
    std::size_t at = data->ring_offset;
    for (base::ConstBytes source : write_buffers_) {
      source = source.first(std::min(source.size(), data->bytes - total));
      total += source.size();
      while (!source.empty()) {
        const std::size_t bytes = std::min(source.size(), ring.size() - at);
        std::memcpy(ring.data() + at, source.data(), bytes);
        source = source.subspan(bytes);
        at = (at + bytes) % ring.size();
      }
    }
    sent_lately_ = true;
    spin();
    if (!link_->post_data(*data, window_->address, window_->key)) {
      total = 0;
      end(rdma_error(kQueueBroken));
    }
  }
  if (!write_done_) return;
  const std::error_code error = total == 0 ? error_ : std::error_code();
  loop_.post([handler = std::move(write_done_), error, total]() mutable { handler(error, total); });
  write_done_.reset();
}

void RdmaConnection::keep_alive() {
  keepalive_.start(kKeepalive, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->phase_ != Phase::kOpen) return;
    if (!std::exchange(self->sent_lately_, false)) {
      self->send(RdmaSendLedger::Kind::kOther, {.opcode = RdmaMessage::Opcode::kKeepalive});
      self->sent_lately_ = false;
    }
    // Also looks at the queue, should a notification ever have been lost below (R61).
    self->on_completions();
    self->keep_alive();
  });
}

void RdmaConnection::fail_dial(std::string why, int code) {
  if (phase_ < Phase::kFarewell) leave();
  loop_.post([self = shared_from_this(), why = std::move(why), code] {
    if (!self->done_) return;
    self->closed_ = true;
    Done done = std::move(self->done_);
    done(base::Error{why, code});
    if (self->phase_ == Phase::kFarewell) self->finish_if_done();
  });
}

// The connection is over: what had arrived is still read, then everything gets the error.
void RdmaConnection::end(std::error_code error) {
  if (phase_ >= Phase::kFarewell) return;
  if (dialling()) return fail_dial(stream_cause(error), error.value());
  error_ = error;
  leave();
  serve_write();
  serve_read();
}

void RdmaConnection::close() {
  if (std::exchange(closed_, true)) return;
  const auto cancelled = std::make_error_code(std::errc::operation_canceled);
  if (read_done_) loop_.post([handler = std::move(read_done_), cancelled]() mutable { handler(cancelled, 0); });
  if (write_done_) loop_.post([handler = std::move(write_done_), cancelled]() mutable { handler(cancelled, 0); });
  read_done_.reset();
  write_done_.reset();
  if (phase_ < Phase::kFarewell) leave();
  // Posted, as this may be a call from one of the handlers that still look at the link.
  loop_.post([self = shared_from_this()] {
    if (self->phase_ == Phase::kFarewell) self->finish_if_done();
  });
}

void RdmaConnection::leave() {
  reached_ = phase_;
  phase_ = Phase::kFarewell;
  keepalive_.cancel();
  connect_limit_.cancel();
  if (!link_) return;
  link_->disconnect();
  farewell_.start(kFarewell, [self = shared_from_this()] {
    if (self->phase_ != Phase::kFarewell) return;
    self->link_->abandon();
    self->finish_if_done();
  });
}

void RdmaConnection::finish_if_done() {
  // What has arrived stays readable until the stream is closed.
  if (closed_ && (!link_ || link_->drained())) finish();
}

void RdmaConnection::finish() {
  phase_ = Phase::kGone;
  farewell_.cancel();
  watched_.reset();
  if (link_) link_->abandon();
  link_.reset();
}

}  // namespace keyferry::upstream
