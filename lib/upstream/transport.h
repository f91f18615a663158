#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/stream.h"
#include "base/unique_function.h"
#include "upstream/connection.h"

// Inside of this folder: how a Connection comes by its stream of bytes. Nothing above knows which transport it is
// (design: layout).

namespace keyferry::upstream {

/// One address of a node, as the resolver gave it.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
  /// Without the port: for messages about a node with several addresses.
  std::string host() const;
  /// 127.0.0.1:6379 or [::1]:6379.
  std::string text() const;
};

/// Why a stream ended, in words: "closed by the server" for an orderly end.
std::string stream_cause(const std::error_code& error);

/// Looks one name up, off the loop. Belongs to the loop's thread. Destroying it calls the look-up off: its callback is
/// destroyed unrun. Asio's resolver thread may hang in getaddrinfo() for as long as the system's resolver does; later
/// look-ups then wait behind it and end by their own time limits.
class Resolver {
 public:
  using Done = base::UniqueFunction<void(base::Result<std::vector<Endpoint>>)>;
  explicit Resolver(base::Loop& loop);
  ~Resolver();
  /// An address in figures takes no look-up. `done` never runs inside the call. At least one endpoint, in the system's
  /// order.
  void resolve(const Address& address, Done done);

 private:
  struct State;
  base::Loop& loop_;
  std::shared_ptr<State> state_;
};

/// Opens a stream to one endpoint, up to the point where RESP can be spoken. One object for one attempt to connect;
/// belongs to the loop's thread. Destroying it calls a dial under way off: its callback is destroyed unrun. When a
/// write on the stream fails, a read under way must end as well, after it has given what had arrived.
class Transport {
 public:
  using Done = base::UniqueFunction<void(base::Result<std::unique_ptr<base::Stream>>)>;
  virtual ~Transport() = default;
  /// `done` never runs inside dial(). The error is the cause alone, step() says where. A dial under way is called off
  /// by the next one.
  virtual void dial(const Endpoint& endpoint, Done done) = 0;
  /// "connect" or what comes after it, for messages.
  virtual std::string_view step() const = 0;

  /// The one for that carrier. The error tells what is wrong with the certificates or keys given, or that this program
  /// was built without it.
  static base::Result<std::unique_ptr<Transport>> make(base::Loop& loop, const ConnectOptions& options,
                                                       Carrier carrier);
};

/// Connection::connect() for one whose addresses are known: dials them in turn. At least one.
void connect_to(base::Loop& loop, const ConnectOptions& options, std::vector<Endpoint> endpoints,
                Connection::Callback done);

}  // namespace keyferry::upstream
