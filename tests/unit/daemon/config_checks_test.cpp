#include "daemon/config_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/options.h"

namespace keyferry::daemon {
namespace {

using ::testing::HasSubstr;

std::string mistakes(const std::string& text) {
  try {
    parse_options(text, "k.yaml");
    return "";
  } catch (const ConfigError& wrong) {
    return wrong.what();
  }
}

TEST(ConfigChecks, TheDefaultsKeepEveryRule) {
  EXPECT_TRUE(check_options(default_options()).empty());
}

TEST(ConfigChecks, WorkersAreOnNoCpusThatAreNoList) {
  EXPECT_EQ(mistakes("placement: {workers: 4-2}\n"),
            "k.yaml:1: placement.workers: \"4-2\" is neither auto nor none nor a list of CPUs like 0-3,8");
  EXPECT_EQ(mistakes("placement: {workers: none}\n"), "");
  EXPECT_EQ(mistakes("placement: {workers: 3}\n"), "");
}

TEST(ConfigChecks, A256thOfTheLargestValueMustFitIntoARegion) {
  EXPECT_EQ(mistakes("pool:\n  region: 1MiB\n"),
            "k.yaml:2: pool.region: 256 regions of 1MiB hold 256MiB, less than limits.value_max, 512MiB; the region "
            "must be at least 2MiB");
  EXPECT_EQ(mistakes("limits:\n  drain: 1s\n  value_max: 2GiB\n"),
            "k.yaml:3: pool.region: 256 regions of 4MiB hold 1GiB, less than limits.value_max, 2GiB; the region must "
            "be at least 8MiB");
  EXPECT_EQ(mistakes("pool: {region: 2MiB}\n"), "");
}

TEST(ConfigChecks, RegionsArePowersOfTwoAndThePoolIsWholeRegions) {
  EXPECT_EQ(mistakes("pool:\n  region: 3MiB\n"),
            "k.yaml:2: pool.region: 3MiB is not a power of two; the next one is 4MiB");
  EXPECT_EQ(mistakes("pool:\n  size: 10MiB\n"),
            "k.yaml:2: pool.size: 10MiB is not whole regions of 4MiB (pool.region)");
  EXPECT_EQ(mistakes("pool:\n  size: 4MiB\n"),
            "k.yaml:2: pool.size: 4MiB is less than two regions of 4MiB (pool.region)");
  EXPECT_EQ(mistakes("pool: {size: 8MiB}\n"), "");
}

TEST(ConfigChecks, BeyondLoopbackOnlyWhenItIsAskedFor) {
  for (const char* open : {"0.0.0.0:1", "10.0.0.1:1", "'[::]:1'", "'[fe80::1]:1'", "'[::ffff:127.0.0.1]:1'"}) {
    const std::string item = std::string("listen: [{tcp: ") + open;
    EXPECT_THAT(mistakes(item + "}]"), HasSubstr("k.yaml:1: listen[0].tcp: ")) << open;
    EXPECT_THAT(mistakes(item + "}]"), HasSubstr("is beyond loopback")) << open;
    EXPECT_EQ(mistakes(item + ", allow_unauthenticated: true}]"), "") << open;
    EXPECT_THAT(mistakes(item + ", allow_unauthenticated: false}]"), HasSubstr("is beyond loopback")) << open;
  }
  for (const char* local : {"127.0.0.1:1", "127.8.8.8:1", "'[::1]:1'", "localhost:1"}) {
    EXPECT_EQ(mistakes(std::string("listen: [{tcp: ") + local + "}]"), "") << local;
  }
  EXPECT_EQ(mistakes("listen: [{tcp: example.net:1, allow_unauthenticated: true}]"),
            "k.yaml:1: listen[0].tcp: example.net:1 has no address in figures");
}

TEST(ConfigChecks, AListenerIsEitherTcpOrUnix) {
  EXPECT_EQ(mistakes("listen:\n- {}\n"), "k.yaml:2: listen[0]: has neither tcp nor unix");
  EXPECT_EQ(mistakes("listen:\n- {tcp: 127.0.0.1:1, unix: /x}\n"),
            "k.yaml:2: listen[0]: has both tcp and unix; make two items of it");
  EXPECT_EQ(mistakes("listen: []\n"), "k.yaml:1: listen: nobody could connect; at least one item is needed");
  EXPECT_EQ(mistakes("listen:\n- unix: /x\n- unix: /x\n"), "k.yaml:3: listen[1]: the same as an earlier item");
  EXPECT_EQ(mistakes("listen: [{unix: x.sock}]"), "k.yaml:1: listen[0].unix: x.sock is not an absolute path");
  EXPECT_EQ(mistakes("listen: [{unix: /" + std::string(106, 'x') + "}]"), "");
  EXPECT_EQ(mistakes("listen: [{unix: /" + std::string(107, 'x') + "}]"),
            "k.yaml:1: listen[0].unix: a path of 108 bytes; a socket's may have at most 107");
  EXPECT_THAT(mistakes("listen: [{unix: /x, allow_unauthenticated: true}]"), HasSubstr("is for tcp"));
}

TEST(ConfigChecks, ThereIsExactlyOneNodeWithHostAndPort) {
  EXPECT_EQ(mistakes("upstream: {nodes: []}"), "k.yaml:1: upstream.nodes: 0 items; mode standalone has exactly one");
  EXPECT_EQ(mistakes("upstream: {nodes: [a:1, b:2]}"),
            "k.yaml:1: upstream.nodes: 2 items; mode standalone has exactly one");
  EXPECT_EQ(mistakes("upstream: {nodes: [{port: 1}]}"), "k.yaml:1: upstream.nodes[0]: has no host");
  EXPECT_EQ(mistakes("upstream: {nodes: [{host: a}]}"), "k.yaml:1: upstream.nodes[0]: has no port");
  EXPECT_THAT(mistakes("upstream: {nodes: [{host: a, tls_port: 1}]}"), HasSubstr("upstream.tls is not"));
  EXPECT_EQ(mistakes("upstream: {nodes: [{host: a, tls_port: 1}], tls: {}}"), "");
}

TEST(ConfigChecks, SentinelsAndNodesExcludeEachOther) {
  EXPECT_EQ(mistakes("upstream: {mode: sentinel, sentinels: ['a:1', 'b:2'], master: m}"), "");
  EXPECT_EQ(mistakes("upstream: {mode: sentinel, sentinels: ['a:1'], master: m, sentinel_user: u,\n"
                     " sentinel_password_file: /p, sentinel_tls: false}"),
            "");
  EXPECT_THAT(mistakes("upstream: {mode: sentinel, master: m}"), HasSubstr("needs at least one"));
  EXPECT_THAT(mistakes("upstream: {mode: sentinel, sentinels: ['a:1']}"), HasSubstr("needs the name"));
  EXPECT_THAT(mistakes("upstream: {mode: sentinel, sentinels: [a], master: m}"), HasSubstr("a is not HOST:PORT"));
  EXPECT_THAT(mistakes("upstream: {mode: sentinel, sentinels: ['a:1'], master: m, nodes: [b:2]}"),
              HasSubstr("upstream.nodes: would never be used"));
  EXPECT_THAT(mistakes("upstream: {mode: sentinel, sentinels: ['a:1'], master: m, sentinel_user: u}"),
              HasSubstr("needs upstream.sentinel_password_file"));
  EXPECT_THAT(mistakes("upstream: {sentinels: ['a:1']}"), HasSubstr("would never be asked"));
  EXPECT_THAT(mistakes("upstream: {master: m}"), HasSubstr("is for upstream.mode: sentinel"));
  EXPECT_THAT(mistakes("upstream: {sentinel_password_file: /p}"), HasSubstr("is for upstream.mode: sentinel"));
}

TEST(ConfigChecks, TlsIsNeverLeftOutInSilence) {
  EXPECT_THAT(mistakes("upstream: {transport: tls}"), HasSubstr("tls needs upstream.tls"));
  EXPECT_THAT(mistakes("upstream: {transport: tcp, tls: {}}"), HasSubstr("in the clear"));
  EXPECT_EQ(mistakes("upstream: {transport: tls, tls: {}}"), "");
  EXPECT_EQ(mistakes("upstream:\n  tls:\n    cert: /c\n"), "k.yaml:3: upstream.tls.cert: cert and key go together");
  EXPECT_EQ(mistakes("upstream:\n  tls:\n    key: /c\n"), "k.yaml:3: upstream.tls.key: cert and key go together");
  EXPECT_EQ(mistakes("listen:\n- {tcp: 127.0.0.1:1, tls: {cert: /c}}\n"),
            "k.yaml:2: listen[0].tls: needs both cert and key");
  EXPECT_EQ(mistakes("listen: [{tcp: 127.0.0.1:1, tls: {cert: /c, key: /k, ca: /a}}]"), "");
  EXPECT_THAT(mistakes("listen: [{unix: /x, tls: {cert: /c, key: /k}}]"), HasSubstr("listen[0].tls: is for tcp"));
  EXPECT_EQ(mistakes("upstream: {user: app}"),
            "k.yaml:1: upstream.user: app needs a password; set upstream.password_file");
}

TEST(ConfigChecks, WhoMayUseAListenerAndAsWhom) {
  EXPECT_EQ(mistakes("listen: [{tcp: 0.0.0.0:1, require_auth: true}]"), "");
  EXPECT_THAT(mistakes("listen: [{tcp: 127.0.0.1:1, allow_uids: [0]}]"), HasSubstr("are for unix"));
  EXPECT_EQ(mistakes("listen: [{unix: /x, allow_uids: [root, 1000], allow_gids: [root]}]"), "");
  EXPECT_EQ(mistakes("listen: [{unix: /x, allow_uids: [nobody-here]}]"),
            "k.yaml:1: listen[0].allow_uids: this host has no user nobody-here");
  EXPECT_EQ(mistakes("listen: [{unix: /x, user: app}]"),
            "k.yaml:1: listen[0].user: user and password_file go together");
  EXPECT_EQ(mistakes("listen: [{unix: /x, user: app, password_file: /p, user_by_uid: [\"0 adm /q\"]}]"), "");
  EXPECT_THAT(mistakes("listen: [{unix: /x, user_by_uid: [\"0 adm\"]}]"), HasSubstr("0 adm is not a user"));
  EXPECT_THAT(mistakes("listen: [{unix: /x, require_auth: true, user: app, password_file: /p}]"),
              HasSubstr("without a meaning"));
  EXPECT_THAT(mistakes("listen: [{unix: /x, deny_commands: [FLUSHALL, CONFIG SET, a b c]}]"),
              HasSubstr("listen[0].deny_commands: a b c is no command"));
  EXPECT_EQ(mistakes("upstream: {user: app, password_command: [token]}"), "");
  EXPECT_THAT(mistakes("upstream: {password_file: /p, password_command: [token]}"), HasSubstr("two sources"));
}

TEST(ConfigChecks, R67_an_rdma_port_that_would_never_be_used_is_a_mistake) {
  EXPECT_EQ(mistakes("upstream: {transport: rdma}"), "");
  EXPECT_EQ(mistakes("upstream: {nodes: [{host: a, port: 1, rdma_port: 2}]}"), "");
  EXPECT_EQ(mistakes("upstream: {transport: rdma, tls: {}, nodes: [{host: a, tls_port: 1, rdma_port: 2}]}"), "");
  EXPECT_THAT(mistakes("upstream: {transport: rdma, tls: {}, nodes: [{host: a, tls_port: 1}]}"),
              HasSubstr("has no rdma_port"));
  EXPECT_THAT(mistakes("upstream: {transport: tcp, nodes: [{host: a, port: 1, rdma_port: 2}]}"),
              HasSubstr("would never be used"));
  EXPECT_THAT(mistakes("upstream: {tls: {}, nodes: [{host: a, port: 1, rdma_port: 2}]}"),
              HasSubstr("would never be used"));
}

TEST(ConfigChecks, LimitsFitEachOther) {
  EXPECT_EQ(mistakes("transfer: {warm: 9}"), "k.yaml:1: transfer.warm: 9 is more than transfer.lanes, 8");
  EXPECT_THAT(mistakes("transfer: {threshold: 1GiB}"),
              HasSubstr("transfer.threshold: 1GiB is above limits.value_max, 512MiB"));
  EXPECT_EQ(mistakes("limits:\n  client_buffer: 2GiB\n"),
            "k.yaml:2: limits.client_buffer: 2GiB is above limits.total_buffer, 1GiB");
  EXPECT_THAT(mistakes("transfer:\n  lanes: 64\n"),
              HasSubstr("k.yaml:2: limits.upstream_connections: 64 is too few: 64 lanes, 16 shared"));
  EXPECT_EQ(mistakes("limits: {upstream_connections: 28}"), "");
  EXPECT_THAT(mistakes("limits: {upstream_connections: 27}"), HasSubstr("make 28"));
  EXPECT_EQ(mistakes("workers: 1\nlimits: {upstream_connections: 13}"), "");
}

TEST(ConfigChecks, AddressesInFiguresWhereTheyAreBound) {
  EXPECT_EQ(mistakes("fabric: {bind: eth0}"), "k.yaml:1: fabric.bind: eth0 is not an address in figures");
  EXPECT_THAT(mistakes("fabric: {bind: 10.0.0.1, provider: efa-direct}"), HasSubstr("is for the software provider"));
  EXPECT_EQ(mistakes("admin: {http: metrics.example:1}"),
            "k.yaml:1: admin.http: metrics.example:1 has no address in figures");
  EXPECT_EQ(mistakes("admin: {http: 127.0.0.1:6380}"), "k.yaml:1: admin.http: 127.0.0.1:6380 is also in listen");
  EXPECT_EQ(mistakes("admin: {http: 0.0.0.0:9742}"), "");
}

}  // namespace
}  // namespace keyferry::daemon
