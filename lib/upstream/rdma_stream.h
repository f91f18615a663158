#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/stream.h"
#include "upstream/rdma_link.h"
#include "upstream/rdma_message.h"
#include "upstream/rdma_settings.h"
#include "upstream/rdma_window.h"
#include "upstream/transport.h"

namespace keyferry::upstream {

/// One connection of Valkey over RDMA from its dial to the end of its farewell (valkey-over-rdma spec 3 to 5). Inside
/// of this folder; belongs to its loop's thread. Shared by the Stream that stands on it and by the handlers of its two
/// file descriptors, so that it lives until the farewell is over, at most kFarewell after close(); destroyed earlier,
/// with its loop, it ends in RdmaLink's destructor.
///
/// Bytes to send are copied into the link's ring, so a write's memory is free again at its handler. The buffer that the
/// server writes into is the link's too.
class RdmaConnection : public std::enable_shared_from_this<RdmaConnection> {
 public:
  using Done = Transport::Done;
  RdmaConnection(base::Loop& loop, const RdmaSettings& settings, const Endpoint& endpoint);
  ~RdmaConnection();

  /// `done` runs when the server has announced its buffer, or with the cause of the failure, never inside the call.
  void dial(Done done);
  /// What dial() waits for, for messages.
  std::string_view step() const;
  void call_off();

  void read(std::span<const base::MutableBytes> buffers, base::Stream::Handler handler);
  void write(std::span<const base::ConstBytes> buffers, base::Stream::Handler handler);
  void close();
  const std::string& peer() const { return peer_; }

 private:
  struct Watched;
  static constexpr base::Duration kFarewell = std::chrono::seconds(2);
  /// Idle for so long: a Keepalive goes out, so that a host that vanished shows (spec 5, R64).
  static constexpr base::Duration kKeepalive = std::chrono::seconds(3);
  enum class Phase : std::uint8_t { kAddress, kRoute, kConnect, kAnnounce, kOpen, kFarewell, kGone };
  struct Window {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
  };

  bool dialling() const { return phase_ < Phase::kOpen; }
  void watch_events();
  void watch_completions();
  void on_events();
  void on_event(const RdmaLink::Event& event);
  void forget_device();
  base::Result<void> next_step(RdmaLink::Event::Kind reached);
  void on_completions();
  bool drain();
  void spin();
  void spin_once();
  void on_completion(const ibv_wc& completion);
  void on_message(const RdmaMessage& message);
  void begin();
  void open();
  void advance();
  bool send(RdmaSendLedger::Kind kind, const RdmaMessage& message);
  void announce();
  void serve_read();
  void serve_write();
  void keep_alive();
  void fail_dial(std::string why, int code);
  void end(std::error_code error);
  void leave();
  void finish_if_done();
  void finish();

  base::Loop& loop_;
  const RdmaSettings settings_;
  Endpoint endpoint_;
  std::string peer_;
  Phase phase_ = Phase::kAddress;
  // Where it was when it ended.
  Phase reached_ = Phase::kAddress;
  Done done_;
  std::unique_ptr<RdmaLink> link_;
  std::unique_ptr<Watched> watched_;
  base::Timer keepalive_, farewell_, connect_limit_;
  RdmaSendLedger ledger_;
  RdmaReceiveWindow received_;
  bool announcement_due_ = false;
  bool sent_lately_ = false;
  bool closed_ = false;
  // While it spins no notification is asked for.
  bool spinning_ = false;
  base::TimePoint spin_until_{};
  // What the server announced last.
  std::optional<Window> window_;
  // Why the connection is over; what had arrived before is read first.
  std::error_code error_;
  std::vector<base::MutableBytes> read_buffers_;
  base::Stream::Handler read_done_;
  std::vector<base::ConstBytes> write_buffers_;
  base::Stream::Handler write_done_;
};

}  // namespace keyferry::upstream
