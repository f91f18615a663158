#include "telemetry/admin_server.h"

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include "telemetry/status_page.h"

namespace keyferry::telemetry {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

/// What is read and thrown away after a reply to a request that had a body, so that closing does not cut the reply off.
constexpr std::size_t kMostDiscarded = 64 * 1024;
constexpr auto kDiscardTime = std::chrono::seconds(2);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

struct Page {
  http::status status = http::status::ok;
  std::string_view type = "text/plain; charset=utf-8";
  std::string body;
};

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kJson = "application/json";
constexpr std::string_view kExposition = "text/plain; version=0.0.4; charset=utf-8";

Page text_page(http::status status, std::string body) {
  return {status, "text/plain; charset=utf-8", std::move(body)};
}

Page health_page(const Health& health) {
  if (health.ok) return text_page(http::status::ok, "ok\n");
  return text_page(http::status::service_unavailable, (health.reason.empty() ? "not ready" : health.reason) + "\n");
}

/// The number of "NAME=N".
std::optional<std::uint64_t> number_of(std::string_view text, std::string_view name) {
  if (!text.starts_with(name)) return std::nullopt;
  text.remove_prefix(name.size());
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

/// What follows the path, "after=N&limit=N" or one of them or nothing.
std::optional<AdminHandlers::Rows> rows_of(std::string_view query) {
  AdminHandlers::Rows rows;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    if (const auto after = number_of(part, "after=")) {
      rows.after = *after;
    } else if (const auto limit = number_of(part, "limit="); limit && *limit > 0) {
      rows.limit = std::min<std::size_t>(*limit, AdminHandlers::Rows::kMost);
    } else {
      return std::nullopt;
    }
  }
  return rows;
}

/// A browser that was lured here under another name says so in Host, or names the page in Origin.
bool from_a_page(const http::request<http::empty_body>& request) {
  if (request.find(http::field::origin) != request.end()) return true;
  const std::string_view host(request[http::field::host].data(), request[http::field::host].size());
  const auto local = [](std::string_view name) {
    error_code error;
    asio::ip::make_address(std::string(name), error);
    return !error || name == "localhost";
  };
  return !host.starts_with('[') && !local(host) && !local(host.substr(0, host.rfind(':')));
}

/// Nothing if the connection is simply over; else the status that tells the client what was wrong with its request.
std::optional<http::status> refusal(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return http::status::request_header_fields_too_large;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
  if (error.category() == http::make_error_code(http::error::bad_method).category()) return http::status::bad_request;
  return std::nullopt;
}

}  // namespace

class AdminSession;

struct AdminServer::Impl : std::enable_shared_from_this<AdminServer::Impl> {
  Impl(base::Loop& admin_loop, AdminHandlers admin_handlers, AdminLimits admin_limits)
      : loop(admin_loop),
        handlers(std::move(admin_handlers)),
        limits(admin_limits),
        acceptor(admin_loop.context()),
        pause(admin_loop) {}

  void accept();
  void stop();

  base::Loop& loop;
  AdminHandlers handlers;
  AdminLimits limits;
  Tcp::acceptor acceptor;
  base::Timer pause;
  std::set<AdminSession*> sessions;
};

/// One connection: request, reply, request ... Kept alive by its own handlers; the server only knows it in order to
/// close it.
class AdminSession : public std::enable_shared_from_this<AdminSession> {
 public:
  AdminSession(std::shared_ptr<AdminServer::Impl> server, Tcp::socket socket)
      : server_(std::move(server)),
        stream_(std::move(socket)),
        buffer_(2 * server_->limits.header_bytes),
        status_timer_(server_->loop) {
    server_->sessions.insert(this);
  }
  ~AdminSession() { server_->sessions.erase(this); }

  void read();
  void close() {
    status_timer_.cancel();
    stream_.close();
  }

 private:
  void serve(error_code error);
  using Report = base::UniqueFunction<void(AdminHandlers::StatusDone)>;
  void serve_report(Report& report, bool as_page);
  void serve_kill(std::string_view target);
  auto expect_later(std::string late);
  bool from_this_host() const;
  template <typename Make>
  void answer(Make make);
  void send(Page page);
  void after_send(bool keep_alive);
  void discard_rest(std::size_t so_far);

  std::shared_ptr<AdminServer::Impl> server_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  base::Timer status_timer_;
  // Grows when a request has been answered: a status that comes later belongs to none.
  std::uint64_t request_ = 0;
  bool malformed_ = false;
  std::array<char, 4096> discarded_;
};

/// For what is answered later: `late` is the answer if that does not come in time. Gives what takes a function that
/// makes the page, and does nothing once there was another answer.
auto AdminSession::expect_later(std::string late) {
  // The session's own limit rules from here on; the reply gets a new one.
  stream_.expires_never();
  const std::uint64_t mine = request_;
  status_timer_.start(server_->limits.status_time, [self = shared_from_this(), mine, late = std::move(late)] {
    if (self->request_ == mine) self->send(text_page(http::status::service_unavailable, late));
  });
  return [session = weak_from_this(), mine](auto make) {
    const auto self = session.lock();
    if (self && self->request_ == mine) self->answer(std::move(make));
  };
}

void AdminSession::read() {
  parser_.emplace();
  parser_->header_limit(server_->limits.header_bytes);
  stream_.expires_after(server_->limits.request_time);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](error_code error, std::size_t) { self->serve(error); });
}

void AdminSession::serve(error_code error) {
  if (error) {
    const std::optional<http::status> status = refusal(error);
    if (!status) return close();
    malformed_ = true;
    return send(text_page(*status, error.message() + "\n"));
  }
  const auto& request = parser_->get();
  if (request.method() == http::verb::post)
    return serve_kill(std::string_view(request.target().data(), request.target().size()));
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    return send(text_page(http::status::method_not_allowed, "only GET and HEAD are served here, and POST /kill\n"));
  }
  const std::string_view target(request.target().data(), request.target().size());
  const std::string_view path = target.substr(0, target.find('?'));
  const std::string_view query = target.substr(std::min(target.size(), path.size() + 1));
  AdminHandlers& handlers = server_->handlers;
  if (path == "/metrics") return answer([&] { return Page{http::status::ok, kExposition, handlers.metrics()}; });
  if (path == "/healthz") return answer([&] { return health_page(handlers.healthy()); });
  if (path == "/readyz") return answer([&] { return health_page(handlers.ready()); });
  if (path == "/status.json") return serve_report(handlers.status_json, false);
  if (path == "/status") return serve_report(handlers.status_json, true);
  const auto found = handlers.reports.find(path);
  if (found != handlers.reports.end()) {
    const auto rows = rows_of(query);
    if (!rows) return send(text_page(http::status::bad_request, "it is " + std::string(path) + "?after=N&limit=N\n"));
    Report report = [&](AdminHandlers::StatusDone done) { found->second(*rows, std::move(done)); };
    return serve_report(report, false);
  }
  std::string pages = "there are /metrics /healthz /readyz /status /status.json";
  for (const auto& [name, report] : handlers.reports) pages += " " + name;
  send(text_page(http::status::not_found, pages + "\n"));
}

bool AdminSession::from_this_host() const {
  error_code error;
  const Tcp::endpoint peer = stream_.socket().remote_endpoint(error);
  if (error) return false;
  const asio::ip::address& address = peer.address();
  // Who calls an address of this host from it comes from that address.
  if (const Tcp::endpoint own = stream_.socket().local_endpoint(error); !error && own.address() == address) return true;
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

/// The one request that changes something.
void AdminSession::serve_kill(std::string_view target) {
  const auto refuse = [this](http::status status, std::string text) { send(text_page(status, std::move(text))); };
  if (target.substr(0, target.find('?')) != "/kill")
    return refuse(http::status::method_not_allowed, "only GET and HEAD are served here, and POST /kill\n");
  if (!server_->handlers.kill)
    return refuse(http::status::forbidden, "ending clients is not allowed here (admin.kill)\n");
  if (!from_this_host()) return refuse(http::status::forbidden, "clients can only be ended from this host itself\n");
  const auto& request = parser_->get();
  if (request.find(kControlHeader) == request.end())
    return refuse(http::status::forbidden, std::string("the header ") + kControlHeader + " is missing\n");
  if (from_a_page(request))
    return refuse(http::status::forbidden, "it comes from a page or by a name: call an address or localhost\n");
  const auto id = number_of(target, "/kill?id=");
  if (!id) return refuse(http::status::bad_request, "it is POST /kill?id=N\n");
  server_->handlers.kill(*id, [later = expect_later("the client has not ended in time\n"), id = *id](bool found) {
    later([&] {
      return found ? text_page(http::status::ok, "ended\n")
                   : text_page(http::status::not_found, "there is no client " + std::to_string(id) + "\n");
    });
  });
}

template <typename Make>
void AdminSession::answer(Make make) {
  Page page;
  try {
    page = make();
  } catch (const std::exception& failure) {
    page = text_page(http::status::internal_server_error,
                     std::string("this page can't be made: ") + failure.what() + "\n");
  }
  send(std::move(page));
}

void AdminSession::serve_report(Report& report, bool as_page) {
  const std::uint64_t mine = request_;
  auto later = expect_later("the status did not come in time: a thread of the daemon does not answer\n");
  AdminHandlers::StatusDone done = [later = std::move(later), as_page](std::string json) {
    later([&] {
      return as_page ? Page{http::status::ok, kHtml, status_html(json)}
                     : Page{http::status::ok, kJson, std::move(json)};
    });
  };
  try {
    report(std::move(done));
  } catch (const std::exception& failure) {
    if (request_ == mine)
      send(text_page(http::status::internal_server_error, std::string("no status: ") + failure.what() + "\n"));
  }
}

void AdminSession::send(Page page) {
  ++request_;
  status_timer_.cancel();
  const bool has_body_left = malformed_ || !parser_->is_done();
  const bool keep_alive = !has_body_left && parser_->get().keep_alive();
  const unsigned version = malformed_ ? 11 : parser_->get().version();
  http::response<http::string_body> response(page.status, version);
  response.set(http::field::content_type, beast::string_view(page.type.data(), page.type.size()));
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  if (page.type == kHtml) response.set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
  if (page.status == http::status::method_not_allowed) response.set(http::field::allow, "GET, HEAD");
  response.keep_alive(keep_alive);
  response.content_length(page.body.size());
  if (malformed_ || parser_->get().method() != http::verb::head) response.body() = std::move(page.body);
  stream_.expires_after(server_->limits.request_time);
  beast::async_write(stream_, http::message_generator(std::move(response)),
                     [self = shared_from_this(), keep_alive](error_code error, std::size_t) {
                       if (error) return self->close();
                       self->after_send(keep_alive);
                     });
}

void AdminSession::after_send(bool keep_alive) {
  if (keep_alive) return read();
  error_code ignored;
  stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  stream_.expires_after(kDiscardTime);
  discard_rest(0);
}

void AdminSession::discard_rest(std::size_t so_far) {
  stream_.async_read_some(asio::buffer(discarded_),
                          [self = shared_from_this(), so_far](error_code error, std::size_t count) {
                            if (error || so_far + count > kMostDiscarded) return self->close();
                            self->discard_rest(so_far + count);
                          });
}

void AdminServer::Impl::accept() {
  acceptor.async_accept([self = shared_from_this()](error_code error, Tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error && self->sessions.size() < self->limits.connections) {
      std::make_shared<AdminSession>(self, std::move(socket))->read();
    }
    // Out of descriptors, say: try again soon, but don't spin.
    if (error) {
      self->pause.start(kAcceptPause, [self] { self->accept(); });
    } else {
      self->accept();
    }
  });
}

void AdminServer::Impl::stop() {
  error_code ignored;
  acceptor.close(ignored);
  pause.cancel();
  for (AdminSession* session : sessions) session->close();
}

base::Result<std::unique_ptr<AdminServer>> AdminServer::start(base::Loop& loop, const std::string& host,
                                                              std::uint16_t port, AdminHandlers handlers,
                                                              AdminLimits limits) {
  const auto impl = std::make_shared<Impl>(loop, std::move(handlers), limits);
  error_code error;
  const asio::ip::address address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (!error) {
    const Tcp::endpoint endpoint(address, port);
    Tcp::acceptor& acceptor = impl->acceptor;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(Tcp::acceptor::max_listen_connections, error);
  }
  if (error) {
    const std::string shown =
        (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
    return base::Error{"the admin pages can't be served on " + shown + ": " + error.message() +
                           "; set admin.http to a free address of this host, or to off",
                       error.value()};
  }
  impl->accept();
  return std::unique_ptr<AdminServer>(new AdminServer(impl));
}

AdminServer::AdminServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
AdminServer::~AdminServer() {
  impl_->stop();
}

std::uint16_t AdminServer::port() const {
  error_code error;
  const Tcp::endpoint endpoint = impl_->acceptor.local_endpoint(error);
  return error ? std::uint16_t{0} : endpoint.port();
}

}  // namespace keyferry::telemetry
