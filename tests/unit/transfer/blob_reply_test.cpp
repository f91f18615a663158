#include "transfer/blob_reply.h"

#include <gtest/gtest.h>

#include "resp/decode.h"

namespace keyferry::transfer {
namespace {

ReplyOutcome classify(Op op, std::string_view wire, TrustErrorReplies trust = TrustErrorReplies::kBeforeRma,
                      bool sent_crc = false) {
  const resp::DecodeResult result = resp::decode(wire);
  EXPECT_TRUE(result.ok()) << wire;
  return classify_reply(result.value, {op, 4096, sent_crc, trust});
}
ReplyOutcome classify_error(Op op, const std::string& text, TrustErrorReplies trust = TrustErrorReplies::kBeforeRma,
                            bool sent_crc = false) {
  return classify(op, "-" + text + "\r\n", trust, sent_crc);
}
constexpr Op kBoth[] = {Op::kSet, Op::kGet};

TEST(BlobReply, SetIsStoredByOkInAnyCaseAndByNothingElse) {
  for (const char* wire : {"+OK\r\n", "+ok\r\n"}) {
    EXPECT_EQ(classify(Op::kSet, wire).verdict, Verdict::kStored);
    EXPECT_EQ(classify(Op::kSet, wire).aftermath, Aftermath::kUsable);
  }
  for (const char* wire :
       {"+QUEUED\r\n", "+OKAY\r\n", ":1\r\n", "$2\r\nOK\r\n", "$-1\r\n", "*2\r\n:9\r\n:1\r\n", "*0\r\n", "_\r\n"}) {
    EXPECT_EQ(classify(Op::kSet, wire).verdict, Verdict::kLost) << wire;
    EXPECT_EQ(classify(Op::kSet, wire).aftermath, Aftermath::kFence) << wire;
    EXPECT_STREQ(classify(Op::kSet, wire).fence_reason, "unexpected_reply") << wire;
  }
}

TEST(BlobReply, GetTakesANullInEveryForm) {
  for (const char* wire : {"$-1\r\n", "*-1\r\n", "_\r\n"}) {
    EXPECT_EQ(classify(Op::kGet, wire).verdict, Verdict::kMissing);
    EXPECT_EQ(classify(Op::kGet, wire).aftermath, Aftermath::kUsable);
  }
}

TEST(BlobReply, GetTakesAPairThatFitsTheWindow) {
  const ReplyOutcome outcome = classify(Op::kGet, "*2\r\n:4096\r\n:4294967295\r\n");
  EXPECT_EQ(outcome.verdict, Verdict::kLanded);
  EXPECT_EQ(outcome.aftermath, Aftermath::kUsable);
  EXPECT_EQ(outcome.length, 4096U);
  EXPECT_EQ(outcome.crc, 4294967295U);
}

TEST(BlobReply, GetThatOutgrewItsWindowIsFencedAndRepeated) {
  const ReplyOutcome outcome = classify(Op::kGet, "*2\r\n:4097\r\n:1\r\n");
  EXPECT_EQ(outcome.verdict, Verdict::kRepeat);
  EXPECT_EQ(outcome.text, "length");
  EXPECT_EQ(outcome.aftermath, Aftermath::kFence);
}

TEST(BlobReply, GetOfAnyOtherFormIsLostAndFenced) {
  for (const char* wire :
       {":4096\r\n", "+OK\r\n", "+QUEUED\r\n", "$3\r\nabc\r\n", "*0\r\n", "*1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n",
        "*2\r\n:-1\r\n:1\r\n", "*2\r\n:1\r\n:-1\r\n", "*2\r\n:1\r\n:4294967296\r\n", "*2\r\n$1\r\n9\r\n:1\r\n",
        "%1\r\n:9\r\n:1\r\n", "*2\r\n:1\r\n$-1\r\n"}) {
    EXPECT_EQ(classify(Op::kGet, wire).verdict, Verdict::kLost) << wire;
    EXPECT_EQ(classify(Op::kGet, wire).aftermath, Aftermath::kFence) << wire;
  }
}

TEST(BlobReply, ErrorsThatTheTcpFormGivesTooArePassedOnWhole) {
  for (const char* text : {
           "WRONGTYPE Operation against a key holding the wrong kind of value",
           "OOM command not allowed when used memory > 'maxmemory'.",
           "OOM command not allowed when used disk space > 'disk-maxmemory'.",
           "READONLY You can't write against a read only replica.",
           "LOADING Valkey is loading the dataset in memory",
           "MOVED 3999 127.0.0.1:6381",
           "ASK 3999 127.0.0.1:6381",
           "TRYAGAIN Multiple keys request during rehashing of slot",
           "CROSSSLOT Keys in request don't hash to the same slot",
           "CLUSTERDOWN The cluster is down",
           "MASTERDOWN Link with MASTER is down",
           "MISCONF Errors writing to the AOF file",
           "NOREPLICAS Not enough good replicas to write.",
           "BUSY Valkey is busy running a script.",
           "NOAUTH Authentication required.",
           "NOPERM No permissions to access a key",
           "ERR max object size exceeded",
           "ERR object length must be > 0",
           "ERR disk staging buffer pool exhausted; retry later",
           "ERR failed to set key",
           "ERR DRAM buffer pool exhausted",
           "ERR NVMe disk capacity exceeded",
       }) {
    for (const Op op : kBoth) {
      const ReplyOutcome outcome = classify_error(op, text);
      EXPECT_EQ(outcome.verdict, Verdict::kRefused) << text;
      EXPECT_EQ(outcome.text, "-" + std::string(text));
      EXPECT_EQ(outcome.aftermath, Aftermath::kUsable) << text;
    }
  }
}

TEST(BlobReply, DiskErrorsMayComeWhileOtherChunksAreMoving) {
  for (const char* text : {"ERR disk read failed", "ERR disk write failed"}) {
    EXPECT_EQ(classify_error(Op::kGet, text).verdict, Verdict::kRefused);
    EXPECT_EQ(classify_error(Op::kGet, text).aftermath, Aftermath::kFence);
  }
}

TEST(BlobReply, ErrorsThatOnlyTheRdmaFormGivesAreRepeatedWithTheirReason) {
  struct Row {
    const char* text;
    const char* reason;
    Aftermath aftermath;
  };
  for (const Row& row : {
           Row{"NOPERM User x has no permissions to run the 'blob.rdma_set' command", "noperm", Aftermath::kUsable},
           Row{"ERR memory address args must be rkey, addr, len triples", "triples", Aftermath::kUsable},
           Row{"ERR too many memory addresses (max 256)", "triples", Aftermath::kUsable},
           Row{"ERR invalid rkey", "triples", Aftermath::kUsable},
           Row{"ERR invalid memory address", "triples", Aftermath::kUsable},
           Row{"ERR invalid memory address len", "triples", Aftermath::kUsable},
           Row{"ERR invalid len", "triples", Aftermath::kUsable},
           Row{"ERR wrong number of arguments for 'blob.rdma_get' command", "dialect", Aftermath::kUsable},
           Row{"ERR client address space smaller than object length", "window", Aftermath::kUsable},
           Row{"ERR no RDMA session (call BLOB.RDMA_HELLO first)", "no_session", Aftermath::kReplaceLane},
           Row{"ERR RDMA provider unavailable on this instance", "server_no_fabric", Aftermath::kReplaceLane},
           Row{"ERR unknown command 'BLOB.RDMA_GET', with args beginning with: 'k' ", "no_module",
               Aftermath::kReplaceLane},
           Row{"ERR Unknown or disabled command 'BLOB.RDMA_GET'", "no_module", Aftermath::kReplaceLane},
           Row{"ERR RDMA write failed", "rdma_error", Aftermath::kFence},
           Row{"ERR RDMA read failed", "rdma_error", Aftermath::kFence},
           Row{"ERR RDMA something new", "rdma_error", Aftermath::kFence},
           Row{"ERR object checksum does not match", "checksum", Aftermath::kFence},
           Row{"ERR CRC mismatch", "checksum", Aftermath::kFence},
           Row{"ERR something nobody has seen", "unknown_error", Aftermath::kFence},
           Row{"NEWCODE something nobody has seen", "unknown_error", Aftermath::kFence},
           Row{"ERR Blocking module command called from transaction", "unknown_error", Aftermath::kFence},
       }) {
    for (const Op op : kBoth) {
      const ReplyOutcome outcome = classify_error(op, row.text);
      EXPECT_EQ(outcome.verdict, Verdict::kRepeat) << row.text;
      EXPECT_EQ(outcome.text, row.reason) << row.text;
      EXPECT_EQ(outcome.aftermath, row.aftermath) << row.text;
      if (row.aftermath == Aftermath::kFence) {
        EXPECT_STREQ(outcome.fence_reason, row.reason) << row.text;
      }
    }
  }
}

TEST(BlobReply, ATripleErrorToASetWithCrcMeansThatTheDialectLacksIt) {
  for (const char* text : {"ERR memory address args must be rkey, addr, len triples", "ERR invalid rkey"}) {
    EXPECT_EQ(classify_error(Op::kSet, text, TrustErrorReplies::kBeforeRma, true).verdict, Verdict::kWithoutCrc);
    EXPECT_EQ(classify_error(Op::kSet, text, TrustErrorReplies::kBeforeRma, false).verdict, Verdict::kRepeat);
    EXPECT_EQ(classify_error(Op::kGet, text, TrustErrorReplies::kBeforeRma, true).verdict, Verdict::kRepeat);
  }
}

TEST(BlobReply, TrustDecidesWhichErrorRepliesLeaveMemoryUsable) {
  const char* before = "WRONGTYPE Operation against a key holding the wrong kind of value";
  const char* after = "ERR RDMA write failed";
  EXPECT_EQ(classify_error(Op::kGet, before, TrustErrorReplies::kNever).aftermath, Aftermath::kFence);
  EXPECT_EQ(classify_error(Op::kGet, after, TrustErrorReplies::kNever).aftermath, Aftermath::kFence);
  EXPECT_EQ(classify_error(Op::kGet, before, TrustErrorReplies::kBeforeRma).aftermath, Aftermath::kUsable);
  EXPECT_EQ(classify_error(Op::kGet, after, TrustErrorReplies::kBeforeRma).aftermath, Aftermath::kFence);
  EXPECT_EQ(classify_error(Op::kGet, after, TrustErrorReplies::kAlways).aftermath, Aftermath::kUsable);
  EXPECT_EQ(classify_error(Op::kGet, "ERR something nobody has seen", TrustErrorReplies::kAlways).aftermath,
            Aftermath::kUsable);
}

TEST(BlobReply, NoTrustMakesAnUnexpectedReplyUsable) {
  EXPECT_EQ(classify(Op::kGet, "+QUEUED\r\n", TrustErrorReplies::kAlways).aftermath, Aftermath::kFence);
  EXPECT_EQ(classify(Op::kGet, "*2\r\n:4097\r\n:1\r\n", TrustErrorReplies::kAlways).aftermath, Aftermath::kFence);
}

TEST(BlobReply, ABlobErrorIsAnErrorReply) {
  EXPECT_EQ(classify(Op::kGet, "!21\r\nERR RDMA write failed\r\n").text, "rdma_error");
}

}  // namespace
}  // namespace keyferry::transfer
