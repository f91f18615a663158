"""A pool that is short: waiting, streaming and refusing, never growth (promise 6, R31, R37)."""

import pytest
from running_stack import wait_until
from ways import MIB, Travelled, reasons
from wire import ErrorReply, Pattern, request

pytestmark = pytest.mark.stack(config={"pool": {"size": "32MiB", "region": "4MiB"}, "limits": {"value_max": "512MiB", "pool_wait": "2s"}})


def test_a_value_above_half_the_pool_is_streamed_and_counted(stack):
    value = Pattern(40 * MIB, seed=6)
    travelled = Travelled(stack)
    with stack.wire() as wire:
        wire.send_value("BLOB.TCP_SET", "big", value)
        assert wire.reply() == b"OK"
        wire.send("BLOB.TCP_GET", "big")
        assert wire.expect_value(value) is None
    wait_until(lambda: travelled.since()["set", "tcp"] == travelled.since()["get", "tcp"] == 1, "one transfer each way by TCP", travelled.since)
    assert any(to == "tcp" for _, to, _ in reasons(stack)), reasons(stack)
    stack.wait_quiet()


def test_a_transfer_waits_for_memory_and_runs_when_it_is_free(stack):
    value = Pattern(16 * MIB, seed=7)
    with stack.wire() as first, stack.wire() as second, stack.wire() as third:
        for holder in (first, second):
            holder.send_value("BLOB.TCP_SET", "held", value, upto=8 * MIB)
        wait_until(lambda: stack.pool_bytes()["free"] == 0, "both to hold their leases", stack.pool_bytes)
        third.raw(b"*3\r\n" + request("BLOB.TCP_SET", "third").removeprefix(b"*2\r\n") + b"$%d\r\n" % value.length)
        # Others go on meanwhile.
        assert stack.client().set("other", "1")
        first.close()
        for piece in value.pieces():
            third.raw(piece)
        third.raw(b"\r\n")
        assert third.reply() == b"OK"
        third.send("BLOB.TCP_GET", "third")
        assert third.expect_value(value) is None
    stack.wait_quiet()


def test_after_pool_wait_there_is_one_error_and_the_connection_lives(stack):
    value = Pattern(16 * MIB, seed=7)
    with stack.wire() as first, stack.wire() as second, stack.wire() as third:
        for holder in (first, second):
            holder.send_value("BLOB.TCP_SET", "held", value, upto=8 * MIB)
        wait_until(lambda: stack.pool_bytes()["free"] == 0, "both to hold their leases", stack.pool_bytes)
        third.send_value("BLOB.TCP_SET", "third", value)  # read and dropped once the error is certain
        answer = third.reply()
        assert isinstance(answer, ErrorReply) and answer.startswith("ERR keyferry"), answer
        assert third.call("ECHO", "x") == b"x"
    stack.wait_quiet()


def test_a_client_that_does_not_take_its_values_leaves_room_for_others(stack):
    value = Pattern(7 * MIB, seed=9)
    with stack.wire() as idler, stack.wire() as other:
        idler.send_value("BLOB.TCP_SET", "value", value)
        assert idler.reply() == b"OK"
        for _ in range(4):
            idler.send("BLOB.TCP_GET", "value")
        wait_until(lambda: stack.pool_bytes()["free"] < 24 * MIB, "the first values to land", stack.pool_bytes)
        for _ in range(3):
            other.send("BLOB.TCP_GET", "value")
            assert other.expect_value(value) is None
        # limits.stall has not ended it meanwhile: it was never in anybody's way.
        for _ in range(4):
            assert idler.expect_value(value) is None
    stack.wait_quiet()


def test_R37_many_clients_with_more_than_the_pool_holds_all_get_their_values(stack):
    from test_many_clients import in_parallel

    def work(number):
        value = Pattern(7 * MIB + number, seed=number)
        with stack.wire() as wire:
            for _ in range(2):
                wire.send_value("BLOB.TCP_SET", f"short:{number}", value)
                assert wire.reply() == b"OK"
                wire.send("BLOB.TCP_GET", f"short:{number}")
                assert wire.expect_value(value) is None

    in_parallel(work, 16)
    stack.wait_quiet()


def test_a_client_that_sends_all_before_it_reads_does_not_wait_for_itself(stack):
    """A SET that finds no room while its own client has undelivered replies is streamed (design: pool)."""
    value = Pattern(12 * MIB, seed=3)
    with stack.wire() as wire:
        wire.send_value("BLOB.TCP_SET", "eager", value)
        assert wire.reply() == b"OK"
        wire.raw(request("BLOB.TCP_GET", "eager") * 2)
        wire.send_value("BLOB.TCP_SET", "eager:2", value)
        wire.raw(request("BLOB.TCP_GET", "eager:2"))
        for _ in range(2):
            assert wire.expect_value(value) is None
        assert wire.reply() == b"OK"
        assert wire.expect_value(value) is None
    stack.wait_quiet()
