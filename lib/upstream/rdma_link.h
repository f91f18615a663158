#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "upstream/rdma_message.h"
#include "upstream/rdma_settings.h"
#include "upstream/rdma_window.h"

namespace keyferry::upstream {

/// One connection's objects of rdma_cm and ibverbs, in the order that Valkey over RDMA asks for (spec 4). Posts and
/// polls; decides nothing. No call waits, but for the destructor. Inside of this folder; belongs to its loop's thread.
/// Messages of errors name the cause and, where there is one, the fix.
class RdmaLink {
 public:
  /// In wc.wr_id: a receive, the rest is its slot; without it the number of what was sent. (An error leaves no other
  /// trace of which it was.)
  static constexpr std::uint64_t kReceiveMark = std::uint64_t{1} << 63;

  /// What the connection manager says.
  struct Event {
    enum class Kind : std::uint8_t { kAddress, kRoute, kEstablished, kDisconnected, kGone, kFailed };
    Kind kind;
    /// For kFailed and kGone: why, in words.
    std::string text;
  };

  /// Fails where the host has no RDMA.
  static base::Result<std::unique_ptr<RdmaLink>> open();
  /// Disconnects if that was not done, waits for the peer's answer and for what is still in the queues, at most
  /// kFarewell milliseconds, and frees everything in order (spec 4: a client that vanishes has crashed servers, R63).
  ~RdmaLink();
  RdmaLink(const RdmaLink&) = delete;
  RdmaLink& operator=(const RdmaLink&) = delete;

  int event_fd() const { return events_->fd; }
  /// After prepare().
  int completion_fd() const { return completions_->fd; }

  /// The three steps of connecting; each ends with an event.
  base::Result<void> resolve(const sockaddr* address, int milliseconds);
  base::Result<void> route(int milliseconds);
  /// Before connect(): a buffer for what the peer writes and as much for what is sent; all receives are posted.
  base::Result<void> prepare(const RdmaSettings& settings);
  base::Result<void> connect();
  /// The next event that is there now.
  std::optional<Event> next_event();

  /// Takes the notifications that are there and asks for the next one; poll() must follow, until it gives nothing
  /// (R61). False: the device is gone.
  bool arm();
  /// Takes the notifications that are there and asks for no other: for who goes on to poll by himself. False: the
  /// device is gone.
  bool take_notifications();
  /// Completions that are there now.
  std::span<const ibv_wc> poll();

  /// False: the queue pair takes nothing any more.
  bool post_data(const RdmaSendLedger::Data& data, std::uint64_t remote_address, std::uint32_t remote_key);
  bool post_control(const RdmaSendLedger::Control& control, const RdmaMessage& message);
  /// Gives the receive of that slot back.
  bool post_receive(std::uint64_t slot);

  base::MutableBytes receive_buffer() const { return memory_.subspan(0, buffer_); }
  base::MutableBytes ring() const { return memory_.subspan(buffer_, buffer_); }
  /// The control message that came in that receive.
  std::span<const std::byte> message(std::uint64_t slot) const;
  std::uint32_t receive_key() const { return receive_region_->rkey; }

  /// Says farewell, if there was a connection; completions of what was posted come, as errors, and the event
  /// kDisconnected.
  void disconnect();
  /// Every receive has come back and the peer has answered, or nothing was ever connected: nothing more will come.
  bool drained() const { return !established_ || (receives_ == 0 && farewell_); }
  /// The peer takes too long, or the device is gone: the destructor waits for nothing.
  void abandon() { established_ = false; }
  /// A receive's completion was seen; only for drained().
  void receive_ended() { --receives_; }

 private:
  static constexpr int kFarewell = 200;
  RdmaLink() = default;
  base::Result<void> map(std::size_t buffer);
  base::Error failed(const std::string& what, int number) const;

  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_mr* receive_region_ = nullptr;
  ibv_mr* send_region_ = nullptr;
  // One mapping: the receive buffer, the ring, then the slots of received and of sent control messages.
  base::MutableBytes memory_;
  std::size_t buffer_ = 0;
  // Places in the send queue and receives posted (spec 3), and the bytes of one slot for each.
  std::uint32_t depth_ = 0;
  std::size_t slots_ = 0;
  std::array<ibv_wc, 64> polled_;
  std::uint32_t receives_ = 0;
  bool established_ = false;
  bool disconnected_ = false;
  bool farewell_ = false;
};

}  // namespace keyferry::upstream
