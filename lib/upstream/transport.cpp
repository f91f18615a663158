#include "upstream/transport.h"

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <netinet/tcp.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/asio_stream.h"
#include "upstream/rdma_transport.h"
#include "upstream/tls_context.h"

namespace keyferry::upstream {

namespace asio = boost::asio;
namespace ssl = asio::ssl;
using asio::ip::tcp;
using TlsSocket = ssl::stream<tcp::socket>;

namespace {

// A server host that vanished without a word is noticed within about a minute.
constexpr int kKeepIdleSeconds = 30;
constexpr int kKeepIntervalSeconds = 10;
constexpr int kKeepProbes = 3;

void set_options(tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&](int name, int value) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, name, &value, sizeof(value));
  };
  set(TCP_KEEPIDLE, kKeepIdleSeconds);
  set(TCP_KEEPINTVL, kKeepIntervalSeconds);
  set(TCP_KEEPCNT, kKeepProbes);
}

// One dial, shared with its handlers. `done` is emptied when it is called off.
struct Attempt {
  explicit Attempt(asio::io_context& context) : socket(std::make_shared<tcp::socket>(context)) {}
  std::shared_ptr<tcp::socket> socket;
  std::shared_ptr<TlsSocket> tls;
  Transport::Done done;
  std::string peer;

  void call_off() {
    boost::system::error_code ignored;
    done.reset();
    if (tls) tls->lowest_layer().close(ignored);
    socket->close(ignored);
  }
};

bool is_figures(const std::string& host) {
  boost::system::error_code error;
  asio::ip::make_address(host, error);
  return !error;
}

// What went wrong in a TLS handshake, in terms of what can be put right.
std::string tls_cause(TlsSocket& stream, const boost::system::error_code& error, const std::string& name) {
  const long verdict = SSL_get_verify_result(stream.native_handle());
  if (verdict == X509_V_OK) {
    return error == asio::error::eof || error == ssl::error::stream_truncated
               ? "closed by the server (is it a TLS port?)"
               : error.message();
  }
  std::string cause = std::string("certificate refused: ") + X509_verify_cert_error_string(verdict);
  if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    cause += ": it is not for '" + name + "' (tls.name names another)";
  }
  return cause;
}

class SocketTransport final : public Transport {
 public:
  SocketTransport(base::Loop& loop, std::shared_ptr<ssl::context> context, std::string name)
      : loop_(loop), context_(std::move(context)), name_(std::move(name)) {}
  ~SocketTransport() override {
    if (attempt_) attempt_->call_off();
  }

  void dial(const Endpoint& endpoint, Done done) override {
    if (attempt_) attempt_->call_off();
    step_ = "connect";
    attempt_ = std::make_shared<Attempt>(loop_.context());
    attempt_->done = std::move(done);
    attempt_->peer = endpoint.text();
    tcp::endpoint target;
    target.resize(endpoint.length);
    std::memcpy(target.data(), &endpoint.storage, endpoint.length);
    // A dial that is not called off has its transport alive, so `this` is safe behind the check.
    attempt_->socket->async_connect(target, [this, attempt = attempt_](const boost::system::error_code& error) {
      if (!attempt->done) return;
      if (error) return fail(*attempt, error, error.message());
      set_options(*attempt->socket);
      if (context_) return shake_hands(attempt);
      succeed(*attempt, std::make_unique<base::AsioStream<tcp::socket>>(attempt->socket, attempt->peer));
    });
  }

  std::string_view step() const override { return step_; }

 private:
  void shake_hands(const std::shared_ptr<Attempt>& attempt) {
    step_ = "TLS";
    attempt->tls = std::make_shared<TlsSocket>(std::move(*attempt->socket), *context_);
    SSL* session = attempt->tls->native_handle();
    X509_VERIFY_PARAM* check = SSL_get0_param(session);
    if (is_figures(name_)) {
      X509_VERIFY_PARAM_set1_ip_asc(check, name_.c_str());
    } else {
      X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
      X509_VERIFY_PARAM_set1_host(check, name_.c_str(), name_.size());
      SSL_set_tlsext_host_name(session, name_.c_str());
    }
    resume_session(session, attempt->peer + " as " + name_);
    attempt->tls->async_handshake(TlsSocket::client, [this, attempt](const boost::system::error_code& error) {
      if (!attempt->done) return;
      if (error) return fail(*attempt, error, tls_cause(*attempt->tls, error, name_));
      succeed(*attempt, std::make_unique<base::AsioStream<TlsSocket>>(attempt->tls, attempt->peer));
    });
  }

  // Both end the attempt first: the callback may destroy this transport.
  void fail(Attempt& attempt, const boost::system::error_code& error, std::string cause) {
    Done done = std::move(attempt.done);
    attempt.call_off();
    done(base::Error{std::move(cause), error.value()});
  }
  void succeed(Attempt& attempt, std::unique_ptr<base::Stream> stream) {
    Done done = std::move(attempt.done);
    attempt_.reset();
    done(std::move(stream));
  }

  base::Loop& loop_;
  std::shared_ptr<ssl::context> context_;
  std::string name_;
  std::string_view step_ = "connect";
  std::shared_ptr<Attempt> attempt_;
};

}  // namespace

std::string stream_cause(const std::error_code& error) {
  // TLS servers that end without a close_notify are common, and a cut reply is found by its framing.
  const bool cut = error == std::error_code(boost::system::error_code(ssl::error::stream_truncated));
  return cut || base::is_end_of_stream(error) ? "closed by the server" : error.message();
}

std::string_view name_of(Carrier carrier) {
  constexpr std::array<std::string_view, kCarriers> kNames = {"tcp", "tls", "rdma"};
  return kNames[static_cast<std::size_t>(carrier)];
}

base::Result<std::unique_ptr<Transport>> Transport::make(base::Loop& loop, const ConnectOptions& options,
                                                         Carrier carrier) {
  if (carrier == Carrier::kRdma) return make_rdma_transport(loop, options.rdma->settings);
  std::shared_ptr<ssl::context> context;
  std::string name;
  if (carrier == Carrier::kTls) {
    auto loaded = tls_context(*options.tls);
    if (!loaded) return loaded.error();
    context = std::move(loaded.value());
    name = options.tls->name.empty() ? options.address.host : options.tls->name;
  }
  return std::unique_ptr<Transport>(std::make_unique<SocketTransport>(loop, std::move(context), std::move(name)));
}

}  // namespace keyferry::upstream
