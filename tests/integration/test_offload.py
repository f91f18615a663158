"""Plain SET and GET under transfer.offload: every row of lib/gateway/OFFLOAD.md, against what a client sees that asks the server directly for a key outside."""

import threading

import pytest
from running_stack import wait_until
from ways import KIB, Travelled, reasons
from wire import ErrorReply, Pattern, request

CONFIG = {"transfer": {"threshold": "64KiB", "offload": ["off:", "other:"]}, "pool": {"size": "32MiB", "region": "64KiB"}, "limits": {"value_max": "16MiB"}}
pytestmark = pytest.mark.stack(config=CONFIG)

SMALL = b"s" * 100
BELOW = Pattern(64 * KIB - 1, 1).bytes()
EXACT = Pattern(64 * KIB, 2).bytes()
LARGE = Pattern(300 * KIB + 7, 3).bytes()
LARGER = Pattern(2048 * KIB + 1, 4).bytes()

# What holds what at the start of each sequence.
KINDS = {"nothing": [], "small string": [("SET", "{k}", SMALL)], "object": [("SET", "{k}", LARGE)], "list": [("RPUSH", "{k}", "a", "b")]}

# Each is sent with a key under the prefix through keyferryd, and with one outside straight to the server: the bytes of the replies must be the same.
SAME = {
    "SET and GET": [("SET", "{k}", LARGER), ("GET", "{k}"), ("STRLEN", "{k}"), ("SET", "{k}", EXACT), ("GET", "{k}")],
    "SET below the threshold": [("SET", "{k}", BELOW), ("GET", "{k}"), ("GETRANGE", "{k}", 3, 9), ("SET", "{k}", SMALL), ("GET", "{k}")],
    "SET with an expiry": [("SET", "{k}", LARGE, "EX", 1000), ("TTL", "{k}"), ("SET", "{k}", LARGE, "px", 2000000), ("TTL", "{k}"), ("GET", "{k}"),
                           ("SET", "{k}", LARGE, "EXAT", 4000000000), ("EXPIRETIME", "{k}"), ("SET", "{k}", LARGE, "PXAT", 4000000000123), ("PEXPIRETIME", "{k}"),
                           ("GET", "{k}"), ("SET", "{k}", LARGE), ("TTL", "{k}")],
    "SET that has expired": [("SET", "{k}", LARGE, "PXAT", 1000), ("GET", "{k}"), ("EXISTS", "{k}")],
    "SET with a bad expiry": [("SET", "{k}", LARGE, "EX", 0), ("SET", "{k}", LARGE, "EX", "x"), ("SET", "{k}", LARGE, "PXAT", -1), ("SET", "{k}", LARGE, "EX", "9223372036854775807"),
                              ("SET", "{k}", LARGE, "EX"), ("SET", "{k}", LARGE, "NOSUCH"), ("EXISTS", "{k}")],
    "SET NX": [("SET", "{k}", LARGE, "NX"), ("EXISTS", "{k}"), ("SET", "{k}", SMALL, "NX")],
    "SET XX": [("SET", "{k}", LARGE, "XX"), ("EXISTS", "{k}"), ("SET", "{k}", SMALL, "XX"), ("EXISTS", "{k}")],
    "SET KEEPTTL": [("EXPIRE", "{k}", 1000), ("SET", "{k}", LARGE, "KEEPTTL"), ("TTL", "{k}"), ("GET", "{k}"), ("SET", "{k}", SMALL, "KEEPTTL"), ("TTL", "{k}")],
    "SET takes the expiry away": [("EXPIRE", "{k}", 1000), ("SET", "{k}", LARGE), ("TTL", "{k}"), ("EXPIRE", "{k}", 1000), ("SET", "{k}", SMALL), ("TTL", "{k}")],
    "GET": [("GET", "{k}"), ("GET", "{k}"), ("GET",), ("GET", "{k}", "x"), ("get", "{k}")],
    "GETDEL": [("GETDEL", "{k}"), ("EXISTS", "{k}"), ("GETDEL", "{k}"), ("GETDEL",)],
    "GETEX": [("GETEX", "{k}"), ("TTL", "{k}"), ("GETEX", "{k}", "EX", 1000), ("TTL", "{k}"), ("GETEX", "{k}", "PERSIST"), ("TTL", "{k}"),
              ("GETEX", "{k}", "PXAT", 4000000000123), ("PEXPIRETIME", "{k}"), ("GETEX", "{k}", "NOSUCH"), ("GETEX", "{k}", "EX", "1", "PERSIST")],
    "GETEX with a bad expiry": [("GETEX", "{k}", "EX", 0), ("GETEX", "{k}", "PX", "x"), ("EXISTS", "{k}")],
    "GETEX in the past": [("GETEX", "{k}", "EXAT", 1), ("EXISTS", "{k}")],
    "STRLEN, EXISTS, TTL": [("STRLEN", "{k}"), ("EXISTS", "{k}", "{k}"), ("TTL", "{k}"), ("EXPIRE", "{k}", 1000), ("TTL", "{k}"), ("PERSIST", "{k}"), ("TTL", "{k}"), ("TOUCH", "{k}")],
    "DEL": [("DEL", "{k}"), ("GET", "{k}"), ("EXISTS", "{k}")],
    "UNLINK": [("UNLINK", "{k}"), ("STRLEN", "{k}")],
    "MGET": [("MGET", "{k}"), ("MGET", "{k}", "{k}:none", "{k}"), ("MGET",)],
    "INCR and its kin": [("INCR", "{k}"), ("DECR", "{k}"), ("INCRBY", "{k}", 5), ("DECRBY", "{k}", "x"), ("INCRBYFLOAT", "{k}", "1.5"), ("GET", "{k}")],
    "SETEX, PSETEX, SETNX, MSET": [("SETNX", "{k}", LARGE), ("SETEX", "{k}", 1000, LARGE), ("TTL", "{k}"), ("GET", "{k}"), ("PSETEX", "{k}", 2000000, SMALL), ("TTL", "{k}"),
                                   ("MSET", "{k}", LARGE, "{k}:2", SMALL), ("GET", "{k}"), ("MSETNX", "{k}", SMALL), ("DEL", "{k}:2")],
    "commands of other types": [("LPUSH", "{k}", "x"), ("HGET", "{k}", "f"), ("SADD", "{k}", "m"), ("DEL", "{k}")],
    "RENAMENX": [("SET", "{k}:2", SMALL), ("RENAMENX", "{k}", "{k}:2"), ("DEL", "{k}:2"), ("RENAMENX", "{k}", "{k}:2"), ("EXISTS", "{k}", "{k}:2"), ("DEL", "{k}", "{k}:2")],
    "MOVE": [("MOVE", "{k}", 1), ("EXISTS", "{k}"), ("GET", "{k}"), ("SELECT", 1), ("MOVE", "{k}", 0), ("SELECT", 0), ("EXISTS", "{k}"), ("MOVE", "{k}", 0), ("MOVE", "{k}", "x")],
    "SORT": [("SORT", "{k}", "ALPHA"), ("SORT_RO", "{k}", "LIMIT", 0, 0), ("SORT", "{k}", "NOSUCH")],
    "MIGRATE": [("MIGRATE", "127.0.0.1", 1, "{k}", 0, 1000), ("MIGRATE", "127.0.0.1", "x", "{k}", 0, 1000), ("EXISTS", "{k}")],
    "SET and GET in a transaction": [("MULTI",), ("SET", "{k}", LARGE), ("GET", "{k}"), ("STRLEN", "{k}"), ("SET", "{k}", SMALL, "EX", 1000), ("TTL", "{k}"), ("EXEC",), ("GET", "{k}"),
                                     ("WATCH", "{k}"), ("SET", "{k}", LARGE), ("MULTI",), ("DEL", "{k}"), ("EXEC",), ("GET", "{k}"), ("MULTI",), ("GET", "{k}:none"), ("DISCARD",)],
    "SET and GET in a script": [("EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", 1, "{k}", LARGE), ("EVAL", "return redis.call('GET', KEYS[1])", 1, "{k}"), ("GET", "{k}"),
                                ("EVAL", "return redis.call('EXISTS', KEYS[1]) + redis.call('DEL', KEYS[1])", 1, "{k}"), ("GET", "{k}")],
    "RENAME and COPY within the prefix": [("RENAME", "{k}", "{k}:2"), ("GET", "{k}:2"), ("EXISTS", "{k}"), ("COPY", "{k}:2", "{k}"), ("GET", "{k}"), ("DEL", "{k}", "{k}:2")],
}  # fmt: skip

# What the module's type makes different from a string, with the reply that a client of keyferryd gets where the key holds an object.
NOT_CARRIED_OUT = "ERR keyferry: the key holds a large object (transfer.offload), on which this command is not carried out; GET it, or store it anew by SET"
NO_OLD_VALUE = "ERR keyferry: the key holds a large object (transfer.offload), which can't be compared with or returned while it is replaced; nothing was changed"
NO_PAYLOAD = "ERR keyferry: the key holds a large object (transfer.offload), which the server can't serialise"
ON_OBJECT = [
    (("APPEND", "{k}", "x"), NOT_CARRIED_OUT), (("APPEND", "{k}", LARGE), NOT_CARRIED_OUT), (("APPEND", "{k}", LARGER), NOT_CARRIED_OUT),
    (("SETRANGE", "{k}", 5, "x"), NOT_CARRIED_OUT), (("GETRANGE", "{k}", 0, 5), NOT_CARRIED_OUT), (("SUBSTR", "{k}", 0, 5), NOT_CARRIED_OUT),
    (("LCS", "{k}", "{k}"), NOT_CARRIED_OUT), (("SETBIT", "{k}", 1, 1), NOT_CARRIED_OUT), (("GETBIT", "{k}", 1), NOT_CARRIED_OUT), (("BITCOUNT", "{k}"), NOT_CARRIED_OUT),
    (("BITPOS", "{k}", 1), NOT_CARRIED_OUT), (("BITFIELD", "{k}", "GET", "u8", 0), NOT_CARRIED_OUT), (("BITFIELD_RO", "{k}", "GET", "u8", 0), NOT_CARRIED_OUT),
    (("BITOP", "NOT", "{k}:2", "{k}"), NOT_CARRIED_OUT), (("GETSET", "{k}", "x"), NO_OLD_VALUE), (("GETSET", "{k}", LARGE), NO_OLD_VALUE), (("SET", "{k}", "x", "GET"), NO_OLD_VALUE),
    (("SET", "{k}", LARGE, "GET"), NO_OLD_VALUE), (("SET", "{k}", LARGER, "XX", "GET"), NO_OLD_VALUE), (("SET", "{k}", "x", "IFEQ", "y"), NO_OLD_VALUE),
    (("DELIFEQ", "{k}", "x"), NO_OLD_VALUE), (("DELIFEQ", "{k}", LARGE), NO_OLD_VALUE), (("DUMP", "{k}"), NO_PAYLOAD),
]  # fmt: skip


def named(commands, key):
    return [tuple(word.replace("{k}", key) if isinstance(word, str) else word for word in words) for words in commands]


def raw_replies(wire, commands):
    """The bytes that answer these commands, sent one after the other as one pipeline."""
    sender = threading.Thread(target=wire.raw, args=(b"".join(request(*words) for words in commands) + request("ECHO", "the-end-of-it"),))
    sender.start()
    end, answer = b"$13\r\nthe-end-of-it\r\n", bytearray()
    while not answer.endswith(end):
        part = wire.socket.recv(1 << 20)
        assert part, f"closed after {bytes(answer[-200:])!r}"
        answer += part
    sender.join()
    return bytes(answer)


@pytest.fixture
def plain(stack):
    """A client of the server that knows nothing of keyferryd."""
    with stack.wire(direct=True) as wire:
        yield wire


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_answered_as_the_server_answers_for_a_string(stack, kind, protocol):
    with stack.wire(protocol=protocol) as through, stack.wire(direct=True, protocol=protocol) as direct:
        for name, commands in SAME.items():
            sequence = [("DEL", "{k}"), *KINDS[kind], *commands]
            got, wanted = raw_replies(through, named(sequence, "off:k")), raw_replies(direct, named(sequence, "own:k"))
            if got != wanted:
                at = next((i for i in range(min(len(got), len(wanted))) if got[i] != wanted[i]), min(len(got), len(wanted)))
                pytest.fail(f"{name}, on {kind}: {len(got)} and {len(wanted)} bytes, from {at}: {got[max(0, at - 40) : at + 200]!r} instead of {wanted[max(0, at - 40) : at + 200]!r}")
    stack.wait_quiet()
    assert not [key for key in stack.direct().scan_iter("*:keyferry:*")], "a key that a command has left"


@pytest.mark.parametrize("protocol", [2, 3])
def test_what_a_large_object_cannot_do_gets_an_error_that_says_so_and_changes_nothing(stack, plain, protocol):
    with stack.wire(protocol=protocol) as through:
        assert through.call("SET", "off:o", LARGE, "EX", 1000) == b"OK"
        for words, text in ON_OBJECT:
            assert through.call(*named([words], "off:o")[0]) == text, words[:2]
            assert plain.call("TYPE", "off:o") == b"largeob-k"
        assert through.call("GET", "off:o") == LARGE
        assert plain.call("EXISTS", "off:o:2") == 0 and plain.call("TTL", "off:o") > 900
        # The same on strings and on nothing is the server's business.
        for kind in ("nothing", "small string", "list"):
            sequence = [step for words, _ in ON_OBJECT for step in (("DEL", "{k}", "{k}:2"), *KINDS[kind], words)]
            sequence = [words for words in sequence if words[0] != "DUMP"]
            with stack.wire(direct=True, protocol=protocol) as direct:
                assert raw_replies(through, named(sequence, "off:k")) == raw_replies(direct, named(sequence, "own:k"))


def test_transactions_and_scripts_see_an_object_as_the_server_does(stack, plain):
    wrong = "WRONGTYPE Operation against a key holding the wrong kind of value"
    with stack.wire() as through:
        assert through.call("SET", "off:m", LARGE) == b"OK"
        assert through.call("MULTI") == b"OK"
        for words in (("GET", "off:m"), ("GETDEL", "off:m"), ("APPEND", "off:m", "x"), ("EXISTS", "off:m"), ("TYPE", "off:m")):
            assert through.call(*words) == b"QUEUED"
        assert through.call("EXEC") == [wrong, wrong, wrong, 1, b"largeob-k"]
        for words in (("GET", "off:m"), ("STRLEN", "off:m"), ("SET", "off:m", "x", "GET")):
            answer = through.call("EVAL", "return redis.call(unpack(ARGV))", 1, "off:m", *words)
            assert isinstance(answer, ErrorReply) and wrong in answer, answer
        assert through.call("EVAL", "return redis.call('EXISTS', KEYS[1])", 1, "off:m") == 1
        assert through.call("GET", "off:m") == LARGE
        assert through.call("EVAL", "return redis.call('SET', KEYS[1], 'new')", 1, "off:m") == b"OK"
        assert through.call("GET", "off:m") == b"new" and plain.call("TYPE", "off:m") == b"string"


def test_RESTORE_makes_a_string_beside_and_in_place_of_an_object(stack, plain):
    plain.call("SET", "own:dumped", LARGE)
    payload = plain.call("DUMP", "own:dumped")
    sequence = [("RESTORE", "{k}", 0, payload), ("RESTORE", "{k}:2", 0, payload), ("GET", "{k}:2"), ("RESTORE", "{k}", 0, payload, "REPLACE"), ("GET", "{k}"),
                ("RESTORE", "{k}", 0, "broken", "REPLACE"), ("GET", "{k}"), ("DEL", "{k}", "{k}:2")]  # fmt: skip
    with stack.wire() as through:
        for kind in KINDS:
            commands = [("DEL", "{k}"), *KINDS[kind], *sequence]
            assert raw_replies(through, named(commands, "off:r")) == raw_replies(plain, named(commands, "own:r")), kind


def test_what_kind_a_value_is_stored_as(stack, plain):
    rows = [
        ((SMALL,), b"string"), ((BELOW,), b"string"), ((EXACT,), b"largeob-k"), ((LARGER,), b"largeob-k"), ((LARGE, "EX", 100), b"largeob-k"), ((LARGE, "PXAT", 4000000000123), b"largeob-k"),
        ((LARGE, "XX"), b"string"), ((LARGE, "KEEPTTL"), b"string"), ((LARGE, "EX", 100, "XX"), b"string"),
    ]  # fmt: skip
    with stack.wire() as through:
        for before in ((), (SMALL,), (LARGE,)):
            for words, kind in rows:
                through.call("DEL", "off:t")
                through.call("SET", "off:t", *(before or (b"x",)))
                if not before:
                    through.call("DEL", "off:t")
                stored = through.call("SET", "off:t", *words)
                assert stored == (None if not before and "XX" in words else b"OK")
                if stored:
                    assert plain.call("TYPE", "off:t") == kind, (before[:1], words[1:])
                    assert through.call("GET", "off:t") == words[0]
        for key, kind in (("other:1", b"largeob-k"), ("of:1", b"string"), ("xoff:1", b"string"), ("off", b"string")):
            assert through.call("SET", key, LARGE) == b"OK"
            assert plain.call("TYPE", key) == kind and through.call("GET", key) == LARGE
        # As it is: the type and a name outside the prefix show what the value is.
        assert through.call("TYPE", "other:1") == b"largeob-k"
        assert through.call("RENAME", "other:1", "out") == b"OK"
        assert through.call("GET", "out").startswith("WRONGTYPE") and through.call("BLOB.TCP_GET", "out") == LARGE
        assert through.call("DEL", "out", "of:1", "xoff:1", "off") == 4


def test_large_values_travel_by_the_fabric_and_the_rest_is_counted_with_its_reason(stack):
    with stack.wire() as through:
        through.call("DEL", "off:f")
        travelled, before = Travelled(stack), reasons(stack)
        assert through.call("SET", "off:f", LARGE) == b"OK"
        assert through.call("GET", "off:f") == LARGE
        assert through.call("SET", "off:f", SMALL) == b"OK"
        assert through.call("SET", "off:f", LARGER, "EX", 100) == b"OK"  # over a string
        assert through.call("GETEX", "off:f", "PERSIST") == LARGER
        assert through.call("GETDEL", "off:f") == LARGER
        since = travelled.since()
        assert since["bytes", "set"] == len(LARGE) + len(LARGER) and since["bytes", "get"] == len(LARGE) + 2 * len(LARGER)
        assert (since["set", "rdma"], since["get", "rdma"], since["set", "tcp"], since["get", "tcp"]) == (2, 3, 0, 0)
        assert reasons(stack) == before
        assert through.call("SET", "off:f", LARGE, "NX") == b"OK"
        assert reasons(stack).get(("rdma", "tcp", "set_options"), 0) == before.get(("rdma", "tcp", "set_options"), 0) + 1


def test_MGET_of_mixed_kinds_gives_every_value_in_its_place(stack, plain):
    for protocol in (2, 3):
        with stack.wire(protocol=protocol) as through, stack.wire(direct=True, protocol=protocol) as direct:
            keys, script = [], []
            for number in range(600):
                keys.append(f"{'{p}' if number % 7 else 'out'}:{number}")
                value = (LARGE, SMALL, None, EXACT if number % 50 == 3 else b"x", b"")[number % 40 if number % 40 < 5 else 2]
                if value is not None:
                    script.append(("SET", keys[-1], value))
            script += [("RPUSH", "{p}:list", "a"), ("MGET", *keys, "{p}:list", "{p}:0", *keys[:9])]
            got = raw_replies(through, [tuple(w.replace("{p}", "off") if isinstance(w, str) else w for w in words) for words in script])
            wanted = raw_replies(direct, [tuple(w.replace("{p}", "own") if isinstance(w, str) else w for w in words) for words in script])
            assert got == wanted
            through.call("DEL", "off:list", *[key.replace("{p}", "off") for key in keys])
            direct.call("DEL", "own:list", *[key.replace("{p}", "own") for key in keys])
    stack.wait_quiet()


def test_a_reader_never_sees_neither_nor_half_while_strings_and_objects_overwrite_each_other(stack):
    values = {LARGE: 0, SMALL: 0, LARGER: 0}
    with stack.wire() as writer, stack.wire() as reader, stack.wire() as lengths:
        assert writer.call("SET", "off:race", SMALL) == b"OK"
        done = threading.Event()

        def write():
            for number in range(60):
                assert writer.call("SET", "off:race", list(values)[number % 3], *(["EX", 1000] if number % 2 else [])) == b"OK"
            done.set()

        def measure():
            while not done.is_set():
                assert lengths.call("STRLEN", "off:race") in {len(value) for value in values}

        threads = [threading.Thread(target=each) for each in (write, measure)]
        for each in threads:
            each.start()
        while not done.is_set():
            value = reader.call("GET", "off:race")
            assert value in values, value if value is None or isinstance(value, ErrorReply) else f"{len(value)} bytes that nobody wrote"
            values[value] += 1
        for each in threads:
            each.join()


def test_of_two_clients_that_take_a_value_away_one_gets_it(stack):
    with stack.wire() as one, stack.wire() as two:
        for _ in range(20):
            assert one.call("SET", "off:take", LARGE) == b"OK"
            one.send("GETDEL", "off:take")
            two.send("GETDEL", "off:take")
            assert sorted([one.reply(), two.reply()], key=bool) == [None, LARGE]


def test_a_pipeline_of_both_kinds_is_carried_out_in_order(stack):
    sequence = []
    for number in range(40):
        sequence += [("SET", "{k}", LARGE if number % 3 else SMALL), ("GET", "{k}"), ("GET", "{k}:2"), ("SET", "{k}:2", str(number)), ("GET", "{k}"), ("GET", "{k}:2"), ("INCR", "{k}:2")]
    sequence += [("DEL", "{k}", "{k}:2")]
    with stack.wire() as through, stack.wire(direct=True) as direct:
        assert raw_replies(through, named(sequence, "off:p")) == raw_replies(direct, named(sequence, "own:p"))


def test_an_expiry_that_cannot_be_set_removes_the_value_and_tells_the_client(make_stack):
    stack = make_stack(config=CONFIG)
    plain = stack.direct()
    plain.execute_command("ACL", "SETUSER", "default", "-pexpire")
    with stack.wire() as through:
        answer = through.call("SET", "off:e", LARGE, "EX", 100)
        assert answer.startswith("ERR keyferry: the value was stored and removed again, as its expiry could not be set: NOPERM"), answer
        assert plain.exists("off:e") == 0
        assert through.call("SET", "off:e", LARGE) == b"OK" and through.call("GETEX", "off:e", "EX", 5).startswith("NOPERM") and plain.ttl("off:e") == -1
        # Nobody may rename: the server's own SET takes the string's place, and nothing else is changed.
        plain.execute_command("ACL", "SETUSER", "default", "-rename", "+pexpire")
        assert through.call("GETDEL", "off:e").startswith("NOPERM") and through.call("GET", "off:e") == LARGE
        assert through.call("SET", "off:r", SMALL) == b"OK" and through.call("SET", "off:r", LARGE, "EX", 100) == b"OK"
        assert through.call("GET", "off:r") == LARGE and plain.type("off:r") == b"string" and 0 < plain.ttl("off:r") <= 100
        assert reasons(stack)["rdma", "tcp", "rename_refused"] == 1
        plain.execute_command("ACL", "SETUSER", "default", "+rename")
        assert plain.dbsize() == 2
    stack.wait_quiet()


@pytest.mark.parametrize("way", ["fabric", "tcp"])
def test_the_way_of_BLOB_TCP_carries_the_same_rows(make_stack, way):
    stack = make_stack(config={**CONFIG, "fabric": {"provider": "off" if way == "tcp" else "auto"}})
    with stack.wire() as through, stack.wire(direct=True) as direct:
        if way == "fabric":
            stack.fault("SET", "error", "ERR RDMA provider unavailable on this instance", "ON", "BLOB.RDMA_SET", "COUNT", "0")
            stack.fault("SET", "error", "ERR RDMA provider unavailable on this instance", "ON", "BLOB.RDMA_GET", "COUNT", "0")
        for kind in KINDS:
            for name, commands in SAME.items():
                sequence = [("DEL", "{k}"), *KINDS[kind], *commands]
                assert raw_replies(through, named(sequence, "off:k")) == raw_replies(direct, named(sequence, "own:k")), (name, kind)
        assert through.call("SET", "off:k", LARGE) == b"OK" and direct.call("TYPE", "off:k") == b"largeob-k"
        assert not [key for key in stack.direct().scan_iter("*:keyferry:*")]
    stack.wait_quiet()


def test_what_cannot_be_an_object_is_a_string_and_counted(make_stack):
    stack = make_stack(config={**CONFIG, "pool": {"size": "4MiB", "region": "64KiB"}}, module_args="chunk-size 64kb max-object-size 1mb")
    value = Pattern(3 << 20, 5).bytes()
    with stack.wire() as through:
        assert through.call("SET", "off:b", value, "EX", 100) == b"OK" and through.call("GET", "off:b") == value  # above half the pool
        assert through.call("SET", "off:c", value[: 1 << 20] + b"x") == b"OK" and through.call("GET", "off:c") == value[: 1 << 20] + b"x"  # above the module's limit
        counted = reasons(stack)
        assert counted["rdma", "tcp", "larger_than_half_the_pool"] == 1 and counted["rdma", "tcp", "object_refused"] == 1
    stack.wait_quiet()


def test_clients_that_die_in_mid_command_leave_no_lease_and_no_key_behind(stack):
    with stack.wire() as keeper:
        for number in range(60):
            assert keeper.call("SET", "off:die", LARGER) == b"OK"
            words = [("GETDEL", "off:die"), ("GET", "off:die"), ("MGET", "off:die", "off:none", "off:die"), ("GETEX", "off:die", "EX", 100), ("SET", "off:die", LARGE, "EX", 100)][number % 5]
            with stack.wire() as wire:
                sent = request(*words)
                cut = words[0] == "SET" and number % 2 == 1
                wire.raw(sent[: -1 - number] if cut else sent)
                if number % 3 == 0 and not cut:
                    wire.socket.recv(1)
    stack.wait_quiet()
    wait_until(lambda: not list(stack.direct().scan_iter("off:die:keyferry:*")), "what was moved aside to be removed or put back")
