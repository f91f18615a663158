#include "daemon/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace keyferry::daemon {
namespace {

using ::testing::HasSubstr;

class OptionsFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "keyferry-options-XXXXXX";
    ::close(::mkstemp(path_.data()));
  }
  void TearDown() override { std::remove(path_.c_str()); }
  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }

  std::string load_error() {
    try {
      load_options(path_);
      return "";
    } catch (const ConfigError& wrong) {
      return wrong.what();
    }
  }

  std::string path_;
};

TEST_F(OptionsFile, IsReadAndNamedInMessages) {
  write("workers: 2\n");
  EXPECT_EQ(load_options(path_).workers, 2U);
  write("workers: x\n");
  EXPECT_THAT(load_error(), HasSubstr(path_ + ":1: workers: "));
}

TEST_F(OptionsFile, WhatCanNotBeReadIsOneMessage) {
  EXPECT_THROW(load_options(path_ + ".not-there"), ConfigError);
  try {
    load_options("/");
    FAIL();
  } catch (const ConfigError& wrong) {
    EXPECT_STREQ(wrong.what(), "the configuration can't be read: /: is a directory");
  }
  write(std::string(1024 * 1024 + 1, '#'));
  EXPECT_THAT(load_error(), HasSubstr("larger than 1MiB"));
}

TEST(Options, TheNodeIsDialledAtItsTlsPortWhenTlsIsUsed) {
  Options options = default_options();
  options.upstream.nodes = {{"::1", 1, 2}};
  EXPECT_FALSE(uses_tls(options));
  EXPECT_EQ(node_address(options).text(), "[::1]:1");
  options.upstream.tls.emplace();
  EXPECT_TRUE(uses_tls(options));
  EXPECT_EQ(node_address(options).text(), "[::1]:2");
  options.upstream.nodes[0].tls_port = 0;
  EXPECT_EQ(node_address(options).text(), "[::1]:1");
}

TEST(Options, RdmaIsLeftToOrdinaryCommandsWithoutTlsAndTakenInTheClearOnlyWhereItIsAskedFor) {
  const auto with = [](const std::string& upstream) { return parse_options("upstream: {" + upstream + "}\n", "test"); };
  const std::string tls = "tls: {}, nodes: [{host: a, tls_port: 1, rdma_port: 2}]";
  EXPECT_TRUE(uses_rdma(with("transport: auto")));
  EXPECT_TRUE(uses_rdma(with("transport: rdma, " + tls)));
  EXPECT_FALSE(uses_rdma(with("transport: auto, tls: {}, nodes: [{host: a, tls_port: 1}]")));
  EXPECT_FALSE(uses_rdma(with("transport: tls, tls: {}, nodes: [{host: a, tls_port: 1}]")));
  EXPECT_FALSE(uses_rdma(with("transport: tcp")));
}

TEST(Options, AllConnectionsTogetherStayWithinTheLimit) {
  Options options = default_options();
  for (const std::size_t workers : {1U, 2U, 4U, 7U}) {
    options.workers = workers;
    const std::size_t all =
        options.transfer.lanes + workers * (2 * options.upstream.connections + bulk_connections(options));
    EXPECT_LE(all, options.limits.upstream_connections);
    EXPECT_GT(all + workers, options.limits.upstream_connections);
  }
  options.limits.upstream_connections = 1;
  EXPECT_EQ(bulk_connections(options), 1U);
}

}  // namespace
}  // namespace keyferry::daemon
