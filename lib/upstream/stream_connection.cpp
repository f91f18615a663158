#include "upstream/stream_connection.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

namespace keyferry::upstream {

struct StreamConnection::State : std::enable_shared_from_this<State> {
  using ReadDone = base::UniqueFunction<void(std::error_code, std::string_view)>;
  using WriteDone = base::UniqueFunction<void(std::error_code)>;
  struct Arrived {
    std::error_code error;
    std::size_t count;
  };

  State(base::Loop& its_loop, std::unique_ptr<base::Stream> its_stream, const Traffic& traffic, Carrier carrier)
      : loop(its_loop),
        stream(std::move(its_stream)),
        bytes_in(traffic.in[static_cast<std::size_t>(carrier)]),
        bytes_out(traffic.out[static_cast<std::size_t>(carrier)]) {}

  void start_read() {
    // Made at the first read, as connections that only wait need none.
    if (!room) room = std::make_unique<std::byte[]>(kReadRoom);
    reading = true;
    const base::MutableBytes whole(room.get(), kReadRoom);
    stream->async_read(std::span(&whole, 1), [self = shared_from_this()](std::error_code error, std::size_t count) {
      self->reading = false;
      if (self->bytes_in != nullptr) self->bytes_in->add(count);
      self->arrived = Arrived{error, count};
      self->hand_out();
    });
  }

  // What has arrived goes to the reader, or stirs the watcher and is kept for the next reader.
  void hand_out() {
    if (!arrived) return;
    if (read_done) {
      const Arrived got = *std::exchange(arrived, std::nullopt);
      ReadDone call = std::move(read_done);
      const std::error_code error = closed ? std::make_error_code(std::errc::operation_canceled) : got.error;
      const auto* text = reinterpret_cast<const char*>(room.get());
      // Bytes that came with an error go first: the error comes again at the next read.
      const bool bytes = !closed && got.count > 0;
      call(bytes ? std::error_code() : error, bytes ? std::string_view(text, got.count) : std::string_view());
    } else if (stirred && !closed) {
      base::Task call = std::move(stirred);
      call();
    }
  }

  void write_more() {
    std::array<base::ConstBytes, base::Stream::kMaxSpans> next;
    const std::size_t count = std::min(pieces.size() - piece, next.size());
    std::copy_n(pieces.begin() + static_cast<std::ptrdiff_t>(piece), count, next.begin());
    stream->async_write(
        std::span(next.data(), count),
        [self = shared_from_this()](std::error_code error, std::size_t written) { self->wrote(error, written); });
  }

  void wrote(std::error_code error, std::size_t written) {
    if (bytes_out != nullptr) bytes_out->add(written);
    if (closed) error = std::make_error_code(std::errc::operation_canceled);
    while (piece < pieces.size() && written >= pieces[piece].size()) written -= pieces[piece++].size();
    if (!error && piece < pieces.size()) {
      pieces[piece] = pieces[piece].subspan(written);
      return write_more();
    }
    pieces.clear();
    WriteDone call = std::move(write_done);
    call(error);
  }

  base::Loop& loop;
  std::unique_ptr<base::Stream> stream;
  telemetry::Counter* const bytes_in;
  telemetry::Counter* const bytes_out;
  bool closed = false;

  std::unique_ptr<std::byte[]> room;
  bool reading = false;
  // The outcome of a read that was started for a watch and has no reader yet.
  std::optional<Arrived> arrived;
  ReadDone read_done;
  base::Task stirred;

  std::vector<base::ConstBytes> pieces;
  std::size_t piece = 0;
  WriteDone write_done;
};

StreamConnection::StreamConnection(base::Loop& loop, ConnectOptions options, std::unique_ptr<base::Stream> stream,
                                   Carrier carrier, int family)
    : options_(std::move(options)),
      carrier_(carrier),
      family_(family),
      state_(std::make_shared<State>(loop, std::move(stream), options_.traffic, carrier)) {}

StreamConnection::~StreamConnection() {
  StreamConnection::close();
}

void StreamConnection::write(std::vector<base::ConstBytes> pieces, base::UniqueFunction<void(std::error_code)> done) {
  State& state = *state_;
  std::erase_if(pieces, [](const base::ConstBytes& piece) { return piece.empty(); });
  std::optional<std::error_code> at_once;
  if (state.closed) {
    at_once = std::make_error_code(std::errc::operation_canceled);
  } else if (state.write_done) {
    at_once = std::make_error_code(std::errc::operation_in_progress);
  } else if (pieces.empty()) {
    at_once = std::error_code();
  }
  if (at_once) return state.loop.post([done = std::move(done), error = *at_once]() mutable { done(error); });
  state.pieces = std::move(pieces);
  state.piece = 0;
  state.write_done = std::move(done);
  state.write_more();
}

void StreamConnection::read(base::UniqueFunction<void(std::error_code, std::string_view)> done) {
  State& state = *state_;
  if (state.closed || state.read_done) {
    const auto error =
        std::make_error_code(state.closed ? std::errc::operation_canceled : std::errc::operation_in_progress);
    return state.loop.post([done = std::move(done), error]() mutable { done(error, {}); });
  }
  state.stirred.reset();
  state.read_done = std::move(done);
  if (state.arrived) {
    state.loop.post([self = state_] { self->hand_out(); });
  } else if (!state.reading) {
    state.start_read();
  }
}

void StreamConnection::watch(base::Task stirred) {
  State& state = *state_;
  state.stirred = std::move(stirred);
  if (!state.stirred || state.closed || state.read_done) return;
  if (state.arrived) {
    state.loop.post([self = state_] { self->hand_out(); });
  } else if (!state.reading) {
    state.start_read();
  }
}

void StreamConnection::close() {
  State& state = *state_;
  if (state.closed) return;
  state.closed = true;
  state.stirred.reset();
  state.stream->close();
}

}  // namespace keyferry::upstream
