"""Deliberate faults in the middle of transfers: promises 1 to 4 as a client and the pool see them.

Whatever goes wrong, the client gets the right value or exactly one error, the next transfer works, and all memory of the pool comes back.
"""

import pytest
from faults import NEW, OLD, armed, fired, get, put, store, stored, works_again
from running_stack import wait_until
from ways import MIB, Travelled, reasons
from wire import ErrorReply, Pattern

GET = "BLOB.RDMA_GET"
SET = "BLOB.RDMA_SET"
HELLO = "BLOB.RDMA_HELLO"

# (fault, True if the value must come all the same: the TCP form can't give this error, so the gateway repeats the command as BLOB.TCP_GET)
GET_FAULTS = [
    (("wrong-crc",), True),
    (("fail-after", "0"), True),
    (("fail-after", "7"), True),
    (("early-error", "3", "300"), True),
    (("no-session",), True),
    (("noperm",), True),
    (("error", "ERR client address space smaller than object length"), True),
    (("delay-before-reply", "300"), True),
    (("pause-after", "5", "300"), True),
    (("reply", "integer"), False),
    (("reply", "one-element"), False),
    (("reply", "three-elements"), False),
    (("reply", "empty-array"), False),
    (("reply", "negative-count"), False),
    (("reply", "crc-too-big"), False),
    (("reply", "too-long"), False),
    (("reply", "ok"), False),
    (("reply", "queued"), False),
    (("reply", "unreadable"), False),
    (("drop",), False),
    (("drop-after", "0", "500"), False),
    (("drop-after", "5", "500"), False),
    (("loading",), False),
    (("staging",), False),
    (("moved",), False),
]
SET_FAULTS = [
    (("fail-after", "0"), True),
    (("fail-after", "7"), True),
    (("early-error", "3", "300"), True),
    (("no-session",), True),
    (("noperm",), True),
    (("error", "ERR memory address args must be rkey, addr, len triples"), True),
    (("error", "ERR invalid rkey"), True),
    (("delay-before-reply", "300"), True),
    (("pause-after", "5", "300"), True),
    (("reply", "integer"), False),
    (("reply", "three-elements"), False),
    (("reply", "lower-case-ok"), False),
    (("reply", "queued"), False),
    (("reply", "unreadable"), False),
    (("reply", "null"), False),
    (("drop",), False),
    (("drop-after", "0", "500"), False),
    (("drop-after", "5", "500"), False),
    (("loading",), False),
    (("oom",), False),
    (("moved",), False),
]


def name(value):
    return "-".join(value) if isinstance(value, tuple) else None


@pytest.mark.parametrize(("fault", "must_come"), GET_FAULTS, ids=name)
def test_R89_a_faulty_get_gives_the_right_value_or_one_error_and_the_next_one_works(stack, fault, must_come):
    store(stack, "victim", OLD)
    with stack.wire() as wire:
        before = fired(stack)
        with armed(stack, *fault, on=GET):
            error = get(wire, "victim", OLD)
            assert fired(stack) == before + 1, "the fault did not happen"
        assert not (must_come and error), error
        works_again(stack, wire)
        assert get(wire, "victim", OLD) is None


@pytest.mark.parametrize(("fault", "must_come"), SET_FAULTS, ids=name)
def test_R89_a_faulty_set_stores_the_whole_value_or_gives_one_error_and_the_next_one_works(stack, fault, must_come):
    store(stack, "victim", OLD)
    with stack.wire() as wire:
        before = fired(stack)
        with armed(stack, *fault, on=SET):
            error = put(wire, "victim", NEW)
            assert fired(stack) == before + 1, "the fault did not happen"
        assert not (must_come and error), error
        works_again(stack, wire)
        # An error may mean that the value was stored all the same, but never a part or a mixture of it.
        assert stored(stack, "victim", *([OLD, NEW] if error else [NEW])) is not None
        assert put(wire, "victim", NEW) is None
        assert stored(stack, "victim", OLD, NEW) is NEW


def test_R89_a_wrong_checksum_is_counted_and_its_bytes_are_not_handed_out(stack):
    store(stack, "victim", OLD)
    before = stack.metrics().total("checksum_mismatch_total", op="get")
    with stack.wire() as wire, armed(stack, "wrong-crc", on=GET):
        assert get(wire, "victim", OLD) is None
    assert stack.metrics().total("checksum_mismatch_total", op="get") == before + 1
    assert any("checksum" in reason or "crc" in reason for _, to, reason in reasons(stack) if to == "tcp"), reasons(stack)


@pytest.mark.parametrize("announced", [1, 600 * 1024, OLD.length - 1, OLD.length + 1, 20 * MIB])
def test_a_value_of_another_length_than_announced_comes_right(stack, announced):
    key = f"announced:{announced}"  # of its own: the length of one that went by would not be asked for
    store(stack, key, OLD)
    with stack.wire() as wire:
        with armed(stack, "info-len", announced, on="BLOB.INFO", count=3):
            assert get(wire, key, OLD) is None
        works_again(stack, wire)


def test_a_value_that_is_replaced_by_a_larger_one_between_two_gets_comes_right(stack):
    with stack.wire() as wire:
        for length in (2 * MIB, 3 * MIB, MIB, 12 * MIB, 600 * 1024):
            pattern = Pattern(length, seed=length)
            store(stack, "growing", pattern)
            assert get(wire, "growing", pattern) is None
    stack.wait_quiet()


def test_a_lane_that_is_fenced_in_the_middle_of_a_value_holds_up_no_other(make_stack):
    """The fence closes the endpoint, so the server's slots (64) are free again at once."""
    stack = make_stack(config={"transfer": {"threshold": "4KiB", "lanes": 2, "warm": 2, "orphan_grace": "1h"}})
    large, small = Pattern(64 * MIB, seed=31), Pattern(4096, seed=32)
    store(stack, "large", large)
    store(stack, "small", small)
    with stack.wire() as victim, stack.wire() as other, armed(stack, "pause-after", "600", "20000", on=GET):
        number = victim.call("CLIENT", "ID")
        before = stack.info()[Travelled.FIELDS["get"]]
        victim.send("BLOB.TCP_GET", "large")
        wait_until(lambda: stack.info()[Travelled.FIELDS["get"]] > before, "bytes of the large value to have left", stack.info)
        assert other.call("CLIENT", "KILL", "ID", number) == 1
        wait_until(lambda: stack.metrics().total("fences_total", reason="client_ended") == 1, "the fence", stack.log)
        travelled = Travelled(stack)
        assert get(other, "small", small) is None
        assert travelled.since()["get", "rdma"] == 1
        wait_until(lambda: stack.info()["largeobj_in_flight"] == 0, "the slots to be free of the fenced lane's pieces", stack.info)
        assert stack.info()[Travelled.FIELDS["get"]] - before < large.length, "the large value was not in its middle: nothing was shown"
    stack.wait_quiet()


def test_client_kill_ends_the_transfer_of_its_client_by_a_fence(stack):
    """A SET that was received whole would run to its end had the client gone by itself."""
    store(stack, "victim", OLD)

    def ended():
        return stack.metrics().total("fences_total", reason="client_ended")

    before = ended()
    with stack.wire() as victim, stack.wire() as killer, armed(stack, "delay-before-reply", "3000", on=SET):
        number = victim.call("CLIENT", "ID")
        victim.send_value("BLOB.TCP_SET", "victim", NEW)
        wait_until(lambda: stack.pool_bytes().get("in_flight", 0) > 0, "the transfer under way", stack.log)
        assert killer.call("CLIENT", "KILL", "ID", number) == 1
        wait_until(lambda: ended() == before + 1, "a fence for the client that was killed", stack.log)
        with pytest.raises(EOFError):
            victim.reply()
    with stack.wire() as wire:
        works_again(stack, wire)
    assert stored(stack, "victim", OLD, NEW) is not None


@pytest.mark.parametrize(("op", "command"), [("get", GET), ("set", SET)])
def test_R88_memory_of_a_dropped_transfer_is_quarantined_until_the_fence_and_then_comes_back(stack, op, command):
    store(stack, "victim", OLD)
    fences = stack.metrics().total("fences_total")
    with stack.wire() as wire:
        with armed(stack, "drop-after", "3", "1500", on=command):
            error = get(wire, "victim", OLD) if op == "get" else put(wire, "victim", NEW)
        assert error is None or error.startswith("ERR keyferry"), error
        # The server still has pieces to go when the next transfers take memory: none of them may show a foreign byte.
        for number in range(4):
            value = Pattern(6 * MIB + number, seed=100 + number)
            assert put(wire, f"next:{number}", value) is None
            assert get(wire, f"next:{number}", value) is None
        assert stack.metrics().total("fences_total") > fences
        works_again(stack, wire)


# --- sessions


def lanes_on_server(stack):
    return [each for each in stack.direct_info_client.client_list() if "blob.rdma" in each["cmd"] or "blob|rdma" in each["cmd"]]


def cut_lanes(stack):
    """Ends the connections on which keyferryd has sessions, so that it has to do HELLO again."""
    lanes = lanes_on_server(stack)
    for lane in lanes:
        stack.direct_info_client.client_kill_filter(_id=lane["id"])
    return len(lanes)


HELLO_FAULTS = [
    ("no-fabric",), ("session-exists",), ("error", "ERR session create: service 0: fabric error: fi_av_insert inserted -22 of 1 addresses"),
    ("unknown-command",), ("noperm",), ("readonly",), ("loading",), ("moved",), ("clusterdown",), ("drop",), ("reply", "empty-array"), ("reply", "odd-hex"),
    ("reply", "not-hex"), ("reply", "other-family"), ("reply", "short-address"), ("reply", "null"), ("reply", "integer"), ("reply", "ok"),
    ("reply", "queued"), ("reply", "unreadable"), ("never-answer",), ("never-run",),
]  # fmt: skip


# What transport_info says meanwhile.
REFUSALS = {"no-fabric": "server_no_fabric", "unknown-command": "no_module", "noperm": "noperm", "readonly": "replica"}


@pytest.mark.parametrize("fault", HELLO_FAULTS, ids=name)
def test_values_travel_by_tcp_while_no_session_is_to_be_had_and_by_rdma_afterwards(stack, fault):
    store(stack, "victim", OLD)
    with stack.wire() as wire:
        works_again(stack, wire)
        with armed(stack, *fault, on=HELLO, count=1000):
            before = fired(stack)
            assert cut_lanes(stack) > 0
            wait_until(lambda: not lanes_on_server(stack) or fired(stack) > before, "the old lanes to end")
            # Each costs two lanes, and the waits between those grow.
            assert get(wire, "victim", OLD) is None
            assert put(wire, "other", NEW) is None
            wait_until(lambda: fired(stack) > before, "a refused HELLO")
            if reason := REFUSALS.get(fault[0]):
                wait_until(lambda: stack.metrics().total("transport_info", have="tcp", reason=reason) == 1, "the reason to be shown", stack.metrics)
        assert any(to == "tcp" for _, to, _ in reasons(stack)), reasons(stack)
        works_again(stack, wire)


# --- the server goes away


def start_and_pause(stack, wire, op, fault):
    """A transfer that the server holds in the middle."""
    store(stack, "victim", OLD)
    stack.fault("SET", *fault, "ON", GET if op == "get" else SET, "COUNT", 1)
    before = stack.info()
    if op == "get":
        wire.send("BLOB.TCP_GET", "victim")
    else:
        wire.send_value("BLOB.TCP_SET", "victim", NEW)
    wire.send("ECHO", "behind")
    wait_until(lambda: stack.info()["largeobj_faults_fired"] > before["largeobj_faults_fired"], "the transfer to begin")


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
@pytest.mark.parametrize("op", ["get", "set"])
@pytest.mark.parametrize("fault", [("pause-after", "5", "600000"), ("never-answer",), ("never-run",)], ids=name)
def test_a_server_restarted_in_mid_transfer_gives_one_error_and_the_next_transfer_works(make_stack, op, signal, fault):
    stack = make_stack()
    with stack.wire() as wire, stack.wire() as idle:
        assert idle.call("PING") == b"PONG"
        start_and_pause(stack, wire, op, fault)
        stack.stop_valkey(signal)
        answer = wire.reply()
        assert isinstance(answer, ErrorReply) and answer.startswith("ERR keyferry"), answer
        if op == "set":
            assert "may have been stored" in answer
        # The server is still away: what came behind gets an error too, one, and within upstream_wait.
        assert isinstance(wire.reply(), ErrorReply)
        wait_until(lambda: stack.http("/readyz")[0] != 200, "/readyz to say that the server is away")
        stack.start_valkey()
        stack.wait_ready()
        works_again(stack, wire)
        assert idle.call("SET", "idle", "1") == b"OK"


def test_without_a_server_requests_get_one_error_each_and_the_client_stays_connected(make_stack):
    stack = make_stack(config={"limits": {"upstream_wait": "1s"}})
    with stack.wire() as wire:
        assert wire.call("SET", "a", "1") == b"OK"
        stack.stop_valkey("KILL")
        for _ in range(3):
            wire.send("GET", "a")
            wire.send_value("BLOB.TCP_SET", "large", OLD)
            wire.send("BLOB.TCP_GET", "large")
            wire.send("CLIENT", "GETNAME")  # the server judges whether this user may
            wire.send("RESET")  # answered by keyferryd itself
            for _ in range(4):
                answer = wire.reply()
                assert isinstance(answer, ErrorReply) and answer.startswith("ERR keyferry"), answer
            assert wire.reply() == b"RESET"
        assert stack.http("/healthz")[0] == 200
        assert stack.http("/readyz")[0] != 200
        stack.start_valkey()
        stack.wait_ready()
        assert wire.call("SET", "a", "1") == b"OK"
        works_again(stack, wire)


def test_R20_every_command_of_a_pipeline_that_a_dying_server_cuts_gets_exactly_one_reply(make_stack):
    stack = make_stack(config={"limits": {"upstream_wait": "1s"}})
    count = 3000
    with stack.wire() as wire:
        for _ in range(count):
            wire.send("INCR", "counter")
        assert wire.reply() == 1
        stack.stop_valkey("KILL")
        wire.send("RESET")  # answered by the gateway itself, in its place
        replies = [wire.reply() for _ in range(count - 1)]
        answered = [reply for reply in replies if not isinstance(reply, ErrorReply)]
        assert answered == list(range(2, len(answered) + 2)), "the replies before the cut are not in order"
        assert wire.reply() == b"RESET"


# --- the client goes away


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_R95_a_client_that_dies_in_the_middle_of_a_set_gives_its_memory_back(stack, unix):
    store(stack, "victim", OLD)
    with stack.wire(unix=unix) as wire:
        wire.send_value("BLOB.TCP_SET", "victim", NEW, upto=5 * MIB)
        wait_until(lambda: stack.pool_bytes().get("leased", 0) > 0, "the lease", stack.pool_bytes)
    stack.wait_quiet()
    assert stored(stack, "victim", OLD, NEW) is OLD
    with stack.wire() as wire:
        works_again(stack, wire)


def test_R95_a_client_that_dies_between_its_value_and_the_end_of_the_command_gives_its_memory_back(stack):
    store(stack, "victim", OLD)
    with stack.wire() as wire:
        wire.send_value("BLOB.TCP_SET", "victim", NEW, upto=NEW.length)
        wait_until(lambda: stack.pool_bytes().get("leased", 0) > 0, "the lease", stack.pool_bytes)
    stack.wait_quiet()
    assert stored(stack, "victim", OLD, NEW) is OLD


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_R95_a_client_that_dies_in_the_middle_of_a_delivery_gives_its_memory_back(stack, unix):
    large = Pattern(64 * MIB, seed=8)
    store(stack, "victim", large)
    with stack.wire(unix=unix) as wire:
        wire.send("BLOB.TCP_GET", "victim")
        assert wire.line() == b"$%d" % large.length
        assert stack.pool_bytes()["free"] < sum(stack.pool_bytes().values())
    stack.wait_quiet()
    with stack.wire() as wire:
        works_again(stack, wire)


@pytest.mark.parametrize(("op", "command"), [("get", GET), ("set", SET)])
def test_R95_a_client_that_dies_while_the_server_moves_its_value_gives_its_memory_back(stack, op, command):
    """A GET that nobody waits for ends by a fence after its grace; a SET that was received whole runs to its reply and is stored."""
    store(stack, "victim", OLD)
    with stack.wire() as wire:
        with armed(stack, "pause-after", "5", "4000", on=command):
            before = fired(stack)
            if op == "get":
                wire.send("BLOB.TCP_GET", "victim")
            else:
                wire.send_value("BLOB.TCP_SET", "victim", NEW)
            wait_until(lambda: fired(stack) > before, "the transfer to begin")
            wire.close()
            stack.wait_quiet()
    assert stored(stack, "victim", OLD, NEW) is (OLD if op == "get" else NEW)
    with stack.wire() as wire:
        works_again(stack, wire)


def test_a_get_that_is_never_answered_is_fenced_when_its_client_leaves(stack):
    store(stack, "victim", OLD)
    fences = stack.metrics().total("fences_total")
    with stack.wire() as wire:
        with armed(stack, "never-answer", on=GET):
            before = fired(stack)
            wire.send("BLOB.TCP_GET", "victim")
            wait_until(lambda: fired(stack) > before, "the transfer to begin")
        wire.close()
        wait_until(lambda: stack.metrics().total("fences_total") > fences, "the fence")
        stack.wait_quiet()
    with stack.wire() as wire:
        works_again(stack, wire)
