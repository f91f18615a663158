#include "upstream/sentinel_query.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "resp/decode.h"
#include "resp/writer.h"

namespace keyferry::upstream {

namespace {

// An address.
constexpr std::size_t kLongestAnswer = 4 * base::kKiB;

std::optional<std::uint16_t> port_of(const std::string& text) {
  std::uint16_t port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

}  // namespace

// Shared with the handlers under way, which hold it weakly.
struct SentinelQuery::Impl : std::enable_shared_from_this<Impl> {
  Impl(base::Loop& its_loop, std::shared_ptr<Whereabouts> its_where, base::Duration limit, Done its_done)
      : loop(its_loop),
        where(std::move(its_where)),
        options(*where->sentinels()),
        first(where->first()),
        until(base::Clock::steady().now() + limit),
        share(its_loop),
        done(std::move(its_done)) {}

  // Each has an even share of the time that is left.
  void ask_next() {
    const std::size_t count = options.sentinels.size();
    if (asked == count) return give_up();
    index = (first + asked++) % count;
    const base::Duration left = until - base::Clock::steady().now();
    const base::Duration part = std::max<base::Duration>(left / static_cast<base::Duration::rep>(count - asked + 1),
                                                         std::chrono::milliseconds(1));
    ConnectOptions connect;
    connect.address = options.sentinels[index];
    connect.tls = options.tls;
    connect.user = options.user;
    connect.credentials = options.credentials;
    connect.announce = false;
    connect.timeout = part;
    share.start(part, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->next("no answer in time");
    });
    Connection::connect(loop, connect,
                        [weak = weak_from_this(), mine = ++turn](base::Result<std::unique_ptr<Connection>> result) {
                          const auto self = weak.lock();
                          if (!self || self->turn != mine) return;
                          if (!result) return self->refused(result.error());
                          self->connection = std::move(*result);
                          self->ask();
                        });
  }

  void ask() {
    asked_at = base::Clock::steady().now();
    command.clear();
    reply.clear();
    resp::append_command(command, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options.master});
    // A write that fails shows at the read.
    connection->write({base::as_bytes(command)}, [self = shared_from_this()](std::error_code) {});
    read();
  }

  void read() {
    connection->read([weak = weak_from_this(), mine = turn](std::error_code error, std::string_view bytes) {
      const auto self = weak.lock();
      if (!self || self->turn != mine) return;
      if (error) return self->next("the connection was lost: " + error.message());
      self->received(bytes);
    });
  }

  void received(std::string_view bytes) {
    reply.append(bytes);
    if (reply.size() > kLongestAnswer) return next("its answer is too long for an address");
    const resp::DecodeResult decoded = resp::decode(reply);
    if (decoded.status == resp::DecodeResult::Status::kIncomplete) return read();
    if (!decoded.ok()) return next("its answer is no RESP: " + decoded.error);
    const resp::Value& value = decoded.value;
    if (value.is_error()) return next("it says " + value.text);
    if (value.is_null()) return next("it watches no primary of that name");
    const auto port = value.children.size() == 2 ? port_of(value.children[1].text) : std::nullopt;
    if (!port || value.children[0].text.empty()) return next("its answer is no address");
    found({value.children[0].text, *port});
  }

  void refused(const base::Error& error) {
    if (error.code == kLoginNeeded)
      return next("it wants a password and none is configured (upstream.sentinel_password_file)");
    // The message begins with the sentinel's address.
    const std::string prefix = options.sentinels[index].text() + ": ";
    next(error.message.starts_with(prefix) ? error.message.substr(prefix.size()) : error.message);
  }

  void next(const std::string& cause) {
    failures += (failures.empty() ? "" : "; ") + options.sentinels[index].text() + ": " + cause;
    end_turn();
    ask_next();
  }

  // The connection's own handler may be running: it is destroyed a turn later.
  void end_turn() {
    ++turn;
    share.cancel();
    if (connection) loop.post([old = std::shared_ptr<Connection>(std::move(connection))] {});
  }

  void found(const Address& primary) {
    end_turn();
    where->told(primary, index, asked_at, base::Clock::steady().now());
    auto call = std::move(done);
    if (call) call(primary);
  }

  void give_up() {
    auto call = std::move(done);
    if (call)
      call(base::Error{"no sentinel knows the primary (upstream.sentinels, upstream.master): " + failures,
                       kNotResolved});
  }

  base::Loop& loop;
  const std::shared_ptr<Whereabouts> where;
  const SentinelOptions& options;
  const std::size_t first;
  const base::TimePoint until;
  base::Timer share;
  Done done;
  std::size_t asked = 0;
  std::size_t index = 0;
  // Handlers of an earlier sentinel find another number.
  std::uint64_t turn = 0;
  std::unique_ptr<Connection> connection;
  base::TimePoint asked_at{};
  std::string command;
  std::string reply;
  std::string failures;
};

SentinelQuery::SentinelQuery(base::Loop& loop, std::shared_ptr<Whereabouts> where, base::Duration limit, Done done)
    : impl_(std::make_shared<Impl>(loop, std::move(where), limit, std::move(done))) {
  impl_->ask_next();
}

SentinelQuery::~SentinelQuery() {
  impl_->done.reset();
  impl_->end_turn();
}

}  // namespace keyferry::upstream
