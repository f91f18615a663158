#include "upstream/rdma_window.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "upstream/rdma_message.h"

namespace keyferry::upstream {

namespace {

/// The server as valkey-over-rdma spec 3 describes it, as simply as can be: a buffer, receives that it posts anew only
/// when it polls, a stream of bytes that it has read. What crosses arrives in order and at the time that the test
/// chooses.
class ReferencePeer {
 public:
  static constexpr std::uint64_t kReceives = 1024;
  struct Work {
    RdmaSendLedger::Data data;
    std::string bytes;
    bool probe = false, control = false;
  };

  explicit ReferencePeer(std::size_t window) : buffer_(window, '\0') {}

  /// The request reaches it: bytes land, and a receive is used up. Nothing of that waits for the server's program.
  void execute(const Work& work) {
    if (!work.control) {
      ASSERT_LE(work.data.window_offset + work.bytes.size(), buffer_.size()) << "written past the window";
      std::memcpy(buffer_.data() + work.data.window_offset, work.bytes.data(), work.bytes.size());
    }
    if (!work.control && !work.data.notify) return;
    ASSERT_LT(unpolled_.size(), kReceives) << "the queue pair dies: no receive is posted";
    unpolled_.push_back(work);
  }

  /// The program comes by. Returns the answers to probes; `announces` if the buffer was read to its end.
  std::size_t poll(bool& announces) {
    std::size_t answers = 0;
    for (; !unpolled_.empty(); unpolled_.pop_front()) {
      const Work& work = unpolled_.front();
      if (work.probe) ++answers;
      if (!work.control) readable_ += work.data.immediate;
    }
    EXPECT_LE(readable_, buffer_.size()) << "told of more than fits";
    read += buffer_.substr(taken_, readable_ - taken_);
    taken_ = readable_;
    if (readable_ == buffer_.size()) {
      readable_ = taken_ = 0;
      announces = true;
    }
    return answers;
  }

  std::string read;

 private:
  std::string buffer_;
  std::deque<Work> unpolled_;
  std::size_t readable_ = 0, taken_ = 0;
};

/// One connection with everything that can happen in any order: the application writes pieces of any size, the network
/// moves requests, completions come late, the server polls when it likes.
void run_interleavings(std::uint64_t seed, std::size_t window, RdmaSendLedger::Limits limits) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  RdmaSendLedger ledger(limits);
  ReferencePeer peer(window);
  std::string ring(limits.ring, '\0');
  std::string sent;
  std::size_t waiting = 0;  // bytes that the application has handed over and the ledger has not taken
  char next = 0;
  std::deque<ReferencePeer::Work> wire;  // posted, not executed
  std::vector<std::uint64_t> executed;   // signalled requests whose completion is to come
  std::deque<std::uint64_t> answers;     // to probes
  bool announcement = true;              // the first one is on its way
  const std::size_t total = 12 * window + 20'000;

  const auto post = [&](const RdmaSendLedger::Data& data) {
    std::string bytes;
    for (std::size_t i = 0; i < data.bytes; ++i) {
      ring[(data.ring_offset + i) % limits.ring] = next;
      bytes += next++;
    }
    sent += bytes;
    waiting -= bytes.size();
    wire.push_back({data, bytes});
    ASSERT_LE(ledger.in_queue(), limits.queue);
  };
  const auto write = [&] {
    if (const auto data = ledger.data(waiting)) post(*data);
    if (const auto notice = ledger.notice()) post(*notice);
    if (ledger.probe_wanted()) {
      if (const auto place = ledger.control(RdmaSendLedger::Kind::kProbe))
        wire.push_back({{place->number, 0, 0, 0, false, 0, place->signal}, {}, true, true});
    }
  };
  const auto move_one = [&] {
    if (wire.empty()) return;
    // The ring must still hold what was posted: it is read only now.
    const ReferencePeer::Work& work = wire.front();
    for (std::size_t i = 0; i < work.bytes.size(); ++i)
      ASSERT_EQ(ring[(work.data.ring_offset + i) % limits.ring], work.bytes[i]) << "overwritten before completion";
    peer.execute(work);
    if (work.data.signal) executed.push_back(work.data.number);
    wire.pop_front();
  };
  const auto poll = [&] {
    bool announces = false;
    const std::size_t count = peer.poll(announces);
    for (std::size_t i = 0; i < count; ++i) ledger.probe_answered();
    announcement = announcement || announces;
  };

  std::size_t idle_rounds = 0;
  while (peer.read.size() < total) {
    const std::size_t before = peer.read.size();
    switch (below(6)) {
      case 0:
        if (sent.size() + waiting < total) waiting += std::min(below(2 * window) + 1, total - sent.size() - waiting);
        write();
        break;
      case 1:  // many small commands, each in a write of its own
        for (int i = 0; i < 300 && sent.size() + waiting < total; ++i) {
          ++waiting;
          write();
        }
        break;
      case 2:
        for (std::size_t i = below(600); i > 0 && !wire.empty(); --i) move_one();
        break;
      case 3:
        if (!executed.empty()) {
          const std::size_t upto = below(executed.size()) + 1;
          for (std::size_t i = 0; i < upto; ++i) ledger.completed(executed[i]);
          executed.erase(executed.begin(), executed.begin() + static_cast<std::ptrdiff_t>(upto));
        }
        write();
        break;
      case 4:
        if (below(8) == 0) poll();  // the server is busy most of the time
        break;
      case 5:
        if (std::exchange(announcement, false)) ledger.announced(static_cast<std::uint32_t>(window));
        write();
        break;
    }
    if (::testing::Test::HasFatalFailure()) return;
    idle_rounds = peer.read.size() == before ? idle_rounds + 1 : 0;
    ASSERT_LT(idle_rounds, 20'000U) << "nothing moves any more, after " << peer.read.size() << " bytes";
  }
  EXPECT_EQ(peer.read, sent);
}

TEST(RdmaSendLedger, R61_any_interleaving_keeps_order_window_ring_queue_and_the_peers_receives) {
  std::uint64_t seed = 1;
  for (const std::size_t window : {64U, 1'000U, 4'096U, 70'000U}) {
    for (const std::size_t ring : {64U, 1'024U, 65'536U}) {
      for (int i = 0; i < 6; ++i) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", window " + std::to_string(window) + ", ring " +
                     std::to_string(ring));
        run_interleavings(seed++, window, {.ring = ring});
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// Commands of one byte, each posted by itself, as long as they notify; completions come at once.
std::size_t notified(RdmaSendLedger& ledger, std::size_t most) {
  std::size_t count = 0;
  while (count < most) {
    const auto data = ledger.data(1);
    if (!data || !data->notify) break;
    ++count;
    ledger.completed(data->number);
  }
  return count;
}

TEST(RdmaSendLedger, a_completion_is_no_proof_that_the_server_polled) {
  RdmaSendLedger ledger({.ring = 65'536});
  ledger.announced(1 << 20);
  EXPECT_EQ(notified(ledger, 5'000), 512U);
  // Plain WRITEs go on; one notice makes all of them readable once there is proof.
  for (int i = 0; i < 700; ++i) {
    const auto data = ledger.data(1);
    ASSERT_TRUE(data);
    EXPECT_FALSE(data->notify);
    ledger.completed(data->number);
  }
  EXPECT_FALSE(ledger.notice());
  ASSERT_TRUE(ledger.probe_wanted());
  ASSERT_TRUE(ledger.control(RdmaSendLedger::Kind::kProbe));
  EXPECT_FALSE(ledger.probe_wanted()) << "one at a time";
  ledger.probe_answered();
  const auto notice = ledger.notice();
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->bytes, 0U);
  EXPECT_EQ(notice->immediate, 701U) << "the one that found no credit, and the 700";
}

TEST(RdmaSendLedger, several_replies_that_leave_together_prove_no_more_than_one) {
  RdmaSendLedger ledger({.ring = 65'536});
  ledger.announced(1 << 20);
  ASSERT_TRUE(ledger.control(RdmaSendLedger::Kind::kAnnounce));
  EXPECT_EQ(notified(ledger, 5'000), 511U);
  // The first says that our announcement was read; what was sent after it may still lie there.
  for (int i = 0; i < 10; ++i) ledger.peer_wrote();
  EXPECT_EQ(ledger.unproven(), 511U);
}

TEST(RdmaSendLedger, a_window_announced_anew_proves_what_filled_the_old_one_and_no_more) {
  RdmaSendLedger ledger({.ring = 65'536});
  ledger.announced(100);
  EXPECT_EQ(notified(ledger, 5'000), 100U);
  EXPECT_FALSE(ledger.data(1)) << "never past the length";
  ASSERT_TRUE(ledger.control(RdmaSendLedger::Kind::kOther));
  EXPECT_EQ(ledger.unproven(), 101U);
  ledger.announced(100);
  EXPECT_EQ(ledger.unproven(), 1U);
  EXPECT_EQ(ledger.window_left(), 100U);
}

TEST(RdmaSendLedger, a_message_that_does_not_fit_is_cut_at_the_very_end_of_the_window) {
  RdmaSendLedger ledger({.ring = 65'536});
  ledger.announced(1'000);
  const auto first = ledger.data(999);
  ASSERT_TRUE(first);
  const auto head = ledger.data(50);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->window_offset, 999U);
  EXPECT_EQ(head->bytes, 1U);
  EXPECT_FALSE(ledger.data(49));
  ledger.announced(1'000);
  const auto tail = ledger.data(49);
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail->window_offset, 0U);
  EXPECT_EQ(tail->bytes, 49U);
}

TEST(RdmaSendLedger, announcements_and_probes_find_a_place_when_data_finds_none) {
  RdmaSendLedger ledger({.ring = 65'536});
  ledger.announced(1 << 20);
  EXPECT_EQ(notified(ledger, 5'000), 512U);
  EXPECT_FALSE(ledger.control(RdmaSendLedger::Kind::kOther));
  EXPECT_TRUE(ledger.control(RdmaSendLedger::Kind::kAnnounce));
  EXPECT_TRUE(ledger.control(RdmaSendLedger::Kind::kProbe));
}

TEST(RdmaReceiveWindow, is_announced_anew_only_when_it_was_read_to_its_very_end) {
  RdmaReceiveWindow window(100);
  EXPECT_TRUE(window.arrived(60));
  EXPECT_FALSE(window.take(60));
  EXPECT_EQ(window.offset(), 60U);
  EXPECT_TRUE(window.arrived(40));
  EXPECT_FALSE(window.take(39));
  EXPECT_EQ(window.readable(), 1U);
  EXPECT_TRUE(window.take(1));
  EXPECT_EQ(window.offset(), 0U);
  EXPECT_EQ(window.readable(), 0U);
}

TEST(RdmaReceiveWindow, a_server_that_tells_of_more_than_the_buffer_holds_is_found_out) {
  RdmaReceiveWindow window(100);
  EXPECT_TRUE(window.arrived(60));
  EXPECT_FALSE(window.arrived(41));
  EXPECT_FALSE(window.arrived(0xffff'ffff));
  EXPECT_TRUE(window.arrived(40));
}

TEST(RdmaMessage, has_the_32_bytes_of_the_protocol) {
  const RdmaMessage announcement{.opcode = RdmaMessage::Opcode::kRegisterXferMemory,
                                 .address = 0x0102030405060708,
                                 .length = 0x11121314,
                                 .key = 0x21222324};
  const auto bytes = encode(announcement);
  const std::string expected(
      "\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
      "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x21\x22\x23\x24",
      32);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), expected);
  EXPECT_EQ(decode(bytes), announcement);

  const RdmaMessage feature{.opcode = RdmaMessage::Opcode::kSetClientFeature, .select = 0x3132, .features = 0x41};
  EXPECT_EQ(decode(encode(feature)), feature);
  EXPECT_EQ(encode(feature)[3], std::byte{0x32});
  EXPECT_EQ(encode(feature)[31], std::byte{0x41});
  EXPECT_EQ(decode(encode(RdmaMessage{})), RdmaMessage{});
}

TEST(RdmaMessage, another_length_and_an_unknown_opcode_are_refused) {
  auto bytes = encode(RdmaMessage{});
  EXPECT_FALSE(decode(std::span(bytes).first(31)));
  EXPECT_FALSE(decode({}));
  bytes[1] = std::byte{4};
  EXPECT_FALSE(decode(bytes));
}

}  // namespace

}  // namespace keyferry::upstream
