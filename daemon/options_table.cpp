#include "daemon/options_table.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "daemon/option_setter.h"

namespace keyferry::daemon {

namespace {

using base::kGiB;
using base::kKiB;
using base::kMiB;
using namespace std::string_view_literals;

constexpr std::uint64_t kTiB = 1024 * kGiB;
constexpr std::uint64_t kSecond = 1000;
constexpr std::uint64_t kHour = 3600 * kSecond;

void add_listener(Options& options, const Value&) {
  options.listen.emplace_back();
}
void clear_listeners(Options& options) {
  options.listen.clear();
}
void add_node(Options& options, const Value&) {
  options.upstream.nodes.emplace_back();
}
void clear_nodes(Options& options) {
  options.upstream.nodes.clear();
}
void set_node(Options& options, const Value& value) {
  options.upstream.nodes.back().host = value.address.host;
  options.upstream.nodes.back().port = value.address.port;
}
void set_listen_tls(Options& options, const Value&) {
  options.listen.back().tls.emplace();
}
void set_tls(Options& options, const Value&) {
  options.upstream.tls.emplace();
}

constexpr std::array kModes{"standalone"sv, "sentinel"sv};
constexpr std::array kModesElsewhere{"cluster"sv};
// In the order of enum Transport.
constexpr std::array kTransports{"auto"sv, "rdma"sv, "tls"sv, "tcp"sv};
// In the order of enum ListenUpstream.
constexpr std::array kListenUpstreams{"shared"sv, "dedicated"sv};
// In the order of enum HugePages.
constexpr std::array kHugePages{"prefer"sv, "require"sv, "never"sv};
// In the order of enum TrustErrorReplies.
constexpr std::array kTrust{"never"sv, "before_rma"sv, "always"sv};
constexpr std::array kProviders{"auto"sv, "efa-direct"sv, "software"sv, "off"sv};
constexpr std::array kLevels{"trace"sv, "debug"sv, "info"sv, "warning"sv, "error"sv};
constexpr std::array kFormats{"text"sv, "json"sv};

using enum OptionType;

constexpr std::array kTable{
    OptionInfo{.path = "workers",
               .type = kCount,
               .default_text = "auto",
               .doc = "Threads that serve local clients. auto: one per CPU that the process may use, at most 4.",
               .least = 1,
               .most = 256,
               .word = "auto",
               .set = kSet<&Options::workers>},

    OptionInfo{.path = "listen",
               .type = kItems,
               .default_text = "- tcp: 127.0.0.1:6380",
               .doc = "Where local clients connect: a list of which each item has either tcp or unix.",
               .example = "- unix: /run/keyferry/keyferry.sock\n  mode: \"0660\"",
               .set = add_listener,
               .clear = clear_listeners},
    OptionInfo{.path = "listen[].tcp",
               .type = kAddress,
               .doc = "An address in figures and a port to listen on. Beyond loopback only with allow_unauthenticated "
                      "or require_auth.",
               .example = "127.0.0.1:6380",
               .set = kSet<&Options::listen, &ListenOptions::tcp>},
    OptionInfo{.path = "listen[].unix",
               .type = kText,
               .doc = "The absolute path of a Unix socket to listen on, at most 107 bytes.",
               .example = "/run/keyferry/keyferry.sock",
               .set = kSet<&Options::listen, &ListenOptions::unix_path>},
    OptionInfo{.path = "listen[].mode",
               .type = kMode,
               .default_text = "\"0660\"",
               .doc = "Permission bits of the Unix socket, in octal.",
               .most = 0777,
               .set = kSet<&Options::listen, &ListenOptions::mode>},
    OptionInfo{
        .path = "listen[].allow_unauthenticated",
        .type = kBool,
        .default_text = "false",
        .doc =
            "Lets tcp listen beyond loopback: whoever reaches the address then acts with the rights of upstream.user.",
        .set = kSet<&Options::listen, &ListenOptions::allow_unauthenticated>},
    OptionInfo{.path = "listen[].tls",
               .type = kSection,
               .doc = "TLS for the clients of this tcp item; left out: none. Changed files are loaded again by "
                      "themselves.",
               .set = set_listen_tls},
    OptionInfo{.path = "listen[].tls.cert",
               .type = kText,
               .doc = "File of the listener's certificate, with those in between, PEM.",
               .example = "/etc/keyferry/listener.crt",
               .set = kSet<&Options::listen, &ListenOptions::tls, &ListenTls::cert>},
    OptionInfo{.path = "listen[].tls.key",
               .type = kText,
               .doc = "File of its key, PEM.",
               .example = "/etc/keyferry/listener.key",
               .set = kSet<&Options::listen, &ListenOptions::tls, &ListenTls::key>},
    OptionInfo{.path = "listen[].tls.ca",
               .type = kText,
               .doc = "File of the authorities of which each client must show a certificate, PEM. Left out: clients "
                      "need none.",
               .example = "/etc/keyferry/clients.crt",
               .set = kSet<&Options::listen, &ListenOptions::tls, &ListenTls::ca>},
    OptionInfo{.path = "listen[].upstream",
               .type = kChoice,
               .default_text = "shared",
               .doc =
                   "shared: clients share connections to the server while nothing demands one's own. dedicated: each "
                   "has its own for life, of limits.pinned_long.",
               .choices = kListenUpstreams,
               .set = kSet<&Options::listen, &ListenOptions::upstream>},
    OptionInfo{.path = "listen[].require_auth",
               .type = kBool,
               .default_text = "false",
               .doc = "true: a client has to log in by AUTH or HELLO, which the server judges, before anything else.",
               .set = kSet<&Options::listen, &ListenOptions::require_auth>},
    OptionInfo{.path = "listen[].allow_uids",
               .type = kTextList,
               .default_text = "[]",
               .doc =
                   "Users of this host, names or numbers, that may use the Unix socket. Both lists empty: whoever its "
                   "mode lets.",
               .set = kSet<&Options::listen, &ListenOptions::allow_uids>},
    OptionInfo{.path = "listen[].allow_gids",
               .type = kTextList,
               .default_text = "[]",
               .doc = "Groups whose members may use it, too.",
               .set = kSet<&Options::listen, &ListenOptions::allow_gids>},
    OptionInfo{.path = "listen[].user",
               .type = kText,
               .doc = "The server's user that this item's clients act as until they log in. Left out: upstream.user.",
               .example = "app",
               .set = kSet<&Options::listen, &ListenOptions::user>},
    OptionInfo{.path = "listen[].password_file",
               .type = kText,
               .doc = "File whose first line is that user's password; read again when it changes.",
               .example = "/etc/keyferry/app.password",
               .set = kSet<&Options::listen, &ListenOptions::password_file>},
    OptionInfo{.path = "listen[].user_by_uid",
               .type = kTextList,
               .default_text = "[]",
               .doc = "The same for single users of this host on a Unix socket: items \"UID USER PASSWORD_FILE\".",
               .set = kSet<&Options::listen, &ListenOptions::user_by_uid>},
    OptionInfo{.path = "listen[].deny_commands",
               .type = kTextList,
               .default_text = "[]",
               .doc =
                   "Commands that are refused here, such as FLUSHALL or \"CONFIG SET\". Scripts are not looked into: "
                   "the server's ACLs are what keeps a user from something.",
               .set = kSet<&Options::listen, &ListenOptions::deny_commands>},
    OptionInfo{.path = "listen[].protocol",
               .type = kCount,
               .default_text = "2",
               .doc = "Version of RESP that clients speak before HELLO: what the server has for client-default-resp, "
                      "which only servers built for tests know.",
               .least = 2,
               .most = 3,
               .set = kSet<&Options::listen, &ListenOptions::protocol>},

    OptionInfo{.path = "upstream", .type = kSection, .doc = "The server that is spoken to."},
    OptionInfo{.path = "upstream.mode",
               .type = kChoice,
               .default_text = "standalone",
               .doc =
                   "standalone: the server of upstream.nodes. sentinel: the primary that upstream.sentinels name, and "
                   "whichever follows it.",
               .choices = kModes,
               .not_here = kModesElsewhere,
               .set = kSet<&Options::upstream, &UpstreamOptions::mode>},
    OptionInfo{.path = "upstream.nodes",
               .type = kItems,
               .default_text = "- 127.0.0.1:6379",
               .doc = "The server's address: exactly one item, host:port or a map.",
               .example = "- {host: valkey.example.net, port: 6379, tls_port: 6380, rdma_port: 6379}",
               .set = add_node,
               .clear = clear_nodes},
    OptionInfo{.path = "upstream.nodes[]",
               .type = kAddress,
               .doc = "Name or address, and port.",
               .example = "127.0.0.1:6379",
               .set = set_node},
    OptionInfo{.path = "upstream.nodes[].host",
               .type = kText,
               .doc = "Name or address; looked up anew at each connect.",
               .example = "valkey.example.net",
               .set = kSet<&Options::upstream, &UpstreamOptions::nodes, &NodeOptions::host>},
    OptionInfo{.path = "upstream.nodes[].port",
               .type = kCount,
               .doc = "Port for plain RESP.",
               .least = 1,
               .most = 65535,
               .example = "6379",
               .set = kSet<&Options::upstream, &UpstreamOptions::nodes, &NodeOptions::port>},
    OptionInfo{.path = "upstream.nodes[].tls_port",
               .type = kCount,
               .doc = "Port for RESP over TLS, if it is another one. Needs upstream.tls.",
               .least = 1,
               .most = 65535,
               .example = "6380",
               .set = kSet<&Options::upstream, &UpstreamOptions::nodes, &NodeOptions::tls_port>},
    OptionInfo{.path = "upstream.nodes[].rdma_port",
               .type = kCount,
               .doc = "Port for Valkey over RDMA (the server's rdma-port). Left out: the same number as port.",
               .least = 1,
               .most = 65535,
               .example = "6379",
               .set = kSet<&Options::upstream, &UpstreamOptions::nodes, &NodeOptions::rdma_port>},
    OptionInfo{.path = "upstream.sentinels",
               .type = kTextList,
               .default_text = "[]",
               .doc = "Mode sentinel: host:port of each sentinel; they are asked in turn until one answers.",
               .example = "[10.0.0.1:26379, 10.0.0.2:26379, 10.0.0.3:26379]",
               .set = kSet<&Options::upstream, &UpstreamOptions::sentinels>},
    OptionInfo{.path = "upstream.master",
               .type = kText,
               .doc = "Mode sentinel: the name under which they watch the primary.",
               .example = "mymaster",
               .set = kSet<&Options::upstream, &UpstreamOptions::master>},
    OptionInfo{.path = "upstream.sentinel_user",
               .type = kText,
               .default_text = "default",
               .doc = "The sentinels' user, where they want a password.",
               .set = kSet<&Options::upstream, &UpstreamOptions::sentinel_user>},
    OptionInfo{.path = "upstream.sentinel_password_file",
               .type = kText,
               .doc = "File whose first line is that user's password; read again when it changes. Left out: no AUTH is "
                      "sent to them.",
               .example = "/etc/keyferry/sentinel.password",
               .set = kSet<&Options::upstream, &UpstreamOptions::sentinel_password_file>},
    OptionInfo{.path = "upstream.sentinel_tls",
               .type = kBool,
               .default_text = "true",
               .doc = "Whether sentinels are spoken to as upstream.tls says, if it is set.",
               .set = kSet<&Options::upstream, &UpstreamOptions::sentinel_tls>},
    OptionInfo{.path = "upstream.tls",
               .type = kSection,
               .doc = "TLS towards the server; left out: none. {} is TLS with the system's authorities.",
               .example = "{}",
               .set = set_tls},
    OptionInfo{.path = "upstream.tls.ca",
               .type = kText,
               .doc = "File of the authorities to trust, PEM. Left out: the system's.",
               .example = "/etc/keyferry/ca.crt",
               .set = kSet<&Options::upstream, &UpstreamOptions::tls, &TlsFiles::ca>},
    OptionInfo{.path = "upstream.tls.cert",
               .type = kText,
               .doc = "File of the client certificate, PEM. Needs key.",
               .example = "/etc/keyferry/client.crt",
               .set = kSet<&Options::upstream, &UpstreamOptions::tls, &TlsFiles::cert>},
    OptionInfo{.path = "upstream.tls.key",
               .type = kText,
               .doc = "File of the client certificate's key, PEM. Needs cert.",
               .example = "/etc/keyferry/client.key",
               .set = kSet<&Options::upstream, &UpstreamOptions::tls, &TlsFiles::key>},
    OptionInfo{.path = "upstream.tls.name",
               .type = kText,
               .doc = "The name that the server's certificate must have. Left out: the node's host.",
               .example = "valkey.example.net",
               .set = kSet<&Options::upstream, &UpstreamOptions::tls, &TlsFiles::name>},
    OptionInfo{.path = "upstream.transport",
               .type = kChoice,
               .default_text = "auto",
               .doc =
                   "What carries ordinary commands. auto: tls if upstream.tls is set (RDMA has none), else rdma while "
                   "it works, else tcp.",
               .choices = kTransports,
               .set = kSet<&Options::upstream, &UpstreamOptions::transport>},
    OptionInfo{.path = "upstream.require",
               .type = kBool,
               .default_text = "false",
               .doc = "true: the start fails rather than using less than what is asked for here.",
               .set = kSet<&Options::upstream, &UpstreamOptions::require>},
    OptionInfo{.path = "upstream.rdma_buffer",
               .type = kSize,
               .default_text = "1MiB",
               .doc =
                   "Of each connection over RDMA: what the server may send before it must wait, locked and registered "
                   "here and, once more, for what is sent.",
               .least = 64 * kKiB,
               .most = 16 * kMiB,
               .set = kSet<&Options::upstream, &UpstreamOptions::rdma_buffer>},
    OptionInfo{.path = "upstream.rdma_queue",
               .type = kCount,
               .default_text = "1024",
               .doc = "Places in the send queue of each of these connections, and receives that it has posted.",
               .least = 128,
               .most = 8192,
               .set = kSet<&Options::upstream, &UpstreamOptions::rdma_queue>},
    OptionInfo{.path = "upstream.rdma_vector",
               .type = kCount,
               .default_text = "0",
               .doc =
                   "The device's completion vector for the first worker; each further one takes the next, modulo their "
                   "number.",
               .least = 0,
               .most = 65535,
               .set = kSet<&Options::upstream, &UpstreamOptions::rdma_vector>},
    OptionInfo{.path = "upstream.rdma_spin_us",
               .type = kCount,
               .default_text = "0",
               .doc = "Microseconds for which a worker goes on looking for completions after the last one, before it "
                      "sleeps: latency for processor time. 0 = it sleeps at once.",
               .least = 0,
               .most = 1'000'000,
               .set = kSet<&Options::upstream, &UpstreamOptions::rdma_spin_us>},
    OptionInfo{.path = "upstream.rdma_resolve",
               .type = kDuration,
               .default_text = "1s",
               .doc = "How long the device may take to resolve the server's address, and again for the route to it.",
               .least = 1,
               .most = kHour,
               .set = kSet<&Options::upstream, &UpstreamOptions::rdma_resolve>},
    OptionInfo{.path = "upstream.rdma_connect",
               .type = kDuration,
               .default_text = "3s",
               .doc = "How long the server may take from there until it has announced its buffer; limits.upstream_wait "
                      "bounds all of it.",
               .least = 1,
               .most = kHour,
               .set = kSet<&Options::upstream, &UpstreamOptions::rdma_connect>},
    OptionInfo{.path = "upstream.connections",
               .type = kCount,
               .default_text = "2",
               .doc = "Shared connections for ordinary commands, per worker and protocol (RESP2, RESP3).",
               .least = 1,
               .most = 64,
               .set = kSet<&Options::upstream, &UpstreamOptions::connections>},
    OptionInfo{.path = "upstream.retry_reads",
               .type = kBool,
               .default_text = "false",
               .doc = "true: reads that were in flight on a shared connection when it was lost are asked once more by "
                      "another one, unless a command that may write was behind them. Nothing else is ever sent twice.",
               .set = kSet<&Options::upstream, &UpstreamOptions::retry_reads>},
    OptionInfo{.path = "upstream.user",
               .type = kText,
               .default_text = "default",
               .doc = "The server's user that local clients act as until they log in. Another than default needs "
                      "password_file or password_command.",
               .set = kSet<&Options::upstream, &UpstreamOptions::user>},
    OptionInfo{.path = "upstream.password_file",
               .type = kText,
               .doc =
                   "File whose first line is that user's password, or token; read again when it changes. Left out: no "
                   "AUTH is sent.",
               .example = "/etc/keyferry/password",
               .set = kSet<&Options::upstream, &UpstreamOptions::password_file>},
    OptionInfo{.path = "upstream.password_command",
               .type = kTextList,
               .default_text = "[]",
               .doc =
                   "In place of password_file: a program and its arguments that writes the password, or token, in its "
                   "first line within 30 s.",
               .set = kSet<&Options::upstream, &UpstreamOptions::password_command>},
    OptionInfo{.path = "upstream.password_refresh",
               .type = kDuration,
               .default_text = "10m",
               .doc = "How often it is run; connections that live log in again with what is new.",
               .least = kSecond,
               .most = 168 * kHour,
               .set = kSet<&Options::upstream, &UpstreamOptions::password_refresh>},

    OptionInfo{.path = "pool", .type = kSection, .doc = "The pinned memory that large values pass through."},
    OptionInfo{.path = "pool.size",
               .type = kSize,
               .default_text = "4GiB",
               .doc = "All of it: locked at the start, registered once. Whole regions, at least two.",
               .least = 8 * kKiB,
               .most = 16 * kTiB,
               .set = kSet<&Options::pool, &PoolOptions::size>},
    OptionInfo{.path = "pool.region",
               .type = kSize,
               .default_text = "4MiB",
               .doc = "The piece that is registered and lent; a power of two. 256 regions must hold limits.value_max.",
               .least = 4 * kKiB,
               .most = kGiB,
               .set = kSet<&Options::pool, &PoolOptions::region>},
    OptionInfo{.path = "pool.huge_pages",
               .type = kChoice,
               .default_text = "prefer",
               .doc = "prefer: if the machine has them free. require: or the start fails.",
               .choices = kHugePages,
               .set = kSet<&Options::pool, &PoolOptions::huge_pages>},

    OptionInfo{.path = "fabric", .type = kSection, .doc = "libfabric, which large values travel by."},
    OptionInfo{.path = "fabric.provider",
               .type = kChoice,
               .default_text = "auto",
               .doc = "auto: efa-direct where there is a device, else software. off: large values go by BLOB.TCP_*.",
               .choices = kProviders,
               .set = kSet<&Options::fabric, &FabricOptions::provider>},
    OptionInfo{.path = "fabric.interfaces",
               .type = kTextList,
               .default_text = "[]",
               .doc = "Names of interfaces or RDMA devices; the first that this host has is used. Empty: the first "
                      "that libfabric lists.",
               .set = kSet<&Options::fabric, &FabricOptions::interfaces>},
    OptionInfo{.path = "fabric.bind",
               .type = kText,
               .doc = "Source address of the endpoints, in figures; software only. Left out: that of the interface.",
               .example = "127.0.0.1",
               .set = kSet<&Options::fabric, &FabricOptions::bind>},
    OptionInfo{.path = "fabric.library",
               .type = kText,
               .doc = "The libfabric to load. Left out: the usual places.",
               .example = "/opt/amazon/efa/lib/libfabric.so.1",
               .set = kSet<&Options::fabric, &FabricOptions::library>},

    OptionInfo{.path = "transfer", .type = kSection, .doc = "How large values travel."},
    OptionInfo{.path = "transfer.threshold",
               .type = kSize,
               .default_text = "512KiB",
               .doc = "Values from here up go by BLOB.RDMA_*, smaller ones by BLOB.TCP_*.",
               .least = 1,
               .most = 256 * kGiB,
               .set = kSet<&Options::transfer, &TransferOptions::threshold>},
    OptionInfo{.path = "transfer.lanes",
               .type = kCount,
               .default_text = "8",
               .doc = "Connections with a session and an endpoint, per node: transfers at a time.",
               .least = 1,
               .most = 1024,
               .set = kSet<&Options::transfer, &TransferOptions::lanes>},
    OptionInfo{.path = "transfer.warm",
               .type = kCount,
               .default_text = "1",
               .doc = "Lanes made at the start; the others are made when needed.",
               .most = 1024,
               .set = kSet<&Options::transfer, &TransferOptions::warm>},
    OptionInfo{.path = "transfer.min_rate",
               .type = kSize,
               .default_text = "0",
               .doc = "Bytes per second that a transfer must reach: after 10 s + bytes / min_rate it is fenced. 0: no "
                      "deadline.",
               .least = 1,
               .most = kTiB,
               .word = "0",
               .set = kSet<&Options::transfer, &TransferOptions::min_rate>},
    OptionInfo{.path = "transfer.orphan_grace",
               .type = kDuration,
               .default_text = "1s",
               .doc = "How long a GET whose client went away may still take before it is fenced.",
               .least = 1,
               .most = 24 * kHour,
               .set = kSet<&Options::transfer, &TransferOptions::orphan_grace>},
    OptionInfo{.path = "transfer.trust_error_replies",
               .type = kChoice,
               .default_text = "before_rma",
               .doc = "Which error replies leave a transfer's memory usable at once; after any other it is fenced. "
                      "before_rma: those that can't come while bytes are moving.",
               .choices = kTrust,
               .set = kSet<&Options::transfer, &TransferOptions::trust_error_replies>},
    OptionInfo{.path = "transfer.immutable",
               .type = kTextList,
               .default_text = "[]",
               .doc = "Prefixes of keys whose values never change: a GET may then share a transfer that is under way, "
                      "unless this gateway has carried a write of the key since it began.",
               .set = kSet<&Options::transfer, &TransferOptions::immutable>},
    OptionInfo{.path = "transfer.offload",
               .type = kTextList,
               .default_text = "[]",
               .doc = "Prefixes of keys whose plain SET and GET are carried as large objects from threshold up; see "
                      "lib/gateway/OFFLOAD.md. Empty: none.",
               .set = kSet<&Options::transfer, &TransferOptions::offload>},

    OptionInfo{.path = "limits", .type = kSection, .doc = "What a client, and what the daemon, may use."},
    OptionInfo{.path = "limits.value_max",
               .type = kSize,
               .default_text = "512MiB",
               .doc = "The largest argument of a command; a larger one is refused on its header.",
               .least = kKiB,
               .most = 256 * kGiB,
               .set = kSet<&Options::limits, &LimitOptions::value_max>},
    OptionInfo{.path = "limits.clients",
               .type = kCount,
               .default_text = "10000",
               .doc = "Local clients at a time.",
               .least = 1,
               .most = 1000000,
               .set = kSet<&Options::limits, &LimitOptions::clients>},
    OptionInfo{.path = "limits.client_buffer",
               .type = kSize,
               .default_text = "64MiB",
               .doc = "Bytes queued for one client; bytes in the pool don't count.",
               .least = 64 * kKiB,
               .most = 64 * kGiB,
               .set = kSet<&Options::limits, &LimitOptions::client_buffer>},
    OptionInfo{.path = "limits.total_buffer",
               .type = kSize,
               .default_text = "1GiB",
               .doc = "Bytes queued for all clients together. At least client_buffer.",
               .least = kMiB,
               .most = 1 * kTiB,
               .set = kSet<&Options::limits, &LimitOptions::total_buffer>},
    OptionInfo{.path = "limits.stall",
               .type = kDuration,
               .default_text = "30s",
               .doc = "A client that holds pool memory or a bulk connection and moves under 64KiB in this time while "
                      "it is waited for is closed.",
               .least = 100,
               .most = 24 * kHour,
               .set = kSet<&Options::limits, &LimitOptions::stall>},
    OptionInfo{.path = "limits.pool_wait",
               .type = kDuration,
               .default_text = "60s",
               .doc = "How long a transfer waits for pool memory; then one error.",
               .least = 1,
               .most = 24 * kHour,
               .set = kSet<&Options::limits, &LimitOptions::pool_wait>},
    OptionInfo{.path = "limits.upstream_wait",
               .type = kDuration,
               .default_text = "5s",
               .doc = "How long a command waits for a server that can't be reached; then one error.",
               .least = 10,
               .most = kHour,
               .set = kSet<&Options::limits, &LimitOptions::upstream_wait>},
    OptionInfo{.path = "limits.upstream_connections",
               .type = kCount,
               .default_text = "64",
               .doc =
                   "Connections to the server: lanes, shared ones and those for BLOB.TCP_*, of all workers and of all "
                   "users and databases. Where there is no room, what has been idle longest gives way.",
               .least = 1,
               .most = 100000,
               .set = kSet<&Options::limits, &LimitOptions::upstream_connections>},
    OptionInfo{.path = "limits.pinned_long",
               .type = kCount,
               .default_text = "1024",
               .doc = "Connections that clients have for themselves for what may wait long: blocking commands, "
                      "subscriptions, MONITOR, dedicated listeners. Each worker has an even share.",
               .least = 1,
               .most = 1000000,
               .set = kSet<&Options::limits, &LimitOptions::pinned_long>},
    OptionInfo{.path = "limits.pinned_short",
               .type = kCount,
               .default_text = "128",
               .doc = "The same for what is short: MULTI, WATCH, scripts, AUTH, SELECT.",
               .least = 1,
               .most = 1000000,
               .set = kSet<&Options::limits, &LimitOptions::pinned_short>},
    OptionInfo{.path = "limits.pin_wait",
               .type = kDuration,
               .default_text = "5s",
               .doc = "How long a client waits for one of them; then one error.",
               .least = 1,
               .most = kHour,
               .set = kSet<&Options::limits, &LimitOptions::pin_wait>},
    OptionInfo{
        .path = "limits.client_idle",
        .type = kDuration,
        .default_text = "0",
        .doc = "A client that asks nothing for so long is closed, unless it subscribes or is a monitor. 0: never.",
        .least = kSecond,
        .most = 168 * kHour,
        .word = "0",
        .set = kSet<&Options::limits, &LimitOptions::client_idle>},
    OptionInfo{
        .path = "limits.client_keepalive",
        .type = kDuration,
        .default_text = "5m",
        .doc = "A client by TCP whose host answers nothing for so long, nor three times after it, is closed. 0: never.",
        .least = kSecond,
        .most = 9 * kHour,
        .word = "0",
        .set = kSet<&Options::limits, &LimitOptions::client_keepalive>},
    OptionInfo{.path = "limits.drain",
               .type = kDuration,
               .default_text = "30s",
               .doc = "How long what runs may take to end after SIGTERM. 0: not at all.",
               .least = 1,
               .most = 24 * kHour,
               .word = "0",
               .set = kSet<&Options::limits, &LimitOptions::drain>},

    OptionInfo{.path = "placement", .type = kSection, .doc = "Which CPUs the threads use; see daemon/README.md."},
    OptionInfo{.path = "placement.workers",
               .type = kText,
               .default_text = "auto",
               .doc =
                   "auto: workers stay on the NUMA node of the NIC, where there are several and it is known. none: any "
                   "CPU. A list, \"0-3,8\": worker n has the n-th of these CPUs for itself (what copies large "
                   "values for it runs on any), and over RDMA the completion vector of that CPU's number.",
               .set = kSet<&Options::placement, &PlacementOptions::workers>},

    OptionInfo{.path = "admin", .type = kSection, .doc = "For operators."},
    OptionInfo{.path = "admin.http",
               .type = kAddress,
               .default_text = "127.0.0.1:9742",
               .doc = "An address in figures and a port that serve /metrics /healthz /readyz /status /status.json and "
                      "what `keyferry stat` shows to whoever reaches them.",
               .word = "off",
               .set = kSet<&Options::admin, &AdminOptions::http>},
    OptionInfo{.path = "admin.kill",
               .type = kBool,
               .default_text = "true",
               .doc = "Whether processes of this host may end local clients there (`keyferry kill`).",
               .set = kSet<&Options::admin, &AdminOptions::kill>},
    OptionInfo{.path = "admin.slow",
               .type = kDuration,
               .default_text = "10ms",
               .doc = "Commands that took as long from their last byte until their reply was taken are kept for "
                      "`keyferry stat slow`, with what they waited for. Blocking ones are not.",
               .most = kHour,
               .set = kSet<&Options::admin, &AdminOptions::slow>},
    OptionInfo{.path = "admin.slow_kept",
               .type = kCount,
               .default_text = "128",
               .doc = "How many of them, the latest ones. 0: none.",
               .most = 10000,
               .set = kSet<&Options::admin, &AdminOptions::slow_kept>},

    OptionInfo{.path = "log", .type = kSection, .doc = "The log, on standard error."},
    OptionInfo{.path = "log.level",
               .type = kChoice,
               .default_text = "info",
               .doc = "What is logged: this and what is graver.",
               .choices = kLevels,
               .set = kSet<&Options::log, &LogOptions::level>},
    OptionInfo{.path = "log.format",
               .type = kChoice,
               .default_text = "text",
               .doc = "A line of text, or a JSON object, per message.",
               .choices = kFormats,
               .set = kSet<&Options::log, &LogOptions::format>},
};

constexpr std::array kNotInThisVersion{
    "listen[].ring"sv,
    "pool.numa"sv,
    "fabric.threads"sv,
};

}  // namespace

std::span<const OptionInfo> option_table() {
  return kTable;
}

const OptionInfo* find_option(std::string_view path) {
  const auto found =
      std::find_if(kTable.begin(), kTable.end(), [path](const OptionInfo& info) { return info.path == path; });
  return found == kTable.end() ? nullptr : &*found;
}

std::span<const std::string_view> keys_not_in_this_version() {
  return kNotInThisVersion;
}

std::string_view option_name(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string_view option_section(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

}  // namespace keyferry::daemon
