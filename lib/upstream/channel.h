#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "resp/reply_scanner.h"
#include "upstream/connection.h"

namespace keyferry::upstream {

/// How a reply was lost.
enum class Lost : std::uint8_t {
  /// The command never reached a connection: it has not run.
  kNotSent,
  /// It was written, wholly or in part, and no reply came: it may have run.
  kMayHaveRun,
};

/// Receives the replies of commands sent through a Channel, in the order of that sink's sends. Called on the worker's thread, never from inside
/// Channel::send(). The sink must live until every tag it sent has ended with `last` or on_reply_lost().
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  /// The next raw bytes of the reply to `tag`; `last` with the final ones. False: the sink has no room now, the channel stops reading until
  /// resume() — allowed only while channel.retired(), as a shared channel is never left unread for one slow client.
  virtual bool on_reply(std::uint64_t tag, std::string_view bytes, bool last) = 0;
  /// No (further) bytes will come. `reason` is one sentence for the client; `begun` if a part of the reply was already given.
  virtual void on_reply_lost(std::uint64_t tag, Lost lost, bool begun, std::string_view reason) = 0;
};

/// A multiplexed connection: commands of many local clients, replies in order (design: Channel). Belongs to its worker's thread. Connects by
/// itself when made, and keeps what is sent meanwhile, up to options.timeout. It never connects twice: a dead channel is replaced by its pool.
class Channel {
 public:
  Channel(base::Loop& loop, const ConnectOptions& options);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// One whole command in RESP; copied. All commands of one turn of the loop leave in one write.
  void send(std::string_view command, ReplySink& sink, std::uint64_t tag);
  /// After a sink said false.
  void resume();

  /// Takes new commands: not dead and not retired.
  bool accepts() const;
  /// A reply of more than 64 KiB is arriving: it takes nothing new and closes when all it owes is delivered (design: one long reply).
  bool retired() const;
  bool dead() const;
  /// Replies owed.
  std::size_t pending() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace keyferry::upstream
