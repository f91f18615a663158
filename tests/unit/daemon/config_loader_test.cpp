#include "daemon/config_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/options.h"
#include "daemon/options_table.h"

namespace keyferry::daemon {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// What is wrong with a file, "" if nothing is.
std::string mistakes(const std::string& text) {
  try {
    parse_options(text, "k.yaml");
    return "";
  } catch (const ConfigError& wrong) {
    return wrong.what();
  }
}

TEST(ConfigLoader, AnEmptyFileGivesTheDefaults) {
  const Options options = parse_options("", "k.yaml");
  EXPECT_EQ(options, default_options());
  EXPECT_EQ(parse_options("# only a comment\n", "k.yaml"), default_options());
  EXPECT_EQ(parse_options("pool:\nlimits: {}\n", "k.yaml"), default_options());
  EXPECT_EQ(options.workers, 0U);
  ASSERT_EQ(options.listen.size(), 1U);
  EXPECT_EQ(options.listen[0].tcp, (HostPort{"127.0.0.1", 6380}));
  EXPECT_EQ(options.listen[0].mode, 0660U);
  ASSERT_EQ(options.upstream.nodes.size(), 1U);
  EXPECT_EQ(options.upstream.nodes[0], (NodeOptions{"127.0.0.1", 6379, 0}));
  EXPECT_EQ(options.upstream.tls, std::nullopt);
  EXPECT_EQ(options.pool.size, 4ULL << 30);
  EXPECT_EQ(options.pool.region, 4ULL << 20);
  EXPECT_EQ(options.transfer.threshold, 512U << 10);
  EXPECT_EQ(options.limits.pool_wait, base::Duration(60s));
  EXPECT_EQ(options.limits.client_idle, base::Duration(0));
  EXPECT_EQ(options.limits.client_keepalive, base::Duration(300s));
  EXPECT_EQ(options.admin.http, (HostPort{"127.0.0.1", 9742}));
  EXPECT_EQ(options.log.level, "info");
}

TEST(ConfigLoader, EveryKeyReachesItsMember) {
  const Options options = parse_options(R"(
workers: 3
listen:
  - tcp: 0.0.0.0:7000
    allow_unauthenticated: true
  - {unix: /tmp/k.sock, mode: "0600", upstream: dedicated, allow_uids: [0], allow_gids: [root], user: app,
     password_file: /app, user_by_uid: ["0 adm /adm"], deny_commands: [KEYS, "CONFIG SET"], protocol: 3}
  - {tcp: 127.0.0.1:7005, require_auth: true}
upstream:
  mode: standalone
  nodes: [{host: db.example, port: 7001, tls_port: 7002, rdma_port: 7003}]
  tls: {ca: /ca, cert: /cert, key: /key, name: db}
  transport: rdma
  require: true
  rdma_buffer: 2MiB
  rdma_queue: 256
  rdma_vector: 3
  rdma_spin_us: 50
  rdma_resolve: 2s
  rdma_connect: 4s
  connections: 5
  retry_reads: true
  user: app
  password_command: [token, for, me]
  password_refresh: 5m
pool: {size: 64MiB, region: 1MiB, huge_pages: require}
fabric: {provider: software, interfaces: [lo, eth0], bind: "::1", library: /lib/libfabric.so.1}
transfer: {threshold: 1MiB, lanes: 4, warm: 2, min_rate: 1MiB, orphan_grace: 5s, trust_error_replies: always,
           immutable: ["model:", x], offload: ["kv:", "a b:"]}
limits:
  value_max: 128MiB
  clients: 7
  client_buffer: 1MiB
  total_buffer: 2MiB
  stall: 1s
  pool_wait: 2s
  upstream_wait: 3s
  upstream_connections: 100
  pinned_long: 9
  pinned_short: 8
  pin_wait: 4s
  client_idle: 4m
  client_keepalive: 2m
  drain: 0
placement: {workers: "2-3"}
admin: {http: off, kill: false, slow: 3ms, slow_kept: 4}
log: {level: debug, format: json}
)",
                                        "k.yaml");
  Options wanted;
  wanted.workers = 3;
  wanted.listen = {{{"0.0.0.0", 7000}, "", 0660, true, std::nullopt, ListenUpstream::kShared},
                   {{},
                    "/tmp/k.sock",
                    0600,
                    false,
                    std::nullopt,
                    ListenUpstream::kDedicated,
                    false,
                    {"0"},
                    {"root"},
                    "app",
                    "/app",
                    {"0 adm /adm"},
                    {"KEYS", "CONFIG SET"},
                    3},
                   {{"127.0.0.1", 7005}, "", 0660, false, std::nullopt, ListenUpstream::kShared, true}};
  wanted.upstream = {"standalone",
                     {{"db.example", 7001, 7002, 7003}},
                     {},
                     "",
                     "default",
                     "",
                     true,
                     TlsFiles{"/ca", "/cert", "/key", "db"},
                     Transport::kRdma,
                     true,
                     2U << 20,
                     256,
                     3,
                     50,
                     2s,
                     4s,
                     5,
                     true,
                     "app",
                     "",
                     {"token", "for", "me"},
                     5min};
  wanted.pool = {64U << 20, 1U << 20, HugePages::kRequire};
  wanted.fabric = {"software", {"lo", "eth0"}, "::1", "/lib/libfabric.so.1"};
  wanted.transfer = {1U << 20,       4, 2, 1U << 20, 5s, transfer::TrustErrorReplies::kAlways, {"model:", "x"},
                     {"kv:", "a b:"}};
  wanted.limits = {128U << 20, 7, 1U << 20, 2U << 20, 1s, 2s, 3s, 100, 9, 8, 4s, 4min, 2min, base::Duration(0)};
  wanted.placement = {"2-3"};
  wanted.admin = {std::nullopt, false, 3ms, 4};
  wanted.log = {"debug", "json"};
  EXPECT_EQ(options, wanted);
}

TEST(ConfigLoader, MistakesNameFileLineKeyValueAndWhatIsAllowed) {
  EXPECT_EQ(mistakes("pool:\n  size: 4GB\n"),
            "k.yaml:2: pool.size: \"4GB\" is not a whole number with B, KiB, MiB, GiB or TiB; allowed: a whole number "
            "with B, KiB, MiB, GiB or TiB, "
            "8KiB to 16TiB");
  EXPECT_EQ(mistakes("\n\nworkers: 1000\n"),
            "k.yaml:3: workers: \"1000\" is out of range; allowed: auto, or a whole number, 1 to 256");
  EXPECT_EQ(
      mistakes("fabric: {provider: verbs}"),
      "k.yaml:1: fabric.provider: \"verbs\" is not one of the choices; allowed: auto, efa-direct, software or off");
  EXPECT_EQ(mistakes("listen:\n - tcp: 127.0.0.1:1\n - unix: /x\n   mode: 999\n"),
            "k.yaml:4: listen[1].mode: \"999\" is not an octal number; allowed: an octal number, 0 to 0777");
}

TEST(ConfigLoader, UnknownKeysNameTheNearestKnownOne) {
  EXPECT_EQ(mistakes("pool:\n  sise: 1GiB\n"),
            "k.yaml:2: \"pool.sise\": unknown key; the nearest known one is pool.size");
  EXPECT_EQ(mistakes("threshold: 1MiB\n"),
            "k.yaml:1: \"threshold\": unknown key; the nearest known one is transfer.threshold");
  EXPECT_EQ(mistakes("frobnicate: 1\n"), "k.yaml:1: \"frobnicate\": unknown key; config/reference.md lists the keys");
  EXPECT_THAT(mistakes("pool.size: 1GiB\n"), HasSubstr("unknown key"));
  EXPECT_THAT(mistakes("\"listen[].tcp\": a:1\n"), HasSubstr("unknown key"));
  EXPECT_THAT(mistakes("\"\": 1\n"), HasSubstr("unknown key"));
}

TEST(ConfigLoader, KeysAndChoicesOfOtherVersionsAreRefusedWithThatReason) {
  EXPECT_EQ(mistakes("listen:\n- tcp: 127.0.0.1:1\n- ring: /r\n").substr(0, 63),
            "k.yaml:3: listen[1].ring: this version does not have this key y");
  EXPECT_EQ(mistakes("upstream: {mode: cluster}"),
            "k.yaml:1: upstream.mode: \"cluster\" is not supported by this version; allowed: standalone or sentinel");
}

TEST(ConfigLoader, NoRefusedKeyIsAlsoAnOption) {
  for (const std::string_view key : keys_not_in_this_version()) EXPECT_EQ(find_option(key), nullptr) << key;
}

TEST(ConfigLoader, WrongKindsOfNodesAreNamed) {
  EXPECT_EQ(mistakes("pool: 4GiB\n"), "k.yaml:1: pool: is a plain value; allowed: a map of keys");
  EXPECT_EQ(mistakes("pool:\n  size: [1GiB]\n"),
            "k.yaml:2: pool.size: is a list; allowed: a whole number with B, KiB, MiB, GiB or TiB, 8KiB to 16TiB");
  EXPECT_EQ(mistakes("workers:\n"), "k.yaml:1: workers: has no value; allowed: auto, or a whole number, 1 to 256");
  EXPECT_EQ(mistakes("listen: 127.0.0.1:1\n"), "k.yaml:1: listen: is a plain value; allowed: a list");
  EXPECT_EQ(mistakes("listen: [127.0.0.1:1]\n"), "k.yaml:1: listen[0]: is a plain value; allowed: a map of keys");
  EXPECT_EQ(mistakes("upstream: {nodes: [[a]]}\n"),
            "k.yaml:1: upstream.nodes[0]: is a list; allowed: host:port, [host]:port for IPv6, port 1 to 65535, or a "
            "map of keys");
  EXPECT_EQ(mistakes("fabric: {interfaces: lo}\n"),
            "k.yaml:1: fabric.interfaces: is a plain value; allowed: a list of texts");
  EXPECT_EQ(mistakes("fabric: {interfaces: [lo, [x]]}\n"),
            "k.yaml:1: fabric.interfaces: holds an item that is a list; allowed: a list of texts");
  EXPECT_EQ(mistakes("- a\n"), "k.yaml:1: the file is a list; it must be a map of keys");
  EXPECT_EQ(mistakes("[a]: 1\n"), "k.yaml:1: the file: a key that is a list; keys are plain names");
  EXPECT_EQ(mistakes("upstream:\n  tls:\n"),
            "k.yaml:2: upstream.tls: has no keys; write {} if none is needed, or take it out");
}

TEST(ConfigLoader, DuplicateKeysAreMistakes) {
  EXPECT_EQ(mistakes("workers: 1\npool: {}\nworkers: 2\n"),
            "k.yaml:3: workers: the key stands here a second time, first in line 1");
  EXPECT_EQ(mistakes("listen:\n- tcp: 127.0.0.1:1\n  tcp: 127.0.0.1:2\n"),
            "k.yaml:3: listen[0].tcp: the key stands here a second time, first in line 2");
}

TEST(ConfigLoader, AllMistakesAreReportedAtOnceButNotWithoutEnd) {
  const std::string two = mistakes("workers: x\npool: {size: y}\n");
  EXPECT_THAT(two, StartsWith("k.yaml:1: workers: "));
  EXPECT_THAT(two, HasSubstr("\nk.yaml:2: pool.size: "));
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "zz" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(mistakes(many), HasSubstr("k.yaml: and 980 more"));
  EXPECT_LT(mistakes("workers: " + std::string(100000, 'x')).size(), 300U);
}

TEST(ConfigLoader, WhatIsNoYamlIsNamedWithItsLine) {
  EXPECT_EQ(mistakes("workers: 1\npool: [1\n"), "k.yaml:3: not YAML: end of sequence flow not found");
  EXPECT_THAT(mistakes(std::string(100000, '[')), HasSubstr("not YAML"));
  EXPECT_EQ(mistakes("workers: 1\n---\nworkers: 2\n"),
            "k.yaml:3: a second YAML document; one file holds one configuration");
}

TEST(ConfigLoader, TagsAndAliasesPlayNoTricks) {
  EXPECT_EQ(mistakes("upstream: {user: !vault default}"),
            "k.yaml:1: upstream.user: the tag \"!vault\" means nothing here");
  EXPECT_EQ(mistakes("workers: !!str 2\n"), "");
  EXPECT_THAT(mistakes("listen: &a [*a]\n"), HasSubstr("listen[0]: is a list"));
  EXPECT_THAT(mistakes("pool: &a {pool: *a}\n"), HasSubstr("\"pool.pool\": unknown key"));
}

TEST(ConfigLoader, ControlCharactersOfTheFileDoNotReachTheTerminal) {
  EXPECT_THAT(mistakes("workers: \"\\e[2J\"\n"), HasSubstr("\"?[2J\""));
}

}  // namespace
}  // namespace keyferry::daemon
