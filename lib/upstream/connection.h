#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "resp/protocol.h"
#include "telemetry/registry.h"
#include "upstream/credentials.h"
#include "upstream/rdma_route.h"
#include "upstream/rdma_settings.h"

namespace keyferry::upstream {

struct Address {
  std::string host;
  std::uint16_t port = 0;
  /// host:port, [host]:port for IPv6: how metrics and messages name a node. Without a port, which is how a primary that
  /// sentinels name is called, the host alone.
  std::string text() const;
  bool operator==(const Address&) const = default;
};

class Whereabouts;

/// TLS towards the server. Empty strings are "not given": the system's authorities, no client certificate, the host's
/// name.
struct TlsOptions {
  std::string ca;
  std::string cert;
  std::string key;
  std::string name;
};

/// Whom a connection acts as, and on which database. Plain value. An empty user is that of the configuration.
struct Identity {
  std::string user;
  std::string password;
  int database = 0;
  /// Given: in place of `password`, which may change while its connections live (R58).
  std::shared_ptr<const Credentials> credentials{};

  bool is_default() const { return user.empty() && database == 0; }
  bool operator==(const Identity&) const = default;
  auto operator<=>(const Identity&) const = default;
};

/// What carries a connection's bytes.
enum class Carrier : std::uint8_t { kTcp, kTls, kRdma };
inline constexpr std::size_t kCarriers = 3;
/// So many of each.
using ByCarrier = std::array<std::size_t, kCarriers>;
/// As metrics and messages name it: tcp, tls, rdma.
std::string_view name_of(Carrier carrier);

/// Where connections count the bytes that they move, handshakes included, by carrier; null: not counted. Counters of
/// the shard of their loop's thread.
struct Traffic {
  std::array<telemetry::Counter*, kCarriers> in{}, out{};
};

/// RDMA towards the server. `route` is shared by everybody who connects to the node.
struct RdmaOptions {
  RdmaSettings settings;
  std::shared_ptr<RdmaRoute> route;
};

/// Everything a connection needs from dialling to the end of its handshake.
struct ConnectOptions {
  Address address;
  std::optional<TlsOptions> tls;
  /// Given: by RDMA while its route is well; else, and where that dial fails, by TLS or TCP, unless the route is
  /// strict.
  std::optional<RdmaOptions> rdma;
  /// By RDMA and nothing else, also while its route is not well: a probe.
  bool only_rdma = false;
  Traffic traffic;
  /// Given: where the node is may change (whereabouts.h). With sentinels in it the address is but a name, theirs is
  /// dialled in its place, and a server that is no primary is turned down. `place` says as of when.
  std::shared_ptr<Whereabouts> where{};
  std::uint64_t place = 0;
  std::string user = "default";
  /// Empty: no AUTH is sent, unless `authenticate` says so (a user without a password).
  std::string password;
  bool authenticate = false;
  /// Given: the password may change while connections live (R58). Each connect takes the one that is current, and
  /// `login` says which that was.
  std::shared_ptr<const Credentials> credentials;
  std::uint64_t login = 0;
  /// No handshake: the first bytes are the caller's.
  bool bare = false;
  /// Whether the server is told that this is keyferry's (CLIENT SETINFO); not for what a client has for itself.
  bool announce = true;
  resp::Protocol protocol = resp::Protocol::kResp2;
  int database = 0;
  /// Not empty where with() made this of another user on a database of its own: the configured user, who chooses that
  /// database first, as a client may have chosen it before AUTH and the other user need not be allowed to.
  std::string chooser{};
  std::string chooser_password{};
  /// For resolving, dialling (all addresses in turn) and the handshake together.
  base::Duration timeout = std::chrono::seconds(5);
  /// What with() made this for.
  Identity identity{};

  /// The same for another identity and protocol.
  ConnectOptions with(const Identity& who, resp::Protocol its_protocol) const;
  /// Takes the current password.
  void take_login();
  /// The password that was taken is not current any more.
  bool login_is_old() const { return credentials && credentials->number() != login; }
  /// It may lead to the wrong server by now.
  bool place_is_old() const;
  /// AUTH with the password taken, whole.
  std::string auth_command() const;
};

/// Codes of a failed Connection::connect() beside the system's own: the server answered and would not have us; the name
/// gave no address; the server refused user and password; it wants a password and there is none; it is no primary.
inline constexpr int kTurnedAway = -1;
inline constexpr int kNotResolved = -2;
inline constexpr int kLoginRefused = -3;
inline constexpr int kLoginNeeded = -4;
inline constexpr int kNotPrimary = -5;

/// One RESP connection to a server for one user at a time, after its handshake (HELLO or AUTH, SELECT, CLIENT SETINFO
/// LIB-NAME keyferry / LIB-VER). Belongs to its loop's thread. Knows nothing of replies: it moves bytes. Channel, bulk
/// exchanges and lanes stand on it. Destroying it is close(): a handler under way still runs, later, with
/// std::errc::operation_canceled, so it must not reach for what may be gone by then. No handler runs inside the call
/// that was given it.
class Connection {
 public:
  using Callback = base::UniqueFunction<void(base::Result<std::unique_ptr<Connection>>)>;
  /// Resolves the name anew (R44), tries every address, does the handshake. The error names the node, the step and the
  /// cause. `done` never runs inside connect(). There is no way to call it off: it ends by options.timeout.
  static void connect(base::Loop& loop, const ConnectOptions& options, Callback done);

  virtual ~Connection() = default;

  /// Writes all pieces in order (any number). One write at a time. The memory belongs to the connection until `done`;
  /// what was written when an error comes is unknown. After an error a read still gives what had arrived before, and
  /// then ends with an error too.
  virtual void write(std::vector<base::ConstBytes> pieces, base::UniqueFunction<void(std::error_code)> done) = 0;
  /// Gives the next bytes from the server (at least one, at most 64 KiB); the view is valid until the next read() or
  /// the end of the connection. One read at a time.
  virtual void read(base::UniqueFunction<void(std::error_code, std::string_view)> done) = 0;
  /// For a connection that lies idle: `stirred` runs once when the server closes it or sends what nobody asked for, and
  /// the connection is of no more use. read() takes the watch over and so ends it; an empty function ends it too, and
  /// no byte is lost either way.
  virtual void watch(base::Task stirred) = 0;
  /// Handlers under way run with std::errc::operation_canceled; a watch ends without a word.
  virtual void close() = 0;

  virtual const ConnectOptions& options() const = 0;
  virtual Carrier carrier() const = 0;
  /// AF_INET or AF_INET6: the fabric endpoint of a lane takes the same (design: names).
  virtual int family() const = 0;
  /// The server's id of this connection (CLIENT ID), 0 if it would not tell.
  virtual std::uint64_t client_id() const = 0;
};

}  // namespace keyferry::upstream
