#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_function.h"
#include "gateway/reply_slots.h"
#include "gateway/subscriptions.h"
#include "resp/reply_scanner.h"
#include "upstream/connection.h"
#include "upstream/pools.h"

namespace keyferry::gateway {

class Session;

/// What the reply to a command tells of its connection.
enum class PinEffect : std::uint8_t {
  kNone,
  /// Our own command: its reply is for nobody.
  kSilent,
  /// It may take for ever (R23).
  kBlocking,
  kMulti,
  kExec,
  kDiscard,
  kWatch,
  kUnwatch,
  kReset,
  /// SUBSCRIBE and its like: one frame for each channel is its answer (PinPlan::subscribes), or an error.
  kSubscribes,
  /// MONITOR: from its reply on, lines that are nobody's reply come between the others.
  kMonitors,
  /// What RESET does not take back: the connection is lent to nobody else (R13, R15).
  kSpoils,
  /// What else changes the connection.
  kChanges,
  /// CLIENT REPLY before it silences: what follows waits.
  kSilences,
  /// CLIENT REPLY ON behind OFF or SKIP: no reply comes if the user may no more.
  kSpeaks,
  /// HELLO: as kChanges, and what follows waits for its reply, as that may be the last in this protocol.
  kGreets,
};

/// What becomes of a reply. Inside MULTI it all waits for the command's part of EXEC's reply.
struct PinPlan {
  PinEffect effect = PinEffect::kNone;
  /// Runs if the reply says that the command was done.
  base::Task then{};
  /// Makes what the client gets of the reply, which is held until it is whole.
  base::UniqueFunction<std::string(std::string)> rewrite{};
  Subscriptions::Wanted subscribes{};
  /// Takes the whole reply and answers the client itself.
  base::UniqueFunction<void(const std::string&)> answer{};
};

/// A connection to the server that one client has for itself: while state demands it, or for life. Commands go out in
/// order, replies and pushes come back in the server's order, byte for byte. Follows MULTI and WATCH by what the server
/// replies, so that it knows when the connection may go back (R13, R17). Owned by its session's Router, belongs to the
/// worker's thread; handlers under way keep it alive and look at its state first, as the session may be gone by then.
class Pin final : public std::enable_shared_from_this<Pin> {
 public:
  /// kControl: for a command that must get through whatever others do and whatever the client's database is (SCRIPT
  /// KILL, CLIENT KILL): nothing else goes by this connection.
  enum class Kind : std::uint8_t { kShort, kLong, kControl };
  /// Which commands have no replies (CLIENT REPLY): none, the next one, all.
  enum class Silence : std::uint8_t { kNone, kNext, kAll };
  enum class State : std::uint8_t {
    /// For a connection of its kind's quota (limits.pinned_short, limits.pinned_long, a few for control).
    kWaiting,
    kReady,
    /// There was none; see failure().
    kFailed,
    kOver
  };

  Pin(Session& session, Kind kind);
  ~Pin();

  /// Asks for the connection; Session::process() runs when there is one, or none.
  void acquire();
  State state() const { return state_; }
  const std::string& failure() const { return failure_; }
  int failure_code() const { return failure_code_; }
  /// What follows may wait long: the connection counts against that quota from now on. False: it is used up.
  bool promote();

  /// A command, whole or its beginning; copied.
  void send(std::string_view command, SlotTag tag, PinPlan plan = {});
  /// More bytes of the command sent last.
  void append(std::string_view bytes);
  /// No more should be sent now; `task` of when_room() runs once when there is room again.
  bool room() const;
  void when_room(base::Task task) { on_room_ = std::move(task); }

  bool control() const { return kind_ == Kind::kControl; }
  /// A HELLO, RESET, CLIENT REPLY or MONITOR is under way: what comes behind it meets another state.
  bool holds_up() const;
  /// It is a monitor.
  bool monitors() const { return monitors_; }
  Silence silence() const { return silence_; }
  void be_silent(Silence silence) { silence_ = silence; }
  /// Commands without a reply have not left yet.
  bool has_unsent() const { return state_ == State::kReady && (write_busy_ || !out_.empty()); }
  /// It has subscriptions, or a command is under way that may make some.
  bool subscribes() const;
  /// Replies that have not come.
  std::size_t owed() const { return owed_.size(); }
  /// What the server answers next it may never answer.
  bool blocked() const;
  /// What follows is known when owed() is 0, and a guess before.
  bool in_transaction() const { return in_multi_; }
  /// True as well while MULTI's reply has not come: a command of the gateway's own would be queued then.
  bool may_be_in_transaction() const;
  /// The client keeps it until RESET or its end.
  bool kept() const { return kept_; }
  void keep() { kept_ = true; }
  /// Logs in again where the configuration's password has changed (R58), if nothing is under way.
  void refresh_login();
  /// It leads elsewhere than a new connection would.
  bool misplaced() const { return connection_ && connection_->options().place_is_old(); }
  /// Reading waits for the client to take what it was sent.
  bool paused() const { return paused_; }

  /// Nothing is owed, nothing is being written and no read is under way: the connection can be given away.
  bool settled() const {
    return owed_.empty() && !write_busy_ && out_.empty() && !read_busy_ && push_.empty() && held_.empty();
  }
  /// Nothing is owed and nothing binds it to this client.
  bool releasable() const;
  /// The connection goes back to its pool.
  void release();
  /// The connection leaves this object, which is over; owed() must be 0. The pool is to be told of its loss.
  std::unique_ptr<upstream::Connection> take(upstream::LendingPool*& pool);
  /// Ends the connection: the client is gone.
  void close();
  void output_drained();

 private:
  struct Sent {
    SlotTag tag;
    PinPlan plan;
    /// When it was handed to a write.
    base::TimePoint asked{};
  };
  /// A command inside MULTI, by its place there, whose part of EXEC's reply tells something.
  struct Queued {
    std::size_t place;
    PinPlan plan;
  };

  upstream::LendingPool& pool() const;
  void on_connection(base::Result<std::unique_ptr<upstream::Connection>> connection);
  void flush();
  void wrote(std::error_code error);
  void receive();
  void rest();
  void take_bytes(std::string_view bytes);
  bool deliver(std::string_view piece, bool last);
  bool may_be_push() const;
  bool is_push() const;
  void take_push();
  bool client_is_behind() const;
  bool owes(PinEffect effect) const;
  bool holds_reply() const;
  void deliver_whole();
  std::string executed(std::string reply);
  void follow(PinPlan& plan);
  void replied(Sent sent);
  void lost(std::string reason);
  void end_connection();

  Session& session_;
  Kind kind_;
  State state_ = State::kWaiting;
  std::string failure_;
  int failure_code_ = 0;
  std::unique_ptr<upstream::Connection> connection_;

  std::deque<Sent> owed_;
  std::string out_;
  std::string writing_;
  bool write_busy_ = false;
  bool flush_posted_ = false;
  bool read_busy_ = false;
  bool paused_ = false;
  base::Task on_room_;

  /// Scripts may nest what they return deeper than any command does; a counter for each level is all it costs.
  resp::ReplyScanner scanner_{resp::ReplyLimits{.max_depth = 16384}};
  /// Attributes in front of a frame whose type is not known yet; what may be a push and is not complete.
  std::string held_;
  std::string push_;
  /// A reply that is held until it is whole.
  std::string whole_;
  /// The first bytes of the reply under way.
  std::string head_;
  bool begun_ = false;

  Subscriptions subscriptions_;
  std::size_t queued_ = 0;
  std::vector<Queued> in_exec_;
  bool in_multi_ = false;
  bool watching_ = false;
  bool kept_ = false;
  /// What goes back is reset first; is not lent on at all.
  bool soiled_ = false;
  bool spoilt_ = false;
  bool monitors_ = false;
  Silence silence_ = Silence::kNone;
  /// What it logged in with last.
  upstream::ConnectOptions login_;
};

}  // namespace keyferry::gateway
