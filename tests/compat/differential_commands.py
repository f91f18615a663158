"""Random commands for differential.py: from the server's COMMAND DOCS, and from templates for what needs to fit together.

A word in braces is made by the maker of that name; all of it comes from the seed's random generator. KNOWN has what is left out because it is known to differ.
"""

import dataclasses
import hashlib
import re

from wire import request

SCRIPTS = [
    "return {1,'two',{3,{4}},false,true}", "return redis.error_reply('MY error')", "return {err='ERR custom'}", "return {ok='FINE'}",
    "return redis.call('GET',KEYS[1])", "return redis.call('SET',KEYS[1],ARGV[1])", "return redis.pcall('LPUSH',KEYS[1],'x')", "return nosuchthing.x",
    "redis.setresp(3); return redis.call('HGETALL',KEYS[1])", "redis.setresp(3); return {double=3.25}", "redis.setresp(3); return {map={a=1}}",
    "return redis.call('SELECT',3)", "return redis.call('SUBSCRIBE','c')", "return redis.call('PUBLISH','c0','by script')", "return {big_number='12'}",
    "#!lua flags=no-writes\nreturn redis.call('SET',KEYS[1],'x')", "#!lua\nreturn 1", "return redis.sha1hex(ARGV[1] or '')", "syntax error here",
    "return redis.call('INCR',KEYS[1])", "return redis.status_reply('WELL')", "return server.call('PING')", "return redis.call('CLIENT','SETNAME','x')",
    "return redis.call('MULTI')", "return redis.call('BLPOP',KEYS[1],0)", "return redis.acl_check_cmd('SET',KEYS[1],'v')", "return 3.99", "return nil",
    "redis.setresp(4)", "redis.log(redis.LOG_WARNING,'x') return string.rep('y',100)", "return redis.call()", "return redis.call('NOSUCH')",
]  # fmt: skip

LIBRARY = (
    "#!lua name=lib{n}\nredis.register_function('f{n}',function(k,a) return redis.call('GET',k[1]) end)\n"
    "redis.register_function{{function_name='r{n}',callback=function(k,a) return {{1,a[1]}} end,flags={{'no-writes'}}}}"
)

# Words that stand for the id of the client on that connection.
CLIENT_WORDS = [b"\x01id%d\x01" % number for number in range(4)]

# What a word in braces becomes: a function of the Maker.
MAKERS = {
    "string": lambda m: m.pick_key("s", 4),
    "hash": lambda m: m.pick_key("h", 3),
    "list": lambda m: m.pick_key("l", 3),
    "set": lambda m: m.pick_key("e", 3),
    "zset": lambda m: m.pick_key("z", 3),
    "stream": lambda m: m.pick_key("x", 2),
    "geo": lambda m: m.pick_key("g", 2),
    "hll": lambda m: m.pick_key("p", 2),
    "bits": lambda m: m.pick_key("b", 2),
    "key": lambda m: m.pick_key(m.random.choice("sshlezxgpb"), 2),
    "value": lambda m: m.value(),
    "member": lambda m: m.random.choice([b"m0", b"m1", b"m2", b"m3", b"", b"\x00\r\n\xff", b"17"]),
    "int": lambda m: m.random.choice([0, 1, 2, 3, 5, 10, -1, -2, 100, 4294967296, -9223372036854775808]),
    "small": lambda m: m.random.randint(-2, 6),
    "float": lambda m: m.random.choice(["0", "1.5", "-2.25", "3e2", "inf", "-inf", "nan", "17179869184.7", "0.1"]),
    "ttl": lambda m: m.random.choice([100000, 7200, 100000000]),
    "at": lambda m: m.random.choice([4102444800, 4102444800000]),
    "count": lambda m: m.random.choice([0, 1, 2, 10, 1000, -1]),
    "cursor": lambda m: m.random.choice([0, 0, 0, 1, 17, "x"]),
    "pattern": lambda m: m.random.choice(["*", "s*", "m?", "[a-m]*", ""]),
    "name": lambda m: m.random.choice(["n0", "n1", "alice", "with space", "", "na\nme"]),
    "group": lambda m: m.random.choice(["g1", "g2"]),
    "consumer": lambda m: m.random.choice(["c1", "c2"]),
    "sid": lambda m: m.random.choice(["0", "0-0", "1-1", "5-0", "9-9", "$", ">", "+", "-", "*x"]),
    "newid": lambda m: f"{m.next_number()}-{m.random.randint(0, 3)}",
    "channel": lambda m: m.random.choice(["c0", "c1", "c2"]),
    "script": lambda m: m.random.choice(SCRIPTS),
    "sha": lambda m: hashlib.sha1(m.random.choice(SCRIPTS).encode()).hexdigest(),
    "library": lambda m: LIBRARY.format(n=m.random.randint(0, 1)),
    "function": lambda m: m.random.choice(["f0", "r0", "f1", "r1", "none"]),
    "db": lambda m: m.random.choice([0, 0, 1, 2, 15, 16, -1, "x"]),
    "user": lambda m: m.random.choice(["alice", "bob", "carol", "nobody"]),
    "client": lambda m: m.random.choice([*CLIENT_WORDS[:3], 999999]),
    "wait": lambda m: m.random.choice(["0.01", "0.01", "0.02", "0.01", "0", "-1", "x"]),
    "blockms": lambda m: m.random.choice([10, 20, 10, 0, -1]),
    "lon": lambda m: m.random.choice(["13.36", "15.08", "2.35", "181"]),
    "lat": lambda m: m.random.choice(["38.11", "37.5", "48.85", "-86"]),
    "unit": lambda m: m.random.choice(["m", "km", "ft", "mi", "parsec"]),
    "onoff": lambda m: m.random.choice(["ON", "OFF", "on", "maybe"]),
    "type": lambda m: m.random.choice(["u8", "i16", "u63", "i64", "u64", "i0"]),
    "side": lambda m: m.random.choice(["LEFT", "RIGHT"]),
    "rule": lambda m: m.random.choice([
        "+@all", "-set", "+get", "~s*", "resetkeys", "allkeys", "+@read", "%R~*", "&c*", "resetchannels", "allchannels", "+nosuch",
        "+client", "-select", "on",
    ]),
    "protocol": lambda m: m.random.choice([2, 3, 3, 3, 2, 1, 4, "x"]),
    "info": lambda m: m.random.choice(["server", "nosuch", "errorstats"]),
    "debugtype": lambda m: m.random.choice("string integer double null array set map attrib verbatim true false bignum nosuch".split()),
}  # fmt: skip

# Families of templates; a seed gives each family a weight of its own.
FAMILIES = {
    "strings": """
        SET {string} {value} | SET {string} {value} | GET {string} | GET {string} | GETSET {string} {value} | APPEND {string} {value} | INCR {string} |
        INCRBYFLOAT {string} {float} | SETRANGE {string} {small} {value} | MGET {string} {string} {key} | MSET {string} {value} {string} {value} |
        MSETNX {string} a {string} b | SET {string} {value} EX {ttl} GET | SET {string} {value} IFEQ {value} | GETEX {string} EX {ttl} | GETDEL {string} |
        STRLEN {string} | LCS {string} {string} IDX | GETRANGE {string} {int} {int} | SETEX {string} {ttl} {value} | DELIFEQ {string} {value} |
        DECRBY {string} {int} | SET {string} 10 | MSETEX 2 {string} a {string} b EX {ttl}""",
    "hashes": """
        HSET {hash} {member} {value} {member} {value} | HGET {hash} {member} | HGETALL {hash} | HDEL {hash} {member} | HINCRBY {hash} {member} {int} |
        HINCRBYFLOAT {hash} {member} {float} | HMGET {hash} {member} {member} | HKEYS {hash} | HVALS {hash} | HLEN {hash} |
        HSCAN {hash} {cursor} COUNT {count} | HSCAN {hash} 0 NOVALUES | HSTRLEN {hash} {member} | HSETNX {hash} {member} {value} |
        HEXPIRE {hash} {ttl} FIELDS 1 {member} | HTTL {hash} FIELDS 1 {member} | HPERSIST {hash} FIELDS 2 {member} {member} |
        HSETEX {hash} EX {ttl} FIELDS 1 {member} {value} | HGETEX {hash} PERSIST FIELDS 1 {member} | HGETDEL {hash} FIELDS 1 {member}""",
    "lists": """
        RPUSH {list} {value} {value} | LPUSH {list} {value} | LPOP {list} | LPOP {list} {count} | RPOP {list} | LRANGE {list} 0 -1 |
        LINDEX {list} {small} | LINSERT {list} BEFORE {value} {value} | LMOVE {list} {list} {side} {side} | LMPOP 2 {list} {list} {side} COUNT {count} |
        LPOS {list} {value} COUNT {count} | LREM {list} {small} {value} | LSET {list} {small} {value} | LTRIM {list} {small} {small} |
        RPOPLPUSH {list} {list} | LLEN {list} | LPUSHX {list} {value}""",
    "sets": """
        SADD {set} {member} {member} {int} | SREM {set} {member} | SMEMBERS {set} | SPOP {set} 1000 | SINTER {set} {set} | SUNION {set} {set} |
        SDIFFSTORE {set} {set} {set} | SINTERCARD 2 {set} {set} LIMIT {small} | SMISMEMBER {set} {member} {member} | SMOVE {set} {set} {member} |
        SSCAN {set} {cursor} | SORT {set} ALPHA | SCARD {set} | SORT {list} ALPHA DESC LIMIT 0 {count} GET # STORE {list} | SORT_RO {zset} BY nosort |
        SRANDMEMBER {set} {count}""",
    "zsets": """
        ZADD {zset} {float} {member} {float} {member} | ZADD {zset} CH INCR {float} {member} | ZRANGE {zset} 0 -1 WITHSCORES |
        ZRANGEBYSCORE {zset} -inf +inf WITHSCORES LIMIT 0 {count} | ZRANK {zset} {member} WITHSCORE | ZPOPMIN {zset} {count} | ZMPOP 1 {zset} MAX |
        ZINCRBY {zset} {float} {member} | ZSCORE {zset} {member} | ZMSCORE {zset} {member} {member} | ZUNION 2 {zset} {set} WITHSCORES |
        ZINTERSTORE {zset} 2 {zset} {zset} WEIGHTS {float} 2 AGGREGATE MAX | ZDIFF 2 {zset} {zset} | ZSCAN {zset} {cursor} |
        ZRANGESTORE {zset} {zset} 0 -1 | ZRANGEBYLEX {zset} - + | ZREMRANGEBYRANK {zset} {small} {small} | ZRANDMEMBER {zset} 2 WITHSCORES |
        ZCOUNT {zset} (1 {float}""",
    "streams": """
        XADD {stream} {newid} f {value} | XADD {stream} {newid} f {value} | XADD {stream} NOMKSTREAM MAXLEN = 5 {newid} f v |
        XRANGE {stream} - + COUNT {count} | XREVRANGE {stream} + {sid} | XLEN {stream} | XREAD COUNT {count} STREAMS {stream} {sid} |
        XREAD STREAMS {stream} {stream} 0 0 | XGROUP CREATE {stream} {group} {sid} MKSTREAM | XGROUP CREATECONSUMER {stream} {group} {consumer} |
        XREADGROUP GROUP {group} {consumer} COUNT {count} STREAMS {stream} > | XREADGROUP GROUP {group} {consumer} STREAMS {stream} 0 |
        XACK {stream} {group} {sid} {sid} | XPENDING {stream} {group} | XPENDING {stream} {group} - + 10 | XCLAIM {stream} {group} {consumer} 0 {sid} |
        XAUTOCLAIM {stream} {group} {consumer} 0 0 | XINFO STREAM {stream} | XINFO STREAM {stream} FULL | XINFO GROUPS {stream} |
        XINFO CONSUMERS {stream} {group} | XDEL {stream} {sid} | XTRIM {stream} MAXLEN {count} | XSETID {stream} {newid} |
        XGROUP SETID {stream} {group} {sid} | XGROUP DESTROY {stream} {group}""",
    "bits": """
        SETBIT {bits} {small} 1 | GETBIT {bits} {int} | BITCOUNT {bits} 0 -1 BIT | BITOP XOR {bits} {bits} {string} | BITPOS {bits} 1 |
        BITFIELD {bits} SET {type} {small} {int} GET {type} #1 OVERFLOW FAIL INCRBY {type} 0 {int} | BITFIELD_RO {bits} GET {type} 0 |
        PFADD {hll} {member} {value} | PFCOUNT {hll} {hll} | PFMERGE {hll} {hll} | PFDEBUG ENCODING {hll}""",
    "geo": """
        GEOADD {geo} {lon} {lat} {member} | GEODIST {geo} {member} {member} {unit} | GEOHASH {geo} {member} | GEOPOS {geo} {member} {member} |
        GEOSEARCH {geo} FROMLONLAT {lon} {lat} BYRADIUS 3000 {unit} ASC WITHCOORD WITHDIST WITHHASH |
        GEOSEARCHSTORE {geo} {geo} FROMMEMBER {member} BYBOX 900 900 km | GEORADIUS {geo} {lon} {lat} 3000 km STORE {zset} |
        GEORADIUSBYMEMBER_RO {geo} {member} 3000 km""",
    "keys": """
        DEL {key} {key} | UNLINK {key} | EXISTS {key} {key} | TYPE {key} | EXPIRE {key} {ttl} | EXPIRE {key} {ttl} GT | PEXPIREAT {key} {at} |
        EXPIRETIME {key} | TTL {key} | PTTL {key} | PERSIST {key} | RENAME {key} {key} | RENAMENX {key} {key} | COPY {key} {key} DB {db} REPLACE |
        MOVE {key} {db} | SWAPDB {db} {db} | SCAN {cursor} MATCH {pattern} COUNT {count} TYPE string | SCAN {cursor} | KEYS {pattern} | DBSIZE | FLUSHDB |
        TOUCH {key} | DUMP {key} | RESTORE {key} 0 {value} | OBJECT ENCODING {key} | OBJECT REFCOUNT {key} | OBJECT FREQ {key} | OBJECT HELP | RANDOMKEY |
        FLUSHALL | EXPIRE {key} -1 | WAIT 0 0 | WAITAOF 0 0 0""",
    "transactions": """
        MULTI | MULTI | MULTI | EXEC | EXEC | EXEC | DISCARD | WATCH {key} {key} | WATCH {string} | WATCH {string} | UNWATCH | SET {string} {value} |
        INCR {string} | GET {string} | LPUSH {string} x | NOSUCH | GET | RESET | SELECT {db} | HELLO {protocol} | SUBSCRIBE {channel} |
        EVAL {script} 1 {string} | BLPOP {list} 0 | CLIENT SETNAME {name} | CLIENT GETNAME | CLIENT REPLY SKIP | AUTH {user} pw | PUBLISH {channel} m |
        WAIT 0 0 | PING | CLIENT TRACKING {onoff} | CLIENT ID | FLUSHALL | SCRIPT LOAD {script} | ACL WHOAMI | CLIENT NO-EVICT on | CLIENT CACHING yes |
        HGETALL {hash} | HELLO {protocol} SETNAME {name} | XREAD BLOCK 0 STREAMS {stream} $ | UNSUBSCRIBE | READONLY | QUIT | MULTI EXEC | SWAPDB 0 1 |
        ECHO {value}""",
    "scripts": """
        EVAL {script} 1 {string} | EVAL {script} 1 {hash} {value} | EVAL {script} 0 | EVAL_RO {script} 1 {string} | EVALSHA {sha} 1 {string} {value} |
        EVALSHA_RO {sha} 1 {string} | SCRIPT LOAD {script} | SCRIPT EXISTS {sha} {sha} | SCRIPT FLUSH | SCRIPT SHOW {sha} |
        FUNCTION LOAD REPLACE {library} | FUNCTION LOAD {library} | FCALL {function} 1 {string} {value} | FCALL_RO {function} 1 {string} | FUNCTION LIST |
        FUNCTION LIST WITHCODE LIBRARYNAME lib* | FUNCTION DELETE lib0 | FUNCTION DUMP | FUNCTION FLUSH | FUNCTION STATS | SCRIPT KILL | FUNCTION KILL |
        EVAL {script} {int} {string} | EVALSHA x 0 | SCRIPT | SCRIPT NOSUCH | FUNCTION RESTORE {value} | SCRIPT HELP | SCRIPT DEBUG NO""",
    "blocking": """
        BLPOP {list} {wait} | BLPOP {list} {list} {wait} | BRPOP {list} 0 | BLMOVE {list} {list} {side} {side} {wait} |
        BLMPOP {wait} 2 {list} {list} {side} | BRPOPLPUSH {list} {list} {wait} | BZPOPMIN {zset} {wait} | BZMPOP {wait} 1 {zset} MIN |
        XREAD BLOCK {blockms} STREAMS {stream} $ | XREAD BLOCK {blockms} STREAMS {stream} 0 |
        XREADGROUP GROUP {group} {consumer} BLOCK {blockms} STREAMS {stream} > | RPUSH {list} {value} | RPUSH {list} {value} {value} |
        ZADD {zset} 1 {member} | XADD {stream} {newid} f v | CLIENT UNBLOCK {client} | CLIENT UNBLOCK {client} ERROR | LPUSH {list} {value} | DEL {list} |
        FLUSHALL | SET {list} x | XGROUP DESTROY {stream} {group} | WAIT 0 10 | WAIT 1 10 | PING""",
    "pubsub": """
        SUBSCRIBE {channel} | SUBSCRIBE {channel} {channel} c0 | PSUBSCRIBE c* | PSUBSCRIBE n* c* | SSUBSCRIBE {channel} | UNSUBSCRIBE |
        UNSUBSCRIBE {channel} | PUNSUBSCRIBE | SUNSUBSCRIBE | SUNSUBSCRIBE {channel} | PUBLISH {channel} {value} | PUBLISH {channel} {value} |
        PUBLISH {channel} {value} | SPUBLISH {channel} {value} | PUBSUB CHANNELS | PUBSUB NUMSUB {channel} {channel} | PUBSUB NUMPAT |
        PUBSUB SHARDCHANNELS | PUBSUB SHARDNUMSUB {channel} | PING | PING {value} | RESET | GET {string} | QUIT | CLIENT GETNAME | HELLO {protocol} |
        MULTI | EXEC | SUBSCRIBE | PUNSUBSCRIBE c* x | CONFIG SET notify-keyspace-events KEA | SUBSCRIBE __keyevent@0__:set __keyspace@0__:s0 |
        SELECT {db} | CLIENT REPLY SKIP | ECHO x | INCR {string} | EXISTS""",
    "clients": """
        CLIENT SETNAME {name} | CLIENT GETNAME | CLIENT ID | CLIENT REPLY OFF | CLIENT REPLY SKIP | CLIENT REPLY ON | CLIENT REPLY ON |
        CLIENT REPLY {onoff} | CLIENT NO-EVICT {onoff} | CLIENT NO-TOUCH {onoff} | CLIENT TRACKING {onoff} | CLIENT TRACKING ON OPTIN |
        CLIENT TRACKING ON OPTOUT | CLIENT CACHING YES | CLIENT CACHING no | CLIENT CACHING maybe | CLIENT TRACKINGINFO | CLIENT GETREDIR |
        CLIENT CAPA redirect | CLIENT CAPA nosuch x | CLIENT SETINFO lib-name {name} | CLIENT SETINFO lib-ver {name} | CLIENT SETINFO nosuch x |
        CLIENT INFO | CLIENT KILL ID 0 | CLIENT KILL 1.2.3.4:5 | CLIENT KILL TYPE nosuch | CLIENT KILL USER {user} | CLIENT KILL SKIPME maybe |
        CLIENT UNPAUSE | CLIENT PAUSE 0 | CLIENT PAUSE x | CLIENT PAUSE 1 WRITE | CLIENT HELP | CLIENT | CLIENT NOSUCH | CLIENT REPLY |
        CLIENT IMPORT-SOURCE on | CLIENT MAINT_NOTIFICATIONS ON | SET {string} {value} | GET {string} | MGET {string} {hash} | INCR {string} | DEL {key} |
        FLUSHDB | HSET {hash} f v | HGETALL {hash} | SUBSCRIBE __redis__:invalidate | EVAL {script} 1 {string} | CLIENT UNBLOCK x |
        CLIENT UNBLOCK 999999 NOSUCH | READONLY | READWRITE | ASKING | SELECT {db} | RESET | HELLO {protocol} | MULTI | EXEC | CLIENT TRACKING ON BCAST |
        CLIENT TRACKING ON REDIRECT {client} | CLIENT KILL ID {client} | CLIENT LIST ID 0""",
    "identity": """
        HELLO {protocol} | HELLO | HELLO {protocol} SETNAME {name} | HELLO {protocol} AUTH {user} pw | HELLO {protocol} AUTH {user} wrong |
        HELLO {protocol} AUTH {user} | HELLO 3 NOSUCH | HELLO {protocol} AUTH {user} pw SETNAME {name} | AUTH {user} pw | AUTH {user} pw |
        AUTH {user} wrong | AUTH pw | AUTH | AUTH a b c | AUTH default any | SELECT {db} | SELECT {db} | ACL WHOAMI | ACL WHOAMI | RESET | QUIT |
        ACL SETUSER {user} on >pw {rule} | ACL SETUSER {user} on >pw {rule} {rule} | ACL SETUSER {user} {rule} | ACL GETUSER {user} | ACL LIST |
        ACL USERS | ACL CAT | ACL CAT nosuch | ACL DRYRUN {user} SET {string} x | ACL DRYRUN {user} NOSUCH | ACL LOG | ACL LOG RESET | ACL DELUSER nobody |
        ACL DELUSER default | ACL LOAD | ACL SAVE | ACL NOSUCH | ACL HELP | SET {string} {value} | GET {string} | PUBLISH {channel} x |
        SUBSCRIBE {channel} | CLIENT GETNAME | CLIENT SETNAME {name} | MULTI | EXEC | EVAL {script} 1 {string} | WAIT 0 0 | CLIENT ID | BLPOP {list} 0.01 |
        WATCH {string} | CLIENT TRACKING {onoff} | DBSIZE | SWAPDB 0 1""",
    "server": """
        DEBUG PROTOCOL {debugtype} | DEBUG PROTOCOL {debugtype} | DEBUG DIGEST-VALUE {key} {key} | DEBUG LISTPACK {key} | DEBUG STRINGMATCH-LEN 100 x |
        DEBUG ERROR {value} | DEBUG HELP | DEBUG | DEBUG NOSUCH | DEBUG SDSLEN nokey | DEBUG SET-ACTIVE-EXPIRE 1 | COMMAND COUNT |
        COMMAND INFO get {value} client | select | COMMAND GETKEYS SET {string} x | COMMAND GETKEYS NOSUCH | COMMAND GETKEYS EVAL x 2 a b |
        COMMAND GETKEYSANDFLAGS MSET a b | COMMAND LIST FILTERBY PATTERN x* | COMMAND DOCS get | COMMAND NOSUCH | COMMAND HELP | CONFIG GET maxmemory* |
        CONFIG GET nosuch | CONFIG SET nosuch x | CONFIG SET maxmemory | CONFIG RESETSTAT | CONFIG REWRITE | CONFIG SET lazyfree-lazy-user-del yes |
        INFO {info} | LATENCY LATEST | LATENCY DOCTOR | LATENCY RESET | LATENCY HISTORY x | LATENCY GRAPH x | LATENCY NOSUCH | MEMORY USAGE {key} |
        MEMORY DOCTOR | MEMORY PURGE | MEMORY HELP | MEMORY USAGE {key} SAMPLES {small} | SLOWLOG LEN | SLOWLOG RESET | SLOWLOG GET x |
        COMMANDLOG LEN nosuch | COMMANDLOG HELP | MODULE LIST | MODULE HELP | CLUSTER INFO | CLUSTER SLOTS | CLUSTER NOSUCH | CLUSTER KEYSLOT a | ROLE |
        TIME | ECHO {value} | PING {value} | PING a b | PING | LASTSAVE | REPLCONF x | REPLICAOF a | FAILOVER ABORT | SYNC x | PSYNC | MIGRATE a b |
        READONLY | READWRITE | ASKING | REPLCONF | RESTORE-ASKING a | SAVE x | SHUTDOWN x y z | CLUSTER | SLAVEOF x | QUIT x | RESET x | HELLO x | SELECT |
        GET a b | set | PFSELFTEST x | BGSAVE nosuch | SENTINEL x | SUBSTR {string} 0 3 | HELLO 4294967297 | MONITOR""",
    "blobs": """
        BLOB.TCP_SET {string} {value} | BLOB.TCP_GET {string} | BLOB.TCP_GET | BLOB.TCP_SET a | BLOB.TCP_GET {key} x | BLOB.INFO {string} |
        BLOB.TCP_SET {string} {value} x | BLOB.INFO | TYPE {string} | GET {string} | DEL {string} | MULTI | EXEC | BLOB.NOSUCH x""",
}  # fmt: skip

# Commands of an unusual form, and what is none but harmless.
INLINE = [
    b'PING\r\n', b'ping\n', b'\r\n', b'*0\r\n', b'*-1\r\n', b"SET s0 'a b'\r\n", b'GET "s0"\r\n', b'ECHO "\\x41\\n\\t"\r\n', b'*-5\r\n', b'*1\r\n$0\r\n\r\n',
    b'*2\r\n$0\r\n\r\n$1\r\na\r\n', b'  \t ping \t\r\n', b'MULTI\r\n', b'EXEC\r\n', b'nosuch a b c\r\n', b'$4\r\nPING\r\n', b'+OK\r\n', b':1\r\n',
    b'SUBSCRIBE c0\r\n', b'QUIT\r\n', b'GET\r\n', b'*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n', b'client reply skip\r\n', b'hello 3\r\n', b'""\r\n',
    b"'' x\r\n",
]  # fmt: skip

# What ends the connection.
FATAL = [
    b'ECHO "a"b\r\n', b"ECHO 'a\r\n", b'*x\r\n', b'*1\r\nPING\r\n', b'*1\r\n$x\r\n', b'*1\r\n$-1\r\n', b'*1\r\n$4\r\nPINGxx', b'*1\r\n$536870913\r\n',
    b'*01\r\n$4\r\nPING\r\n', b'*1\r\n$04\r\nPING\r\n', b'*+1\r\n$4\r\nPING\r\n', b'* 1\r\n', b'*1\r\n$4 \r\nPING\r\n', b'*1\n$4\r\nPING\r\n',
    b'*1\r\n\r\n$4\r\nPING\r\n', b'*3\r\n$3\r\nSET\r\n$2\r\ns0\r\n$1\r\nab\r\n', b'*1\r\n*1\r\n', b'*\r\n', b'*1\r\n$\r\n', b'*1\r\n$-2\r\n',
    b'*9223372036854775808\r\n', b'*1\r\n$99999999999999999999\r\n', b'*1\r\n$4\nPING\r\n', b'POST /\r\n', b'HOST: x\r\n',
]  # fmt: skip

# What docs-made commands leave out: what ends or stops the server, waits, or belongs to the world outside.
LEFT_OUT = set("""
    ACL|DELUSER ACL|GENPASS ACL|LOAD ACL|SAVE ACL|SETUSER AUTH BGREWRITEAOF BGSAVE BLMOVE BLMPOP BLOB.RDMA_GET BLOB.RDMA_HELLO BLOB.RDMA_SET BLOB.TCP_GET
    BLOB.TCP_SET BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN CLIENT|KILL CLIENT|LIST CLIENT|PAUSE CLIENT|REPLY CLIENT|SETINFO CLIENT|TRACKING
    CLIENT|UNBLOCK CLUSTER|RESET COMMAND COMMAND|DOCS COMMAND|INFO COMMAND|LIST CONFIG|GET CONFIG|REWRITE CONFIG|SET DEBUG FAILOVER INFO LARGEOBJ.FAULT
    LATENCY|HISTOGRAM LOLWUT MIGRATE MODULE|LOAD MODULE|LOADEX MODULE|UNLOAD MONITOR PFSELFTEST PSYNC REPLCONF REPLICAOF RESTORE RESTORE-ASKING SAVE
    SCRIPT|DEBUG SHUTDOWN SLAVEOF SPOP SYNC WAIT WAITAOF XADD XREAD XREADGROUP
""".split())  # fmt: skip

# Groups of the documentation and the key they like.
GROUP_KEYS = {"string": "s", "hash": "h", "list": "l", "set": "e", "sorted-set": "z", "stream": "x", "geo": "g", "hyperloglog": "p", "bitmap": "b"}
NAMED_MAKERS = {
    "seconds": "ttl", "milliseconds": "ttl", "cursor": "cursor", "longitude": "lon", "latitude": "lat", "count": "count", "group": "group",
    "consumer": "consumer", "channel": "channel", "shardchannel": "channel", "username": "user", "db": "db", "index": "db", "destination-db": "db",
    "script": "script", "sha1": "sha", "function": "function", "field": "member", "member": "member", "id": "sid", "protover": "protocol",
}  # fmt: skip
TYPE_MAKERS = {b"string": "value", b"integer": "int", b"double": "float", b"pattern": "pattern", b"unix-time": "at"}


# What keyferryd is known to answer otherwise, so that a step with it is made anew: an expression for the texts of its commands, a line each, and why.
# What ends a connection comes alone, and not while anything may wait.
KNOWN = {
    r"SCRIPT DEBUG": "the server refuses it in a pipeline; keyferryd sends it by itself",
    r"CLIENT TRACKING .*BCAST": "invalidations come at the end of the server's turn, and that is another one where keyferryd waits in between",
    r"CLIENT REPLY (SKIP|OFF)[\s\S]*(QUIT|RESET)": "without a reply to write the server does not end the connection, and others' may have left before",
    r"DEBUG PROTOCOL PUSH": "a push that nobody has asked for ends at a shared connection",
    r"^HELLO \S+ \x00": "in the error the option's name ends at the NUL",
    r"^CLIENT LIST": "local clients alone (README.md)",
    r"^MONITOR": "shows what keyferryd says itself (README.md)",
}


@dataclasses.dataclass(frozen=True)
class Request:
    """One command, or bytes that are none. `name` is upper-case, with its first argument: "CLIENT ID"."""

    name: str
    words: tuple
    raw: bytes = b""

    @classmethod
    def of(cls, *words):
        words = tuple(word if isinstance(word, bytes) else str(word).encode() for word in words)
        return cls(b" ".join(words[:2]).decode(errors="replace").upper(), words)

    @classmethod
    def of_bytes(cls, raw):
        return cls(raw.strip().decode("latin-1").upper(), (), raw)

    def data(self, ids):
        """What is sent; `ids` has the words that stand for clients' ids."""
        return self.raw or request(*(ids.get(word, word) for word in self.words))


@dataclasses.dataclass(frozen=True)
class Step:
    """Requests that one connection sends in one write; with `cut` in two, the first of so many bytes."""

    connection: int
    requests: tuple
    cut: int = 0


class Maker:
    """Makes the steps of one seed."""

    def __init__(self, random, docs):
        self.random = random
        self.docs = docs  # name as in the server's table -> description
        self.names = sorted(name for name in docs if name.upper() not in LEFT_OUT)
        self.templates = {name: [part.split() for part in text.split("|") if part.strip()] for name, text in FAMILIES.items()}
        self.weights = {name: random.choice([0, 0.3, 1, 4]) for name in [*FAMILIES, "docs", "raw"]}
        self.weights["docs"] += 0.5
        self.number = 0

    # --- words

    def next_number(self):
        self.number += 1
        return self.number

    def pick_key(self, kind, count):
        odd = self.random.random()
        if odd < 0.02:
            return self.random.choice([b"", b"\x00\r\n\xff*1", b"k" * 20000])
        return (self.random.choice("shlezx") if odd < 0.1 else kind) + str(self.random.randrange(count))

    def value(self):
        sort = self.random.random()
        if sort < 0.7:
            return self.random.choice([b"", b"1", b"-7", b"2.5", b"v", b"text \r\n$-1", b"\x00\xff", b"x" * 50, b"0"])
        if sort < 0.95:
            return b"w" * self.random.choice([1, 44, 45, 64, 65, 200, 5000])
        return b"L" * self.random.choice([16384, 32700, 65536, 66000, 131072, 204800])

    def words(self, template):
        return [MAKERS[word[1:-1]](self) if word[0] == "{" else word for word in template]

    # --- commands from the documentation

    def documented(self):
        name = self.random.choice(self.names)
        self.kind = GROUP_KEYS.get(self.docs[name].get(b"group", b"").decode(), "s")
        self.keys = 0
        words = name.split("|")
        for argument in self.docs[name].get(b"arguments", []):
            words += self.argument(argument)
        return words

    def argument(self, spec):
        flags = [flag.decode() for flag in spec.get(b"flags", [])]
        if "optional" in flags and self.random.random() < 0.6:
            return []
        times = self.random.randint(1, 3) if "multiple" in flags else 1
        if "multiple" in flags and spec[b"type"] == b"key" and self.keys:
            times, self.keys = self.keys, 0
        token = [spec[b"token"]] if b"token" in spec else []
        words = []
        for turn in range(times):
            words += token if turn == 0 or "multiple_token" in flags else []
            words += self.plain(spec)
        return words

    def plain(self, spec):
        kind, name = spec[b"type"], spec[b"name"].decode()
        if kind == b"pure-token":
            return []
        if kind == b"oneof":
            return self.argument(self.random.choice(spec[b"arguments"]))
        if kind == b"block":
            return [word for part in spec[b"arguments"] for word in self.argument(part)]
        if kind == b"key":
            return [self.pick_key(self.kind, 3)]
        if name == "numkeys":
            self.keys = self.random.randint(1, 3)
            return [self.keys]
        return [MAKERS[NAMED_MAKERS.get(name) or TYPE_MAKERS[kind]](self)]

    # --- requests and steps

    def spoiled(self, words):
        """Now and then a command is not quite right, or spelled otherwise."""
        sort = self.random.random()
        if sort < 0.03 and len(words) > 1:
            return words[:-1]
        if sort < 0.05:
            return [*words, "extra"]
        if sort < 0.08 and len(words) > 1:
            words[self.random.randrange(1, len(words))] = self.random.choice([b"", b"-1", b"99999999999999999999", b"\x00", b"4294967297", b"y" * 66000])
        elif sort < 0.11:
            words[0] = "".join(self.random.choice([letter.lower(), letter.upper()]) for letter in str(words[0]))
        return words

    def request(self):
        family = self.random.choices(list(self.weights), self.weights.values())[0]
        if family == "raw":
            return Request.of_bytes(self.random.choice(INLINE))
        words = self.documented() if family == "docs" else self.words(self.random.choice(self.templates[family]))
        return Request.of(*self.spoiled(words))

    def pipeline(self):
        while True:
            requests = tuple(self.request() for _ in range(self.random.choice([1, 1, 1, 2, 3, 5])))
            text = "\n".join(b" ".join(one.words or [one.raw.strip()]).decode("latin-1") for one in requests)
            if not any(re.search(pattern, text, re.IGNORECASE | re.MULTILINE) for pattern in KNOWN):
                return requests

    def steps(self, count):
        users = [("carol", "+@all", "~s*"), ("alice", "+@all", "~*", "&*", "-flushall", "-debug"),
                 ("bob", "+@read", "+swapdb", "~*")]  # fmt: skip
        yield Step(0, tuple(Request.of("ACL", "SETUSER", name, "on", ">pw", *rules) for name, *rules in users))
        connections = self.random.randint(1, 4)
        for connection in range(connections):
            if self.random.random() < 0.5:
                yield Step(connection, (Request.of("HELLO", 3),))
        for _ in range(count):
            if self.weights["raw"] and not self.weights["blocking"] and self.random.random() < 0.04:
                # The server keeps a connection that it has no reply to close behind (CLIENT REPLY).
                yield Step(self.random.randrange(connections), (Request.of("CLIENT", "REPLY", "ON"), Request.of_bytes(self.random.choice(FATAL))))
            requests = self.pipeline()
            size = sum(len(one.data({})) for one in requests)
            yield Step(self.random.randrange(connections), requests, self.random.randrange(size) if self.random.random() < 0.1 else 0)
