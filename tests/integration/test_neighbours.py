"""What one large value costs others: not their turn at the server, not memory beside the pool."""

import pathlib

import pytest
from faults import store
from running_stack import wait_until
from test_many_clients import in_parallel
from ways import MIB, THRESHOLD, Travelled, reasons
from wire import Pattern

# Room for one value of 64 MiB and little else.
POOL = 160 * MIB
pytestmark = pytest.mark.stack(config={"pool": {"size": f"{POOL // MIB}MiB", "region": "4MiB"}, "limits": {"value_max": "512MiB"}})


def test_a_fenced_lane_keeps_no_other_lane_waiting(stack):
    """The server still owes 1000 pieces to an endpoint that is closed; by order of events, since none of them is fast on a busy machine."""
    victim, other = Pattern(64 * MIB, seed=1), Pattern(THRESHOLD, seed=2)
    store(stack, "victim", victim)
    store(stack, "other", other)

    def running():
        return stack.info()["largeobj_transfers_running"]

    with stack.wire() as wire, stack.wire() as neighbour:
        stack.fault("SET", "drop-after", "20", "3000", "ON", "BLOB.RDMA_GET", "KEY", "victim", "COUNT", 1)
        fences = stack.metrics().total("fences_total")
        travelled = Travelled(stack)
        wire.send("BLOB.TCP_GET", "victim")
        wait_until(lambda: stack.metrics().total("fences_total") > fences, "the fence")
        neighbour.send("BLOB.TCP_GET", "other")
        assert neighbour.expect_value(other) is None
        assert running() == 1, "the value came only after the server was done with the fenced lane"
        # And on, while the server sends the rest to where nobody listens any more.
        count = 1
        while running() > 0:
            neighbour.send("BLOB.TCP_GET", "other")
            assert neighbour.expect_value(other) is None
            count += 1
        assert travelled.since()["get", "rdma"] == count, "some travelled otherwise"
    stack.wait_quiet()


def test_R37_more_than_the_pool_holds_at_once_takes_little_memory_beside_it(stack):
    def work(number):
        value = Pattern((100 if number == 0 else 48) * MIB, seed=number)
        with stack.wire() as wire:
            wire.send_value("BLOB.TCP_SET", f"beside:{number}", value)
            assert wire.reply() == b"OK"
            wire.send("BLOB.TCP_GET", f"beside:{number}")
            assert wire.expect_value(value) is None

    travelled = Travelled(stack)
    in_parallel(work, 5)
    stack.wait_quiet()
    wait_until(lambda: sum(travelled.since()[op, path] for op in ("set", "get") for path in ("rdma", "tcp")) == 10, "all ten to be counted", travelled.since)
    assert reasons(stack)["rdma", "tcp", "larger_than_half_the_pool"] == 2, reasons(stack)
    process = pathlib.Path(f"/proc/{stack.keyferry_pid}")
    if "libasan" in (maps := (process / "maps").read_text()) or "libtsan" in maps:
        return  # a sanitizer's own memory is much more
    most = next(int(line.split()[1]) << 10 for line in (process / "status").read_text().splitlines() if line.startswith("VmHWM"))
    assert most - POOL < 64 * MIB
