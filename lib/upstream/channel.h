#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/loop.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// How a reply was lost.
enum class Lost : std::uint8_t {
  /// The command never reached a connection: it has not run.
  kNotSent,
  /// It was written, wholly or in part, and no reply came: it may have run.
  kMayHaveRun,
};

/// Whether the server may hold a command back, and with it all that follows on its connection, while it answers others:
/// CLIENT PAUSE WRITE and a failover do so with what writes or goes to replicas.
enum class Access : std::uint8_t { kReads, kWrites };

/// Receives the replies of commands sent through a Channel, in the order of that sink's sends. Called on the worker's
/// thread, never from inside Channel::send(). The sink must live until every tag it sent has ended with `last` or
/// on_reply_lost(), or until the channel is destroyed. Either call may send, and may drop the last reference to the
/// channel.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  /// The next raw bytes of the reply to `tag`; `last` with the final ones. The view is valid during the call. False:
  /// the sink has no room now, the channel stops reading until resume() — meant for channel.retired() only, as a shared
  /// channel is never left unread for one slow client; a channel that is told so earlier retires there and then.
  virtual bool on_reply(std::uint64_t tag, std::string_view bytes, bool last) = 0;
  /// No (further) bytes will come. `reason` is one sentence for the client; `begun` if a part of the reply was already
  /// given.
  virtual void on_reply_lost(std::uint64_t tag, Lost lost, bool begun, std::string_view reason) = 0;
};

/// A multiplexed connection: commands of many local clients, replies in order (design: Channel). Belongs to its
/// worker's thread. Connects by itself when made, and keeps what is sent meanwhile, up to options.timeout. It never
/// connects twice: a dead channel is replaced by its pool.
///
/// Memory: it copies what is sent until the server has taken it and sets no bound of its own: the sinks do (design:
/// client_buffer, total_buffer stop reading from the clients). Replies are not kept: what has been read (64 KiB) is
/// handed out before more is read. Destroyed while replies are owed: the connection is closed and no sink is called any
/// more.
class Channel {
 public:
  /// Longest reply that does not retire a channel: the announced length of one bulk, or the bytes of the frame so far.
  static constexpr std::uint64_t kLongReply = 64 * base::kKiB;
  /// A reply that takes this much longer than they took on average makes its channel late.
  static constexpr base::Duration kLate = std::chrono::milliseconds(5);
  /// One that takes so much longer is more than a moment's delay.
  static constexpr base::Duration kVeryLate = std::chrono::milliseconds(100);

  /// `wait`: how long to hold off before dialling (a pool's back-off); it counts towards options.timeout. `down`, if
  /// not empty: why the node is taken for down; until the connection stands commands are refused with it instead of
  /// waiting.
  Channel(base::Loop& loop, const ConnectOptions& options, base::Duration wait = base::Duration::zero(),
          std::string down = {});
  /// One that does not dial before go(): there is no connection to be had now. It dies of options.timeout, for the
  /// reason given, with the code EAGAIN.
  Channel(base::Loop& loop, const ConnectOptions& options, std::string held_because);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// One whole command in RESP; copied. All commands of one turn of the loop leave in one write. Without accepts(): it
  /// ends, after the earlier ones have, with on_reply_lost(kNotSent).
  void send(std::string_view command, ReplySink& sink, std::uint64_t tag, Access access = Access::kReads);
  /// After a sink said false. The rest comes later, not inside this call.
  void resume();

  /// It takes nothing new from now on, delivers all it owes and closes: another carrier has become better, or another
  /// server.
  void retire();

  void go();
  bool held() const;

  /// Takes new commands: not dead, not retired, not found broken.
  bool accepts() const;
  /// A reply of more than kLongReply is arriving: it takes nothing new and closes when all it owes is delivered
  /// (design: one long reply).
  bool retired() const;
  bool dead() const;
  /// The handshake is done; false again when dead.
  bool connected() const;
  /// What carries it; meaningless before connected().
  Carrier carrier() const;
  /// For whom its pool made it (ConnectOptions::with()), and what it speaks.
  const Identity& identity() const;
  resp::Protocol protocol() const;
  bool serves(const Identity& who, resp::Protocol in) const { return protocol() == in && identity() == who; }
  /// Replies owed.
  std::size_t pending() const;
  /// One of them is that of a command with Access::kWrites.
  bool owes_writes() const;
  /// The oldest reply owed takes longer than this channel's average and `by`, or there is no connection yet to owe it:
  /// something long runs before it, so whoever can goes by another channel.
  bool late(base::TimePoint now, base::Duration by = kLate) const;
  /// Inside ReplySink::on_reply(): when that command was handed to the connection.
  base::TimePoint asked_at() const;
  /// Since when the server has owed a reply without sending a byte; nothing if it owes none.
  std::optional<base::TimePoint> silent_since() const;
  /// The server's id of its connection, 0 if it told none or there is none.
  std::uint64_t client_id() const;
  /// Ends the connection as if it had been lost.
  void give_up(std::string why);

  /// For metrics; totals since it was made.
  struct Totals {
    std::uint64_t bytes_in = 0, bytes_out = 0, writes = 0;
    /// Push frames that nobody here asked for: taken out of the stream, never for a reply (R5).
    std::uint64_t pushes_dropped = 0;
  };
  Totals totals() const;

  /// For the pool: when it died (meaningless before), and whether it has been up, or was when it died, for `least`.
  base::TimePoint died_at() const;
  /// Why; empty before.
  const std::string& loss() const;
  bool lived(base::Duration least) const;
  /// It may lead to the wrong server by now (Whereabouts).
  bool misplaced() const;
  /// Logs in again if its password is not current any more (ConnectOptions::credentials). A refusal leaves it as it is.
  void refresh_login();

  /// Why it died: as a failed Connection::connect() has it; 0 while it lives, or if it was connected.
  int failure() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace keyferry::upstream
