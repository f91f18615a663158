#include "gateway/command_effects.h"

#include <algorithm>
#include <array>

#include "gateway/command_table.h"

namespace keyferry::gateway {

namespace {

// From the server's own COMMAND (valkey 9.1): what is flagged readonly, and what touches no key at all. CLIENT is not
// here: after CLIENT REPLY OFF writes have no reply of their own, and it is ON's that tells of them. Both lists are
// sorted.
constexpr std::string_view kReadsText =
    "ACL ASKING AUTH BGREWRITEAOF BGSAVE BITCOUNT BITFIELD_RO BITPOS BLOB.INFO BLOB.RDMA_GET BLOB.RDMA_HELLO "
    "BLOB.TCP_GET CLUSTERSCAN COMMAND COMMANDLOG CONFIG DBSIZE DISCARD DUMP ECHO EVALSHA_RO EVAL_RO EXISTS "
    "EXPIRETIME FCALL_RO GEODIST GEOHASH GEOPOS GEORADIUSBYMEMBER_RO GEORADIUS_RO GEOSEARCH GET GETBIT GETRANGE "
    "HELLO HEXISTS HEXPIRETIME HGET HGETALL HKEYS HLEN HMGET HPEXPIRETIME HPTTL HRANDFIELD HSCAN HSTRLEN HTTL "
    "HVALS INFO KEYS LASTSAVE LATENCY LCS LINDEX LLEN LOLWUT LPOS LRANGE MEMORY MGET MONITOR MULTI OBJECT "
    "PEXPIRETIME PFCOUNT PING PSUBSCRIBE PTTL PUBLISH PUBSUB PUNSUBSCRIBE QUIT RANDOMKEY READONLY READWRITE RESET "
    "ROLE SAVE SCAN SCARD SCRIPT SDIFF SELECT SINTER SINTERCARD SISMEMBER SLOWLOG SMEMBERS SMISMEMBER SORT_RO "
    "SPUBLISH SRANDMEMBER SSCAN SSUBSCRIBE STRLEN SUBSCRIBE SUBSTR SUNION SUNSUBSCRIBE TIME TOUCH TTL TYPE "
    "UNSUBSCRIBE UNWATCH WAIT WAITAOF WATCH XINFO XLEN XPENDING XRANGE XREAD XREVRANGE ZCARD ZCOUNT ZDIFF ZINTER "
    "ZINTERCARD ZLEXCOUNT ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREVRANGE ZREVRANGEBYLEX "
    "ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION";

// Flagged write, and every key that it writes is an argument.
constexpr std::string_view kNamedKeysText =
    "APPEND BITFIELD BITOP BLMOVE BLMPOP BLOB.RDMA_SET BLOB.TCP_SET BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX "
    "BZPOPMIN COPY DECR DECRBY DEL DELIFEQ EXPIRE EXPIREAT GEOADD GEORADIUS GEORADIUSBYMEMBER GEOSEARCHSTORE "
    "GETDEL GETEX GETSET HDEL HEXPIRE HEXPIREAT HGETDEL HGETEX HINCRBY HINCRBYFLOAT HMSET HPERSIST HPEXPIRE "
    "HPEXPIREAT HSET HSETEX HSETNX INCR INCRBY INCRBYFLOAT LINSERT LMOVE LMPOP LPOP LPUSH LPUSHX LREM LSET LTRIM "
    "MIGRATE MOVE MSET MSETEX MSETNX PERSIST PEXPIRE PEXPIREAT PFADD PFDEBUG PFMERGE PSETEX RENAME RENAMENX "
    "RESTORE RESTORE-ASKING RPOP RPOPLPUSH RPUSH RPUSHX SADD SDIFFSTORE SET SETBIT SETEX SETNX SETRANGE "
    "SINTERSTORE SMOVE SORT SPOP SREM SUNIONSTORE UNLINK XACK XADD XAUTOCLAIM XCLAIM XDEL XGROUP XREADGROUP "
    "XSETID XTRIM ZADD ZDIFFSTORE ZINCRBY ZINTERSTORE ZMPOP ZPOPMAX ZPOPMIN ZRANGESTORE ZREM ZREMRANGEBYLEX "
    "ZREMRANGEBYRANK ZREMRANGEBYSCORE ZUNIONSTORE";

constexpr std::size_t kLongestName = 20;

constexpr std::size_t count_words(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')) + 1;
}

template <std::size_t N>
constexpr std::array<std::string_view, N> split(std::string_view text) {
  std::array<std::string_view, N> words{};
  for (std::string_view& word : words) {
    word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return words;
}

constexpr auto kReads = split<count_words(kReadsText)>(kReadsText);
constexpr auto kNamedKeys = split<count_words(kNamedKeysText)>(kNamedKeysText);

constexpr auto fits = [](std::string_view name) { return name.size() <= kLongestName; };
static_assert(std::is_sorted(kReads.begin(), kReads.end()) && std::all_of(kReads.begin(), kReads.end(), fits));
static_assert(std::is_sorted(kNamedKeys.begin(), kNamedKeys.end()) &&
              std::all_of(kNamedKeys.begin(), kNamedKeys.end(), fits));

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

/// Its key comes before its value, and no key after that.
bool value_is_last(std::string_view name) {
  return equals_upper(name, "BLOB.TCP_SET") || equals_upper(name, "SET");
}

}  // namespace

Effect effect_of(std::string_view name) {
  if (name.size() > kLongestName) return Effect::kAnything;
  std::array<char, kLongestName> folded{};
  std::transform(name.begin(), name.end(), folded.begin(), upper);
  const std::string_view wanted(folded.data(), name.size());
  if (std::binary_search(kReads.begin(), kReads.end(), wanted)) return Effect::kReads;
  if (std::binary_search(kNamedKeys.begin(), kNamedKeys.end(), wanted)) return Effect::kNamedKeys;
  return Effect::kAnything;
}

transfer::WriteMarks::Mark write_mark(const transfer::WriteMarks& marks, std::span<const std::string_view> args,
                                      bool whole) {
  using Mark = transfer::WriteMarks::Mark;
  if (!marks.any_immutable() || args.empty()) return Mark::kNothing;
  switch (effect_of(args.front())) {
    case Effect::kReads:
      return Mark::kNothing;
    case Effect::kNamedKeys:
      if (!whole && (args.size() < 2 || !value_is_last(args.front()))) return Mark::kEverything;
      return marks.mark_of(args.subspan(1));
    case Effect::kAnything:
      return Mark::kEverything;
  }
  return Mark::kEverything;
}

}  // namespace keyferry::gateway
