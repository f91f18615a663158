#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "fabric/fabric.h"
#include "resp/value.h"
#include "transfer/blob_command.h"
#include "transfer/dialect.h"
#include "transfer/states.h"
#include "upstream/connection.h"

namespace keyferry::transfer {

/// What came of a command on a lane: a whole reply, or why there is none.
struct LaneReply {
  std::optional<resp::Value> value;
  /// Without a value: the reason for fences_total (a literal), and a sentence for the client.
  const char* reason = "";
  std::string text;
};

/// Why a lane went out of service without a transfer on it.
struct LaneFailure {
  enum class Kind : std::uint8_t {
    /// No connection to the server.
    kUnreachable,
    /// The fabric gave no endpoint.
    kNoEndpoint,
    /// BLOB.RDMA_HELLO got an error reply: there is no session (C2).
    kRefused,
    /// BLOB.RDMA_HELLO was lost or unreadable, or its addresses could not be inserted.
    kUnsettled,
    /// It was idle and its connection ended, or something came that nobody asked for.
    kIdleLost,
  };
  Kind kind{};
  /// kRefused, kNoEndpoint: the reason for fallback_total (a literal).
  const char* reason = "";
  std::string text;
};

struct LaneGroup;

/// What a lane is made of: one of the domains, what the server seems to speak, and whose it is.
struct LaneSetup {
  /// The domain's place in the engine's list.
  std::size_t nic = 0;
  fabric::Fabric& fabric;
  const Dialect& dialect;
  std::shared_ptr<LaneGroup> group;
};

/// One RESP connection that does one BLOB.RDMA_HELLO, and one fabric endpoint: the blast radius of a transfer. Opens
/// itself, carries one command at a time, and is closed for good by whatever casts doubt on it. Knows nothing of
/// leases. Engine's thread only; always held by a shared_ptr. Answers of the fabric and the connection that come late
/// find the lane gone or in a state that ignores them.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  /// Calls come from the loop or from inside the lane's own calls; the lane's state is settled by then.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Also for the first state, from kClosed.
    virtual void lane_moved(Lane& lane, LaneState from, LaneState to) = 0;
    /// HELLO is through, or release() was called.
    virtual void lane_idle(Lane& lane) = 0;
    /// Idle again after check(): the server answered.
    virtual void lane_alive(Lane& lane) = 0;
    /// It is draining by its own decision.
    virtual void lane_failed(Lane& lane, const LaneFailure& failure) = 0;
    /// Its endpoint is closed, or could not be; nothing more comes from it. From the loop only.
    virtual void lane_closed(Lane& lane) = 0;
    /// False for the address of an endpoint that was fenced a moment ago: pieces still queued at the server would find
    /// it (C9, R87).
    virtual bool may_use_address(const std::string& address) = 0;
    virtual void address_fenced(const std::string& address) = 0;
  };

  Lane(base::Loop& loop, LaneSetup setup, const upstream::ConnectOptions& options, std::uint64_t number, Owner& owner);
  ~Lane();

  void start();

  /// Idle: asks by a PING, or by AUTH where the password is not current any more (R58), whether the connection still
  /// works. Any reply will do; without one in time it is replaced.
  void check();
  /// Idle to busy: its caller alone uses it until release(), replace() or fence().
  void claim();
  /// Busy: writes a command and waits for its reply. `done` runs once, from the loop or from interrupt(); then one of
  /// the four calls below or exchange() again has to follow at once. While a command is out, the fabric is owed for it
  /// (C4).
  void exchange(std::string command, base::UniqueFunction<void(LaneReply)> done);
  /// Busy, reply trusted: idle again.
  void release();
  /// Busy, reply trusted, but the connection is of no more use.
  void replace(const char* why);
  /// Busy, and the server may still touch memory: closes the connection and then the endpoint. `confirmed` runs with
  /// success when nothing can land any more, before lane_closed().
  void fence(base::UniqueFunction<void(base::Result<void>)> confirmed);
  /// Busy: the command's `done` is told that no reply came, with this reason.
  void interrupt(const char* reason, std::string text);
  /// Not busy: closes it in order.
  void retire();

  bool login_is_old() const { return options_.login_is_old(); }
  /// It may lead to the wrong server by now (upstream::Whereabouts).
  bool misplaced() const { return connection_ && connection_->options().place_is_old(); }
  LaneState state() const { return machine_.state(); }
  std::uint64_t number() const { return number_; }
  std::uint64_t transfers() const { return transfers_; }
  /// The server's id of its connection, 0 if it told none or there is none.
  std::uint64_t server_id() const { return connection_ ? connection_->client_id() : 0; }
  std::size_t nic() const { return setup_.nic; }
  fabric::Fabric& fabric() const { return setup_.fabric; }
  const Dialect& dialect() const { return setup_.dialect; }
  LaneGroup& group() const { return *setup_.group; }
  base::TimePoint made() const { return made_; }
  base::TimePoint entered() const { return entered_; }
  /// When the last command had left, as far as the connection knows.
  base::TimePoint written_at() const { return written_at_; }

 private:
  void move(LaneState to);
  void connected(base::Result<std::unique_ptr<upstream::Connection>> result);
  void open_endpoint();
  void endpoint_opened(base::Result<fabric::Endpoint> result);
  void hello();
  void hello_answered(const resp::Value& reply);
  void peers_inserted(base::Result<void> result);
  void write(std::string text);
  void written(std::error_code error);
  void read();
  void received(std::error_code error, std::string_view bytes);
  void reply_complete(resp::Value value);
  void deliver(resp::Value value);
  void broken(const char* reason, std::string text);
  void fail(LaneFailure failure);
  void finish(LaneReply reply);
  void close_connection();
  void close_endpoints();
  void endpoint_closed(base::Result<void> result);
  void closed();
  void lower_owed();
  template <typename Callable>
  auto guarded(Callable callable);

  base::Loop& loop_;
  const LaneSetup setup_;
  upstream::ConnectOptions options_;
  std::uint64_t number_;
  Owner& owner_;
  StateMachine<LaneRules> machine_{LaneState::kConnecting};
  base::TimePoint made_;
  base::TimePoint entered_;
  base::TimePoint written_at_;
  std::uint64_t transfers_ = 0;

  std::unique_ptr<upstream::Connection> connection_;
  /// The last is the lane's own; those before it were refused by may_use_address() and are kept open so that their
  /// address is not given again.
  std::vector<fabric::Endpoint> endpoints_;
  bool opening_ = false;
  std::size_t closing_ = 0;
  base::Result<void> close_result_;
  /// For a HELLO's or a PING's reply.
  base::Timer answer_timer_;

  /// Bytes of the reply so far; bounded.
  std::string buffer_;
  bool awaiting_ = false;
  bool writing_ = false;
  /// A reply that came before its command's write was reported as done.
  std::optional<resp::Value> early_;
  /// What ended the connection after a reply that was not looked at yet.
  std::string broken_after_reply_;
  base::UniqueFunction<void(LaneReply)> done_;
  base::UniqueFunction<void(base::Result<void>)> confirmed_;
  bool owed_ = false;
};

}  // namespace keyferry::transfer
