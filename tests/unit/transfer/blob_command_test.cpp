#include "transfer/blob_command.h"

#include <gtest/gtest.h>

#include <array>

#include "resp/decode.h"

namespace keyferry::transfer {
namespace {

resp::Value reply(std::string_view wire) {
  const resp::DecodeResult result = resp::decode(wire);
  EXPECT_TRUE(result.ok()) << wire;
  return result.value;
}

TEST(BlobCommand, HelloSendsTheAddressInLowerCaseHex) {
  const std::string address{"\x02\x00\x9b\xdd\x7f\x00\x00\x01\0\0\0\0\0\0\0\0", 16};
  EXPECT_EQ(hello_command(address), "*2\r\n$15\r\nBLOB.RDMA_HELLO\r\n$32\r\n02009bdd7f0000010000000000000000\r\n");
}

TEST(BlobCommand, SetHasTheFormOfTheTranscript) {
  const std::array windows{Window{7, 4096, 9}};
  EXPECT_EQ(set_command("k1", 9, 3808858755U, windows),
            "*8\r\n$13\r\nBLOB.RDMA_SET\r\n$2\r\nk1\r\n$1\r\n9\r\n$3\r\nCRC\r\n$10\r\n3808858755\r\n$1\r\n7\r\n$"
            "4\r\n4096\r\n$1\r\n9\r\n");
}

TEST(BlobCommand, SetWithoutCrcLeavesTheWordOut) {
  const std::array windows{Window{7, 4096, 9}};
  EXPECT_EQ(set_command("k1", 9, std::nullopt, windows),
            "*6\r\n$13\r\nBLOB.RDMA_SET\r\n$2\r\nk1\r\n$1\r\n9\r\n$1\r\n7\r\n$4\r\n4096\r\n$1\r\n9\r\n");
}

TEST(BlobCommand, GetNamesItsWindowsInOrderAndKeysOfSixtyFourBits) {
  const std::array windows{Window{18446744073709551615ULL, 0, 4}, Window{7, 8192, 4096}};
  EXPECT_EQ(get_command("k1", windows),
            "*8\r\n$13\r\nBLOB.RDMA_GET\r\n$2\r\nk1\r\n$20\r\n18446744073709551615\r\n$1\r\n0\r\n$1\r\n4\r\n$"
            "1\r\n7\r\n$4\r\n8192\r\n$4\r\n4096\r\n");
}

TEST(BlobCommand, HelloGivesEveryAddressOfTheServer) {
  const HelloOutcome outcome = parse_hello(reply("*2\r\n$4\r\n02aF\r\n+00ff\r\n"));
  ASSERT_EQ(outcome.kind, HelloOutcome::Kind::kOpen);
  EXPECT_EQ(outcome.addresses, (std::vector<std::string>{"\x02\xaf", std::string("\x00\xff", 2)}));
}

TEST(BlobCommand, HelloThatIsMalformedIsUnsettled) {
  for (const char* wire :
       {"*0\r\n", "$-1\r\n", "*-1\r\n", "+OK\r\n", "+QUEUED\r\n", ":1\r\n", "$4\r\n02af\r\n", "*1\r\n$3\r\n02a\r\n",
        "*1\r\n$0\r\n\r\n", "*1\r\n$4\r\n02xg\r\n", "*1\r\n:12\r\n", "*2\r\n$4\r\n02af\r\n$-1\r\n"}) {
    EXPECT_EQ(parse_hello(reply(wire)).kind, HelloOutcome::Kind::kUnsettled) << wire;
  }
}

TEST(BlobCommand, HelloThatSaysASessionExistsIsUnsettledAndNotRefused) {
  EXPECT_EQ(parse_hello(reply("-ERR RDMA session already established\r\n")).kind, HelloOutcome::Kind::kUnsettled);
  EXPECT_EQ(parse_hello(reply("-ERR DMA session already established (one BLOB.HELLO per connection)\r\n")).kind,
            HelloOutcome::Kind::kUnsettled);
}

TEST(BlobCommand, HelloRefusalsHaveAReasonEach) {
  const std::pair<const char*, const char*> rows[] = {
      {"-ERR RDMA provider unavailable on this instance\r\n", "server_no_fabric"},
      {"-ERR EFA unavailable on this instance\r\n", "server_no_fabric"},
      {"-ERR unknown command 'BLOB.RDMA_HELLO', with args beginning with: '02' \r\n", "no_module"},
      {"-ERR Unknown or disabled command 'BLOB.RDMA_HELLO'\r\n", "no_module"},
      {"-NOPERM User x has no permissions to run the 'blob.rdma_hello' command\r\n", "noperm"},
      {"-ERR invalid rdma address hex\r\n", "address_refused"},
      {"-ERR rdma address must be 32 bytes\r\n", "address_refused"},
      {"-ERR session create: service 0: fabric error: fi_av_insert inserted 0 of 1 addresses\r\n", "session_refused"},
      {"-READONLY You can't write against a read only replica.\r\n", "replica"},
      {"-LOADING Valkey is loading the dataset in memory\r\n", "loading"},
      {"-CLUSTERDOWN The cluster is down\r\n", "cluster_down"},
      {"-MOVED 1 127.0.0.1:1\r\n", "moved"},
      {"-ERR wrong number of arguments for 'blob.rdma_hello' command\r\n", "dialect"},
  };
  for (const auto& [wire, reason] : rows) {
    const HelloOutcome outcome = parse_hello(reply(wire));
    EXPECT_EQ(outcome.kind, HelloOutcome::Kind::kRefused) << wire;
    EXPECT_STREQ(outcome.reason, reason) << wire;
  }
}

}  // namespace
}  // namespace keyferry::transfer
