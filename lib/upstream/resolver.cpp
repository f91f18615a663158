#include <boost/asio.hpp>

#include <cstring>

#include "upstream/transport.h"

namespace keyferry::upstream {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

Endpoint to_endpoint(const tcp::endpoint& from) {
  Endpoint endpoint;
  endpoint.length = static_cast<socklen_t>(from.size());
  std::memcpy(&endpoint.storage, from.data(), from.size());
  return endpoint;
}

tcp::endpoint to_asio(const Endpoint& from) {
  tcp::endpoint endpoint;
  endpoint.resize(from.length);
  std::memcpy(endpoint.data(), &from.storage, from.length);
  return endpoint;
}

std::string with_port(const std::string& host, std::uint16_t port) {
  const bool colons = host.find(':') != std::string::npos;
  return (colons ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace

std::string Address::text() const {
  return port == 0 ? host : with_port(host, port);
}

std::string Endpoint::host() const {
  return to_asio(*this).address().to_string();
}

std::string Endpoint::text() const {
  return with_port(host(), to_asio(*this).port());
}

struct Resolver::State {
  explicit State(asio::io_context& context) : resolver(context) {}
  tcp::resolver resolver;
  // Emptied when called off: handlers that still come do nothing.
  Done done;
};

Resolver::Resolver(base::Loop& loop) : loop_(loop), state_(std::make_shared<State>(loop.context())) {}

Resolver::~Resolver() {
  state_->done.reset();
  state_->resolver.cancel();
}

void Resolver::resolve(const Address& address, Done done) {
  state_->done = std::move(done);
  boost::system::error_code not_figures;
  const auto figures = asio::ip::make_address(address.host, not_figures);
  if (!not_figures) {
    loop_.post([state = state_, endpoint = to_endpoint({figures, address.port})] {
      if (!state->done) return;
      auto call = std::move(state->done);
      call(std::vector<Endpoint>{endpoint});
    });
    return;
  }
  // Not AI_ADDRCONFIG, which hides ::1 and the like on a host that has only loopback: an address that leads nowhere
  // fails at once.
  state_->resolver.async_resolve(
      address.host, std::to_string(address.port), tcp::resolver::numeric_service,
      [state = state_](const boost::system::error_code& error, const tcp::resolver::results_type& results) {
        if (!state->done) return;
        auto call = std::move(state->done);
        if (error) return call(base::Error{error.message(), error.value()});
        std::vector<Endpoint> endpoints;
        for (const auto& result : results) endpoints.push_back(to_endpoint(result.endpoint()));
        if (endpoints.empty()) return call(base::Error{"the name has no address"});
        call(std::move(endpoints));
      });
}

}  // namespace keyferry::upstream
