#include "telemetry/admin_client.h"

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <memory>

#include "telemetry/admin_server.h"

namespace keyferry::telemetry {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::uint64_t kMostBytes = 8 * 1024 * 1024;

/// One request from resolving to the last byte; `error` and `step` say how far it came.
struct Fetch {
  explicit Fetch(asio::io_context& context) : resolver(context), stream(context) { parser.body_limit(kMostBytes); }

  void start(const std::string& host, std::uint16_t port, http::verb verb, const std::string& path) {
    request = {verb, path, 11};
    if (verb == http::verb::post) {
      request.set(kControlHeader, "1");
      request.content_length(0);
    }
    request.set(http::field::host, host);
    request.set(http::field::connection, "close");
    step = "resolve the name";
    resolver.async_resolve(host, std::to_string(port), [this](error_code failure, const auto& found) {
      if (failed(failure, "connect")) return;
      stream.async_connect(found, [this](error_code refused, const auto&) {
        if (failed(refused, "send the request")) return;
        exchange();
      });
    });
  }

  void exchange() {
    http::async_write(stream, request, [this](error_code failure, std::size_t) {
      if (failed(failure, "read the reply")) return;
      http::async_read(stream, buffer, parser, [this](error_code broken, std::size_t) {
        if (!failed(broken, "")) done = true;
      });
    });
  }

  bool failed(error_code failure, std::string_view next_step) {
    error = failure;
    if (!failure) step = next_step;
    return static_cast<bool>(failure);
  }

  asio::ip::tcp::resolver resolver;
  beast::tcp_stream stream;
  http::request<http::empty_body> request;
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  std::string_view step;
  error_code error;
  bool done = false;
};

}  // namespace

namespace {

base::Result<std::string> exchange(http::verb verb, const std::string& host, std::uint16_t port,
                                   const std::string& path, base::Duration timeout) {
  const std::string where =
      (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
  asio::io_context context;
  Fetch fetch(context);
  fetch.start(host, port, verb, path);
  context.run_for(timeout);
  if (!fetch.done) {
    const std::string cause = fetch.error ? fetch.error.message() : "no answer in time";
    return base::Error{"no page from keyferryd's admin listener at " + where + ": could not " +
                           std::string(fetch.step) + ": " + cause +
                           "; is it running, and is that the address in admin.http?",
                       fetch.error.value()};
  }
  const auto& response = fetch.parser.get();
  if (response.result() != http::status::ok) {
    return base::Error{where + path + " answered " + std::to_string(response.result_int()) + ": " +
                       response.body().substr(0, std::min<std::size_t>(response.body().find('\n'), 200))};
  }
  return response.body();
}

}  // namespace

base::Result<std::string> fetch_page(const std::string& host, std::uint16_t port, const std::string& path,
                                     base::Duration timeout) {
  return exchange(http::verb::get, host, port, path, timeout);
}

base::Result<std::string> post_control(const std::string& host, std::uint16_t port, const std::string& target,
                                       base::Duration timeout) {
  return exchange(http::verb::post, host, port, target, timeout);
}

}  // namespace keyferry::telemetry
