#include <filesystem>

#include "tests/unit/upstream/harness.h"
#include "upstream/rdma_route.h"

namespace keyferry::upstream {

namespace {

/// Options with RDMA to a port where no server speaks it, on a host with or without a device.
ConnectOptions with_rdma(ConnectOptions options, bool strict) {
  RdmaSettings settings;
  settings.port = 1;
  options.rdma = RdmaOptions{settings, std::make_shared<RdmaRoute>(strict)};
  return options;
}

TEST(RdmaConnect, R66_where_rdma_does_not_come_about_the_connection_goes_by_tcp_and_the_reason_is_kept) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  const ConnectOptions options = with_rdma(options_for(server), false);
  const Connected outcome = connect(loop, options);
  ASSERT_TRUE(outcome.connection) << outcome.error;
  EXPECT_EQ(outcome.connection->carrier(), Carrier::kTcp);
  EXPECT_FALSE(options.rdma->route->well());
  EXPECT_NE(options.rdma->route->state().reason, "");
}

TEST(RdmaConnect, R67_a_strict_route_takes_nothing_else_and_says_why) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  const Connected outcome = connect(loop, with_rdma(options_for(server), true));
  EXPECT_FALSE(outcome.connection);
  EXPECT_THAT(outcome.error, testing::HasSubstr("RDMA"));
}

TEST(RdmaConnect, R68_a_host_without_a_device_is_named) {
  if (std::filesystem::exists("/sys/class/infiniband")) GTEST_SKIP() << "this host has RDMA";
  base::Loop loop;
  const Connected outcome = connect(loop, with_rdma(options_for(1), true));
  EXPECT_THAT(outcome.error, testing::HasSubstr("this host has no RDMA device"));
}

TEST(RdmaConnect, an_unwell_route_is_not_tried_but_by_its_probe) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  ConnectOptions options = with_rdma(options_for(server), false);
  options.rdma->route->failed("an earlier dial", base::TimePoint::max() - std::chrono::hours(1));
  ASSERT_TRUE(connect(loop, options).connection);
  EXPECT_EQ(options.rdma->route->state().reason, "an earlier dial");
  options.only_rdma = true;
  EXPECT_FALSE(connect(loop, options).connection);
}

TEST(RdmaConnect, what_a_connection_moves_is_counted_for_its_carrier) {
  base::Loop loop;
  ScriptedServer server({Script().handshake().until_closed()});
  ConnectOptions options = options_for(server);
  std::array<telemetry::Counter, kCarriers> in, out;
  for (std::size_t i = 0; i < kCarriers; ++i) {
    options.traffic.in[i] = &in[i];
    options.traffic.out[i] = &out[i];
  }
  ASSERT_TRUE(connect(loop, options).connection);
  EXPECT_GT(in[static_cast<std::size_t>(Carrier::kTcp)].value(), 0U);
  EXPECT_GT(out[static_cast<std::size_t>(Carrier::kTcp)].value(), 0U);
  EXPECT_EQ(in[static_cast<std::size_t>(Carrier::kRdma)].value(), 0U);
}

}  // namespace

}  // namespace keyferry::upstream
