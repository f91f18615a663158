"""GETs of one key that come together share a transfer and its memory (single-flight), and nobody sees an older value than it may."""

import contextlib
import threading

import pytest
from faults import armed, store
from running_stack import wait_until
from ways import MIB, Travelled
from wire import ErrorReply, Pattern

# The first GET stays on its lane for so long: the others come meanwhile.
HELD = 1500
CLIENTS = 8

pytestmark = pytest.mark.stack(config={"transfer": {"immutable": ["fixed:"]}})


def joined(stack):
    return stack.metrics().total("flights_joined_total")


@contextlib.contextmanager
def a_get_under_way(stack, key):
    """A client whose GET is on a lane, and stays there a while."""
    with armed(stack, "delay-before-rma", HELD, on="RDMA_GET"), stack.wire() as first:
        first.send("BLOB.TCP_GET", key)
        wait_until(lambda: stack.metrics().total("lanes", state="busy") == 1, "the first GET to be on a lane", lambda: stack.metrics().get("keyferry_lanes"))
        yield first


@pytest.mark.parametrize(("key", "most"), [("plain", 2), ("fixed:model", 1)])
def test_identical_gets_at_once_share_transfers_and_one_slow_reader_keeps_none_waiting(stack, key, most):
    value = Pattern(64 * MIB, seed=1)
    store(stack, key, value)
    travelled, before = Travelled(stack), joined(stack)
    failures = []

    def read(wire):
        try:
            assert wire.expect_value(value) is None
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    with contextlib.ExitStack() as clients, a_get_under_way(stack, key) as first:
        others = [clients.enter_context(stack.wire(unix=number % 2 == 1)) for number in range(CLIENTS - 1)]
        for wire in others:
            wire.send("BLOB.TCP_GET", key)
        wait_until(lambda: joined(stack) - before == CLIENTS - most, "the others to join", lambda: joined(stack) - before)
        slow, fast = others[0], [first, *others[1:]]
        readers = [threading.Thread(target=read, args=(wire,)) for wire in fast]
        for reader in readers:
            reader.start()
        assert slow.line() == b"$%d" % value.length
        for reader in readers:
            reader.join()
        assert not failures, failures[0]
        # All others are through while it has read nothing but the header; what it holds is one lease.
        wait_until(lambda: stack.pool_bytes()["leased"] == value.length, "the slow reader's lease alone to be out", stack.pool_bytes)
        assert slow.exactly(value.length) == value.bytes()
    since = travelled.since()
    assert since["bytes", "get"] == most * value.length, "as the server counts"
    assert since["get", "rdma"] == most and since["get", "tcp"] == 0
    stack.wait_quiet()


@pytest.mark.parametrize("way", ["large", "script"])
def test_a_write_in_between_starts_a_new_flight_under_immutable_too(stack, way):
    key = f"fixed:written:{way}"
    old, new = Pattern(9 * MIB, seed=2), Pattern(9 * MIB + 3, seed=3)
    store(stack, key, old)
    with a_get_under_way(stack, key) as first, stack.wire() as writer, stack.wire() as told:
        if way == "large":
            writer.send_value("BLOB.TCP_SET", key, new)
            assert writer.reply() == b"OK"
        else:
            assert writer.call("EVAL", f"return redis.call('DEL', '{key}')", 0) == 1
        for wire in (writer, told):
            wire.send("BLOB.TCP_GET", key)
        for wire in (writer, told):
            if way == "large":
                assert wire.expect_value(new) is None, "its own new value"
            else:
                assert wire.reply() is None
        assert first.expect_value(old) is None
    stack.wait_quiet()


def test_a_client_that_leaves_leaves_the_others_their_value(stack):
    value = Pattern(9 * MIB, seed=4)
    store(stack, "fixed:left", value)
    before = joined(stack)
    with a_get_under_way(stack, "fixed:left") as first, stack.wire() as second:
        second.send("BLOB.TCP_GET", "fixed:left")
        wait_until(lambda: joined(stack) - before == 1, "the second to join")
        first.close()
        assert second.expect_value(value) is None
    stack.wait_quiet()


def test_a_remembered_length_saves_the_question_and_a_wrong_one_costs_nothing_but_time(stack):
    def questions():
        return stack.info()["largeobj_cmd_info"]

    value = Pattern(5 * MIB, seed=5)
    with stack.wire() as wire, stack.wire(direct=True) as direct:
        wire.send_value("BLOB.TCP_SET", "known", value)
        assert wire.reply() == b"OK"
        before = questions()
        for _ in range(3):
            wire.send("BLOB.TCP_GET", "known")
            assert wire.expect_value(value) is None
        assert questions() == before
        # Longer, shorter, small, gone and of another type behind the gateway's back: as if it had asked.
        for length in (9 * MIB, 600 * 1024, 100, 2 * MIB):
            changed = Pattern(length, seed=length)
            store(stack, "known", changed)
            wire.send("BLOB.TCP_GET", "known")
            assert wire.expect_value(changed) is None
        assert direct.call("DEL", "known") == 1
        wire.send("BLOB.TCP_GET", "known")
        assert wire.reply() is None
        store(stack, "known", value)
        wire.send("BLOB.TCP_GET", "known")
        assert wire.expect_value(value) is None
        assert direct.call("SET", "known", "a string") == b"OK"
        wire.send("BLOB.TCP_GET", "known")
        direct.send("BLOB.TCP_GET", "known")
        answer = wire.reply()
        assert isinstance(answer, ErrorReply) and answer == direct.reply()
    stack.wait_quiet()
