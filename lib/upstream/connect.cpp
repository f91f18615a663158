#include <cstdio>
#include <utility>

#include "resp/writer.h"
#include "upstream/handshake.h"
#include "upstream/sentinel_query.h"
#include "upstream/stream_connection.h"
#include "upstream/transport.h"
#include "upstream/whereabouts.h"

namespace keyferry::upstream {

namespace {

std::string in_seconds(base::Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", base::seconds(duration));
  return text;
}

// One Connection::connect() from the name to the end of the handshake. Its time limit's handler alone keeps it alive,
// the other handlers hold it weakly: so it goes with its loop, whatever is under way.
class Connecting : public std::enable_shared_from_this<Connecting> {
 public:
  Connecting(base::Loop& loop, ConnectOptions options, Connection::Callback done)
      : loop_(loop),
        options_(std::move(options)),
        done_(std::move(done)),
        limit_(loop),
        share_(loop),
        resolver_(std::make_unique<Resolver>(loop)) {
    options_.take_login();
    handshake_.emplace(options_);
  }

  // Without endpoints the name is looked up.
  void start(std::vector<Endpoint> endpoints) {
    started_ = base::Clock::steady().now();
    limit_.start(options_.timeout, [self = shared_from_this()] { self->timed_out(); });
    if (options_.where) options_.place = options_.where->number();
    if (!endpoints.empty() || !by_sentinels()) return resolve(std::move(endpoints));
    if (const auto known = options_.where->known(started_)) return lead_to(*known);
    step_ = "sentinels";
    // The primary itself needs a share of the time, too.
    sentinels_ = std::make_unique<SentinelQuery>(loop_, options_.where, options_.timeout * 2 / 3,
                                                 [weak = weak_from_this()](base::Result<Address> primary) {
                                                   const auto self = weak.lock();
                                                   if (!self || !self->done_) return;
                                                   if (!primary)
                                                     return self->fail(primary.error().message, kNotResolved);
                                                   self->lead_to(*primary);
                                                 });
  }

 private:
  bool by_sentinels() const { return options_.where && options_.where->sentinels() != nullptr; }

  void lead_to(const Address& primary) {
    named_by_ = options_.where->sentinels()->master + " at ";
    options_.address = primary;
    if (options_.rdma && options_.rdma->settings.port == 0) options_.rdma->settings.port = primary.port;
    resolve({});
  }

  void resolve(std::vector<Endpoint> endpoints) {
    step_ = "resolve";
    const bool by_rdma = options_.rdma && (only_rdma() || options_.rdma->route->well());
    if (!carry_by(by_rdma ? Carrier::kRdma : without_rdma())) return;
    if (!endpoints.empty()) {
      endpoints_ = std::move(endpoints);
      return dial();
    }
    resolver_->resolve(options_.address, [weak = weak_from_this()](base::Result<std::vector<Endpoint>> found) {
      const auto self = weak.lock();
      if (!self) return;
      if (!found) return self->fail("resolve: " + found.error().message, kNotResolved);
      self->endpoints_ = std::move(found.value());
      self->dial();
    });
  }

  Carrier without_rdma() const { return options_.tls ? Carrier::kTls : Carrier::kTcp; }
  bool only_rdma() const { return options_.only_rdma || options_.rdma->route->strict(); }
  // RDMA that does not come about, with something else to take instead.
  bool may_fall_back() const { return carrier_ == Carrier::kRdma && !only_rdma(); }

  // False: the failure is on its way.
  bool carry_by(Carrier carrier) {
    carrier_ = carrier;
    auto transport = Transport::make(loop_, options_, carrier);
    if (transport) {
      transport_ = std::move(transport.value());
      return true;
    }
    transport_.reset();
    if (may_fall_back()) return fall_back(transport.error().message);
    loop_.post(
        [weak = weak_from_this(), text = (carrier == Carrier::kTls ? "TLS: " : "RDMA: ") + transport.error().message] {
          if (const auto self = weak.lock()) self->fail(text);
        });
    return false;
  }

  bool fall_back(const std::string& why) {
    options_.rdma->route->failed(options_.address.text() + ": " + why, base::Clock::steady().now());
    return carry_by(without_rdma());
  }

  // The next address, with an even share of the time that is left, so that one that swallows everything does not use up
  // the others' turn. What follows after RDMA needs a share as well.
  void dial() {
    step_ = nullptr;
    const std::size_t left = endpoints_.size() - next_ + (may_fall_back() ? 1 : 0);
    if (left > 1) {
      const base::Duration share =
          (started_ + options_.timeout - base::Clock::steady().now()) / static_cast<base::Duration::rep>(left);
      share_.start(share, [weak = weak_from_this(), share] {
        if (const auto self = weak.lock()) self->refused("no answer within " + in_seconds(share), ETIMEDOUT);
      });
    }
    transport_->dial(endpoints_[next_], [weak = weak_from_this()](base::Result<std::unique_ptr<base::Stream>> stream) {
      const auto self = weak.lock();
      if (!self) return;
      self->share_.cancel();
      if (!stream) return self->refused(stream.error().message, stream.error().code);
      self->shake_hands(std::move(stream.value()));
    });
  }

  void refused(const std::string& cause, int code) {
    // As many as a person reads.
    constexpr std::size_t kNamed = 4;
    const Endpoint& endpoint = endpoints_[next_++];
    if (next_ <= kNamed) {
      if (!refusals_.empty()) refusals_ += "; ";
      if (endpoints_.size() > 1) refusals_ += endpoint.host() + ": ";
      refusals_ += cause;
    }
    if (next_ < endpoints_.size()) return dial();
    const std::string text = std::string(transport_->step()) + ": " + refusals_;
    if (!may_fall_back()) return fail(text, code);
    next_ = 0;
    refusals_.clear();
    if (fall_back(text)) dial();
  }

  void shake_hands(std::unique_ptr<base::Stream> stream) {
    step_ = "handshake";
    connection_ =
        std::make_unique<StreamConnection>(loop_, options_, std::move(stream), carrier_, endpoints_[next_].family());
    if (options_.bare) return finish(std::unique_ptr<Connection>(std::move(connection_)));
    // A write that fails shows at the read, which may still find the server's reason. The handler owns the bytes.
    auto request = std::make_unique<std::string>(handshake_->request());
    const base::ConstBytes bytes = base::as_bytes(*request);
    connection_->write({bytes}, [request = std::move(request)](std::error_code) {});
    read();
  }

  void read() {
    connection_->read([weak = weak_from_this()](std::error_code error, std::string_view bytes) {
      const auto self = weak.lock();
      if (!self || !self->done_) return;
      if (error) {
        std::string text = "handshake: " + stream_cause(error);
        const std::string& said = self->handshake_->last_refusal();
        if (!said.empty()) text += " after it said: " + said;
        // Its refusals have no text there (spec 4).
        if (said.empty() && self->carrier_ == Carrier::kRdma) text += " (protected-mode, or maxclients reached?)";
        return self->fail(text, said.empty() ? error.value() : kTurnedAway);
      }
      switch (self->handshake_->take(bytes)) {
        case Handshake::State::kMore:
          return self->read();
        case Handshake::State::kFailed:
          return self->fail(self->handshake_->error(), self->handshake_->error_code());
        case Handshake::State::kDone:
          self->connection_->set_client_id(self->handshake_->client_id());
          return self->finish(std::unique_ptr<Connection>(std::move(self->connection_)));
      }
    });
  }

  void timed_out() {
    const std::string_view step = step_ != nullptr ? step_ : transport_ ? transport_->step() : "TLS";
    std::string text = std::string(step) + ": no answer within " + in_seconds(options_.timeout);

    if (!refusals_.empty()) text += " (before: " + refusals_ + ")";
    fail(text, endpoints_.empty() ? kNotResolved : ETIMEDOUT);
  }

  void fail(const std::string& text, int code = 0) {
    // One that is there and would not have us is where it should be.
    const bool there = code == kTurnedAway || code == kLoginRefused || code == kLoginNeeded;
    if (by_sentinels() && !there) options_.where->wrong(options_.address);
    finish(base::Error{named_by_ + options_.address.text() + ": " + text, code});
  }

  void finish(base::Result<std::unique_ptr<Connection>> result) {
    if (!done_) return;
    if (carrier_ == Carrier::kRdma) note_rdma(result);
    limit_.cancel();
    share_.cancel();
    connection_.reset();
    transport_.reset();
    resolver_.reset();
    sentinels_.reset();
    Connection::Callback done = std::move(done_);
    done(std::move(result));
  }

  // A server that turned us away (a wrong password, say) has answered by RDMA; a name without an address says nothing.
  void note_rdma(const base::Result<std::unique_ptr<Connection>>& result) {
    RdmaRoute& route = *options_.rdma->route;
    const int code = result ? 0 : result.error().code;
    if (result || code == kTurnedAway || code == kLoginRefused || code == kLoginNeeded || code == kNotPrimary)
      return route.succeeded();
    if (options_.only_rdma || route.strict() || result.error().code != kNotResolved)
      route.failed(result.error().message, base::Clock::steady().now());
  }

  base::Loop& loop_;
  ConnectOptions options_;
  Connection::Callback done_;
  base::TimePoint started_;
  base::Timer limit_, share_;
  std::unique_ptr<Resolver> resolver_;
  std::unique_ptr<Transport> transport_;
  Carrier carrier_ = Carrier::kTcp;
  std::vector<Endpoint> endpoints_;
  std::size_t next_ = 0;
  std::unique_ptr<SentinelQuery> sentinels_;
  // For messages, once sentinels have named an address.
  std::string named_by_;
  // "sentinels", "resolve" or "handshake"; null while the transport knows.
  const char* step_ = "resolve";
  std::string refusals_;
  std::optional<Handshake> handshake_;
  std::unique_ptr<StreamConnection> connection_;
};

}  // namespace

ConnectOptions ConnectOptions::with(const Identity& who, resp::Protocol its_protocol) const {
  ConnectOptions other = *this;
  other.protocol = its_protocol;
  other.database = who.database;
  other.identity = who;
  if (!who.user.empty()) {
    if (who.database != 0) {
      other.chooser = user;
      other.chooser_password = credentials ? credentials->now().password : password;
    }
    other.user = who.user;
    other.password = who.password;
    other.authenticate = true;
    other.credentials = who.credentials;
  }
  return other;
}

void ConnectOptions::take_login() {
  if (!credentials) return;
  Credentials::Login now = credentials->now();
  password = std::move(now.password);
  login = now.number;
}

bool ConnectOptions::place_is_old() const {
  return where && where->number() != place;
}

std::string ConnectOptions::auth_command() const {
  std::string command;
  // The short form is all that a server before ACLs knows. A client's login has the long one: should its user need no
  // password any more, the server still takes any for it, and refuses the short form.
  if (user == "default" && !authenticate) {
    resp::append_command(command, {"AUTH", password});
  } else {
    resp::append_command(command, {"AUTH", user, password});
  }
  return command;
}

void Connection::connect(base::Loop& loop, const ConnectOptions& options, Callback done) {
  std::make_shared<Connecting>(loop, options, std::move(done))->start({});
}

void connect_to(base::Loop& loop, const ConnectOptions& options, std::vector<Endpoint> endpoints,
                Connection::Callback done) {
  std::make_shared<Connecting>(loop, options, std::move(done))->start(std::move(endpoints));
}

}  // namespace keyferry::upstream
