#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

// The arithmetic of Valkey over RDMA without any verbs: what may be posted now, and where its bytes stand
// (valkey-over-rdma spec 3). Inside of this folder; one owner at a time.

namespace keyferry::upstream {

/// Books of one connection's sending side. Four things bound what may be posted:
/// - the window: the peer's announced buffer is filled from offset 0 to its very end and never past it, then a new
///   announcement is awaited;
/// - the ring: our copy of the bytes stays untouched until their work request is complete;
/// - the send queue, whose places come back by the completions of those requests that were signalled;
/// - the credit: each SEND and each WRITE_WITH_IMM uses up one of the peer's receives, which it posts anew only when it
///   polls. A completion here does not say that it has, so only these count as proof: a window announced anew (it read
///   what filled the old one), the answer to a GetServerFeature, and data written into a buffer that we announced.
///   A reply alone is none: several that leave together tell nothing of what was sent after the first.
/// At the end of the credit data goes on as plain WRITEs, and one empty WRITE_WITH_IMM makes all of it readable later.
class RdmaSendLedger {
 public:
  /// Bytes of the ring; places in the send queue; SENDs and WRITE_WITH_IMMs without proof at most.
  struct Limits {
    std::size_t ring = 0;
    std::uint64_t queue = 1024;
    std::uint64_t credit = 512;
  };
  explicit RdmaSendLedger(Limits limits) : limits_(limits) {}

  /// A work request to post now: an RDMA write of `bytes` from the ring (which may wrap) to the window. `number` counts
  /// work requests from 1 and comes back in completed().
  struct Data {
    std::uint64_t number;
    std::size_t ring_offset, window_offset, bytes;
    /// With the immediate, which makes that many bytes readable; else a plain WRITE.
    bool notify;
    std::uint32_t immediate;
    bool signal;
  };
  /// The next piece of `wanted` bytes that wait; nothing while there is no room.
  std::optional<Data> data(std::size_t wanted);
  /// The empty WRITE_WITH_IMM that earlier plain WRITEs are owed, once there is credit.
  std::optional<Data> notice();

  enum class Kind : std::uint8_t { kAnnounce, kProbe, kOther };
  struct Control {
    std::uint64_t number;
    bool signal;
  };
  /// A SEND to post now. kAnnounce (RegisterXferMemory) and kProbe (GetServerFeature) may use what is kept back for
  /// them; kOther takes only what data could take as well.
  std::optional<Control> control(Kind kind);
  /// Half the credit is used without proof, and no probe is under way.
  bool probe_wanted() const { return !probe_ && unproven() >= limits_.credit / 2; }

  /// The peer announced a buffer: offset 0 again.
  void announced(std::uint32_t length);
  void probe_answered();
  /// Data came: if it is the first since our latest announcement, the peer has read that.
  void peer_wrote();
  /// A signalled request is complete, and with it all before it.
  void completed(std::uint64_t number);

  /// Bytes of the window that are still free.
  std::size_t window_left() const { return window_ - offset_; }
  std::uint64_t in_queue() const { return posted_ - completed_; }
  std::uint64_t unproven() const { return consumed_ - proven_; }

 private:
  struct Signalled {
    std::uint64_t number;
    std::uint64_t ring_end;
  };
  bool place_for_data() const;
  bool post(std::size_t bytes);
  void prove(std::uint64_t upto);

  const Limits limits_;
  std::size_t window_ = 0;
  std::size_t offset_ = 0;
  // Written, but not made readable yet.
  std::uint32_t unnotified_ = 0;
  // Work requests and bytes of the ring since the start, and how far they are complete.
  std::uint64_t posted_ = 0, completed_ = 0;
  std::uint64_t ring_posted_ = 0, ring_completed_ = 0;
  std::uint64_t unsignalled_ = 0, unsignalled_bytes_ = 0;
  std::deque<Signalled> signalled_;
  // Receives of the peer that were used up since the start, and how many of them it is known to have polled.
  std::uint64_t consumed_ = 0, proven_ = 0;
  // What consumed_ was when the window's last byte was made readable, at the probe, and at our announcement.
  std::optional<std::uint64_t> filled_, probe_, announced_;
};

/// Books of one connection's receiving side: how far the peer has filled the buffer that we announced, and how far that
/// is read. The length never changes: a second announcement with another one crashes Valkey 9.1.2 (spec 3).
class RdmaReceiveWindow {
 public:
  explicit RdmaReceiveWindow(std::size_t length) : length_(length) {}
  /// The peer made that many more bytes readable. False: more than the buffer holds, which ends the connection.
  bool arrived(std::uint64_t bytes);
  std::size_t readable() const { return arrived_ - read_; }
  /// Where the first readable byte stands.
  std::size_t offset() const { return read_; }
  /// Takes bytes that are readable. True: the buffer was read to its very end, is empty again, and must be announced
  /// anew.
  bool take(std::size_t bytes);

 private:
  const std::size_t length_;
  std::size_t arrived_ = 0;
  std::size_t read_ = 0;
};

}  // namespace keyferry::upstream
