"""The memory of a stored value serves for its client's next one (gateway/kept_loan.h): every byte is that client's and that value's, and the pool has all of it back soon."""

import json

import pytest
from running_stack import wait_until
from wire import ErrorReply, Pattern, ended, request

MIB = 1 << 20
LENGTH = MIB + 4097  # its last region is not full
REGIONS = 2

# One worker, so that its clients meet. The audit checks every byte whenever memory changes hands (memory/region_auditor.h).
pytestmark = pytest.mark.stack(
    config={"pool": {"size": "48MiB", "region": "1MiB"}, "limits": {"value_max": "64MiB"}, "workers": 1},
    environment={"KEYFERRY_AUDIT_POOL": "1"},
)


def audit(stack):
    return json.loads(stack.http("/status.json")[1])["audit"]


@pytest.fixture
def audited(stack):
    """All memory has come back at the end, and nobody has written where he should not."""
    before = audit(stack)
    yield lambda: audit(stack)["leased"] - before["leased"]
    stack.wait_quiet()
    after = audit(stack)
    assert after["leased"] - before["leased"] == after["given_back"] - before["given_back"]
    assert after["foreign"] == 0, [line for line in stack.log().splitlines() if "audit" in line][:20]


def received(stack):
    """Bytes that clients have sent and that were read."""
    return stack.metrics().total("bytes_total", direction="in", side="client")


def store(wire, key, value):
    wire.send_value("BLOB.TCP_SET", key, value)
    assert wire.reply() == b"OK"


def expect(stack, key, value):
    with stack.wire(direct=True) as server:
        server.send("BLOB.TCP_GET", key)
        assert server.expect_value(value) is None


def test_R88_values_of_one_length_one_after_the_other(stack, audited):
    count = 40
    values = [Pattern(LENGTH, seed) for seed in range(count)]
    with stack.wire() as wire:
        for number, value in enumerate(values):
            store(wire, f"kept:{number}", value)
    for number, value in enumerate(values):
        expect(stack, f"kept:{number}", value)
    # Each value's memory is lent again, which is a lease for the audit. Were none of it taken, each would have a second lease.
    assert count * REGIONS < audited() < 2 * count * REGIONS


def test_R88_two_clients_of_one_worker_that_take_turns(stack, audited):
    with stack.wire() as one, stack.wire() as other:
        for number in range(10):
            for wire, name in ((one, "one"), (other, "other")):
                store(wire, f"turn:{name}:{number}", Pattern(LENGTH, number + 100 * len(name)))
    for number in range(10):
        for name in ("one", "other"):
            expect(stack, f"turn:{name}:{number}", Pattern(LENGTH, number + 100 * len(name)))


def test_lengths_that_change_and_values_that_are_read_between(stack, audited):
    with stack.wire() as wire:
        for number, length in enumerate([LENGTH, LENGTH, LENGTH + 1, LENGTH, 2 * MIB, 2 * MIB + 1, 2 * MIB + 1, LENGTH, LENGTH]):
            value = Pattern(length, number)
            store(wire, f"changing:{number}", value)
            wire.send("BLOB.TCP_GET", f"changing:{number}")
            assert wire.expect_value(value) is None
            expect(stack, f"changing:{number}", value)


def test_a_client_that_leaves_in_the_middle_of_its_next_value(stack, audited):
    for number in range(5):
        before = received(stack)
        with stack.wire() as wire:
            # One behind the other, so that the second finds what the first has left.
            for value, upto in ((Pattern(LENGTH, number), None), (Pattern(LENGTH, number + 50), 600_000)):
                wire.send_value("BLOB.TCP_SET", f"left:{number}", value, upto)
            assert wire.reply() == b"OK"
            wait_until(lambda: received(stack) - before > LENGTH + 600_000, "half of the next value to be read")
            assert stack.pool_bytes()["leased"] != 0
        wait_until(lambda: stack.pool_bytes()["leased"] == 0, "its memory to come back", stack.pool_bytes)
        expect(stack, f"left:{number}", Pattern(LENGTH, number))


def test_R31_whoever_waits_for_memory_comes_before_the_next_value(stack, audited):
    half = Pattern(24 * MIB, 1)
    with stack.wire() as kept, stack.wire() as holder, stack.wire() as waiting:
        store(kept, "waits:kept", Pattern(LENGTH, 1))
        holder.send_value("BLOB.TCP_SET", "waits:holder", half, upto=1000)
        waiting.send_value("BLOB.TCP_SET", "waits:waiting", half, upto=1000)
        wait_until(lambda: json.loads(stack.http("/status.json")[1])["waiting"]["leases"] == 1 or stack.pool_bytes()["free"] == 0, "the third to wait")
        # Of what is needed it has all but the memory of the first one's last value, which may be there still.
        kept.send_value("BLOB.TCP_SET", "waits:kept", Pattern(LENGTH, 2), upto=1000)
        wait_until(lambda: stack.pool_bytes()["free"] == 0, "the one that waits to have its memory", stack.pool_bytes)
        for piece in half.pieces(1000):
            waiting.raw(piece)
        waiting.raw(b"\r\n")
        assert waiting.reply() == b"OK"
        holder.close()
        for piece in Pattern(LENGTH, 2).pieces(1000):
            kept.raw(piece)
        kept.raw(b"\r\n")
        assert kept.reply() == b"OK"
    expect(stack, "waits:kept", Pattern(LENGTH, 2))
    expect(stack, "waits:waiting", half)


def test_an_idle_client_keeps_nothing(stack, audited):
    with stack.wire() as wire:
        store(wire, "idle", Pattern(LENGTH, 1))
        wait_until(lambda: stack.pool_bytes()["leased"] == 0, "the memory to come back", stack.pool_bytes)
        store(wire, "idle", Pattern(LENGTH, 2))
    expect(stack, "idle", Pattern(LENGTH, 2))


def test_what_follows_a_value_in_the_same_read(stack, audited):
    """The last of a body is read together with what lies behind it."""
    first, second = Pattern(LENGTH, 1), Pattern(LENGTH, 2)
    head = [b"*3\r\n" + request("BLOB.TCP_SET", key).removeprefix(b"*2\r\n") + b"$%d\r\n" % LENGTH for key in ("behind:a", "behind:b")]
    with stack.wire() as wire:
        wire.raw(b"".join([head[0], first.bytes(), b"\r\n", request("ECHO", "x" * 20_000), head[1], second.bytes(), b"\r\n", request("ECHO", "y")]))
        assert [wire.reply() for _ in range(4)] == [b"OK", b"x" * 20_000, b"OK", b"y"]
        # And in pieces: the end of the body alone, then half of its CR LF.
        body = second.bytes()
        for piece in (head[0], body[:-1], body[-1:], b"\r", b"\n*2\r\n$4\r\nECHO", b"\r\n$1\r\nz\r\n"):
            before = received(stack)
            wire.raw(piece)
            wait_until(lambda: received(stack) == before + len(piece), "the piece to be read")  # noqa: B023
        assert [wire.reply() for _ in range(2)] == [b"OK", b"z"]
    expect(stack, "behind:a", second)
    expect(stack, "behind:b", second)


def test_a_value_that_does_not_end_with_cr_lf(stack, audited):
    with stack.wire() as wire:
        store(wire, "ends", Pattern(LENGTH, 1))
        wire.raw(b"*3\r\n" + request("BLOB.TCP_SET", "ends").removeprefix(b"*2\r\n") + b"$%d\r\n" % LENGTH)
        wire.raw(Pattern(LENGTH, 2).bytes() + b"xx*1\r\n$4\r\nPING\r\n")
        assert isinstance(wire.reply(), ErrorReply)
        assert ended(wire)
    expect(stack, "ends", Pattern(LENGTH, 1))
