#include "gateway/tls_server.h"

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>

#include <array>
#include <stdexcept>

#include "base/asio_stream.h"
#include "base/file_mark.h"

namespace keyferry::gateway {

namespace asio = boost::asio;
namespace ssl = asio::ssl;

namespace {

using TlsSocket = ssl::stream<base::StreamSocket>;

constexpr base::Duration kHandshake = std::chrono::seconds(10);
// How long a client that we leave may take for its part of TLS's farewell.
constexpr base::Duration kFarewell = std::chrono::seconds(1);
// Any text will do; it keeps this listener's sessions apart from those of other servers.
constexpr std::array<unsigned char, 9> kSessionName{'k', 'e', 'y', 'f', 'e', 'r', 'r', 'y', 'd'};

std::runtime_error cannot_load(const char* what, const std::string& path, const boost::system::error_code& error) {
  return std::runtime_error(std::string("listen[].tls: cannot load the ") + what + " " + path + ": " + error.message());
}

std::shared_ptr<ssl::context> load(const TlsServerFiles& files) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_session_id_context(context->native_handle(), kSessionName.data(), kSessionName.size());
  boost::system::error_code error;
  context->use_certificate_chain_file(files.cert, error);
  if (error) throw cannot_load("certificate", files.cert, error);
  context->use_private_key_file(files.key, ssl::context::pem, error);
  if (error) throw cannot_load("key", files.key, error);
  if (!files.ca.empty()) {
    context->load_verify_file(files.ca, error);
    if (error) throw cannot_load("authorities", files.ca, error);
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
  }
  return context;
}

/// As base::AsioStream, but leaving says farewell first: many clients take an end without it for an attack.
class TlsClientStream final : public base::Stream {
 public:
  TlsClientStream(base::Loop& loop, std::shared_ptr<TlsSocket> socket, std::string peer,
                  std::shared_ptr<ssl::context> context)
      : loop_(loop), socket_(socket), context_(std::move(context)), inner_(std::move(socket), std::move(peer)) {}
  ~TlsClientStream() override { TlsClientStream::close(); }

  void async_read(std::span<const base::MutableBytes> buffers, Handler handler) override {
    inner_.async_read(buffers, std::move(handler));
  }
  void async_write(std::span<const base::ConstBytes> buffers, Handler handler) override {
    inner_.async_write(buffers, std::move(handler));
  }
  void close() override {
    if (closed_) return;
    closed_ = true;
    auto limit = std::make_shared<base::Timer>(loop_);
    const auto end = [socket = socket_, context = context_] {
      boost::system::error_code ignored;
      socket->lowest_layer().close(ignored);
    };
    limit->start(kFarewell, end);
    socket_->async_shutdown([end, limit](const boost::system::error_code&) {
      limit->cancel();
      end();
    });
  }
  std::size_t unsent() const override { return inner_.unsent(); }
  std::string peer() const override { return inner_.peer(); }

 private:
  base::Loop& loop_;
  std::shared_ptr<TlsSocket> socket_;
  /// A connection outlives the certificate it was made with.
  std::shared_ptr<ssl::context> context_;
  base::AsioStream<TlsSocket> inner_;
  bool closed_ = false;
};

std::string handshake_cause(TlsSocket& socket, const boost::system::error_code& error) {
  const long verdict = SSL_get_verify_result(socket.native_handle());
  if (verdict != X509_V_OK) return std::string("client certificate refused: ") + X509_verify_cert_error_string(verdict);
  return error.message();
}

}  // namespace

struct TlsServer::State {
  std::atomic<std::shared_ptr<ssl::context>> context;
  /// The main thread's alone: the files as they were when they were last looked at.
  std::array<base::FileMark, 3> marks;
};

TlsServer::TlsServer(TlsServerFiles files) : files_(std::move(files)), state_(std::make_unique<State>()) {
  state_->marks = {base::FileMark::of(files_.cert), base::FileMark::of(files_.key), base::FileMark::of(files_.ca)};
  state_->context = load(files_);
}

TlsServer::~TlsServer() = default;

void TlsServer::refresh() {
  const std::array<base::FileMark, 3> marks{base::FileMark::of(files_.cert), base::FileMark::of(files_.key),
                                            base::FileMark::of(files_.ca)};
  if (marks == state_->marks) return;
  state_->marks = marks;
  try {
    state_->context = load(files_);
    spdlog::info("listen[].tls: {} was loaded again", files_.cert);
  } catch (const std::runtime_error& error) {
    spdlog::error("{}; the certificate from before stays in use", error.what());
  }
  ERR_clear_error();
}

void TlsServer::accept(base::Loop& loop, base::Fd socket, Done done) const {
  std::shared_ptr<ssl::context> context = state_->context;
  std::string peer;
  std::shared_ptr<TlsSocket> tls;
  try {
    base::WatchedSocket watched = base::watch_socket(loop, std::move(socket));
    peer = std::move(watched.peer);
    tls = std::make_shared<TlsSocket>(std::move(*watched.socket), *context);
  } catch (const std::exception& error) {
    return loop.post([done = std::move(done), text = std::string(error.what())]() mutable { done(base::Error{text}); });
  }
  auto limit = std::make_shared<base::Timer>(loop);
  limit->start(kHandshake, [tls] {
    boost::system::error_code ignored;
    tls->lowest_layer().close(ignored);
  });
  tls->async_handshake(TlsSocket::server, [&loop, tls, limit, context, peer = std::move(peer),
                                           done = std::move(done)](const boost::system::error_code& error) mutable {
    limit->cancel();
    if (error) return done(base::Error{peer + ": TLS: " + handshake_cause(*tls, error), error.value()});
    done(std::unique_ptr<base::Stream>(
        std::make_unique<TlsClientStream>(loop, std::move(tls), std::move(peer), std::move(context))));
  });
}

}  // namespace keyferry::gateway
