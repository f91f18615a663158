#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/operation.h"
#include "gateway/reply_slots.h"
#include "resp/reply_scanner.h"
#include "upstream/channel.h"

namespace keyferry::gateway {

/// MGET of which a key stands under `transfer.offload`. It asks which of them hold large objects, then fetches in
/// order: neighbours that don't by one MGET whose elements are passed on, each object by a BlobGet of its own, straight
/// out of its lease. So the memory it takes is bounded, and the values are not all of one moment as they are in a
/// single MGET (lib/gateway/OFFLOAD.md). Belongs to the worker's thread.
class OffloadMget final : public Operation, public upstream::ReplySink {
 public:
  struct Key {
    std::string name;
    /// It stands under a prefix.
    bool offloaded = false;
  };
  OffloadMget(Session& session, SlotTag tag, std::vector<Key> keys);
  ~OffloadMget() override;

  /// Also when one object is delivered: goes on behind it.
  void start() override;
  void client_gone() override;
  void output_drained() override;

  bool on_reply(std::uint64_t tag, std::string_view bytes, bool last) override;
  void on_reply_lost(std::uint64_t tag, upstream::Lost lost, bool begun, std::string_view reason) override;

 private:
  class Element;
  static constexpr std::uint64_t kNoObject = 0;

  void ask_batch();
  void info_replied(std::size_t index, std::string_view bytes, bool last);
  void fetch_run();
  void fetch_object();
  void run_replied(std::string_view bytes, bool last);
  void begin_reply();
  void fail(std::string_view text);
  void end();

  SlotTag tag_;
  std::vector<Key> keys_;
  /// Of each key that was asked for: its object's length, or kNoObject.
  std::vector<std::uint64_t> lengths_;
  /// The first key that was not asked for yet; the next that is to be fetched.
  std::size_t asked_ = 0;
  std::size_t next_ = 0;
  std::size_t run_end_ = 0;
  std::size_t owed_ = 0;
  bool fetching_ = false;
  bool begun_ = false;
  bool gone_ = false;
  bool ended_ = false;
  bool paused_ = false;
  /// The first line of a run's reply is over: what follows are elements.
  bool in_elements_ = false;
  std::string reply_;
  /// What ended it while an object was fetched.
  std::string error_;
  std::shared_ptr<upstream::Channel> channel_;
};

}  // namespace keyferry::gateway
