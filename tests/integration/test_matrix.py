"""Values around every power of two, by every listener and protocol, both ways (R135: values of buffer size plus one once hung).

KEYFERRY_MATRIX=full (the default): 2^9 to 2^28 in all four combinations, and 512 MiB once. KEYFERRY_MATRIX=short: 2^9 to 2^20 and one of 64 MiB.
"""

import pytest
from running_stack import wait_until
from ways import FULL, MIB, THRESHOLD, Travelled, every_way
from wire import Pattern

EXPONENTS = range(9, 29 if FULL else 21)


def round_trip(stack, wire, pattern, key):
    """Stores and reads the value, then checks by keyferryd's and the server's own counters how it went."""
    travelled = Travelled(stack)
    wire.send_value("BLOB.TCP_SET", key, pattern)
    assert wire.reply() == b"OK"
    wire.send("BLOB.TCP_GET", key)
    assert wire.expect_value(pattern) is None
    moved = pattern.length if pattern.length >= THRESHOLD else 0
    transfers = int(moved > 0)
    wanted = {("set", "rdma"): transfers, ("get", "rdma"): transfers, ("bytes", "set"): moved, ("bytes", "get"): moved}
    # The reply may be here before the transfer is counted.
    wait_until(lambda: wanted.items() <= travelled.since().items(), f"counters of {pattern.length} bytes: {wanted}", lambda: travelled.since())


@every_way
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_R135_values_around_a_power_of_two_come_back_as_they_were_stored(stack, unix, protocol, exponent):
    with stack.wire(unix=unix, protocol=protocol) as wire:
        for length in ((1 << exponent) - 1, 1 << exponent, (1 << exponent) + 1):
            round_trip(stack, wire, Pattern(length, seed=length + protocol + unix), f"matrix:{unix}:{protocol}")
    stack.wait_quiet()


@pytest.mark.parametrize("length", [512 * MIB if FULL else 64 * MIB])
def test_the_largest_value_comes_back_as_it_was_stored(stack, length):
    with stack.wire() as wire:
        round_trip(stack, wire, Pattern(length, seed=1), "largest")
        assert wire.call("DEL", "largest") == 1
    stack.wait_quiet()
