"""What every test of a fault asks for: no wrong byte, the right value or exactly one error, and afterwards everything as before."""

import contextlib

from running_stack import wait_until
from ways import MIB, Travelled
from wire import ErrorReply, Pattern

# Several regions of the pool (4 MiB) and, in pieces of 64 KiB, more than a fabric service has slots.
OLD = Pattern(9 * MIB + 5, seed=1)
NEW = Pattern(10 * MIB + 7, seed=2)


@contextlib.contextmanager
def armed(stack, *fault, on, count=1):
    """The fault happens to the next `count` commands of that name; what is left of it goes at the end."""
    stack.fault("SET", *fault, "ON", on, "COUNT", count)
    try:
        yield
    finally:
        stack.fault("CLEAR")


def fired(stack):
    return stack.info()["largeobj_faults_fired"]


def store(stack, key, pattern):
    """Past the gateway."""
    with stack.wire(direct=True) as direct:
        direct.send_value("BLOB.TCP_SET", key, pattern)
        assert direct.reply() == b"OK"


def stored(stack, key, *candidates):
    """Which of these values the server holds, all of it; past the gateway."""
    with stack.wire(direct=True) as direct:
        length = direct.call("BLOB.INFO", key, "LEN")
        for candidate in candidates:
            if candidate.length == length:
                direct.send("BLOB.TCP_GET", key)
                assert direct.expect_value(candidate) is None
                return candidate
    raise AssertionError(f"{key} has {length} bytes, none of {[candidate.length for candidate in candidates]}")


def get(wire, key, pattern):
    """One GET with an ECHO behind it: None if the value came whole, or the one error. Any other byte fails the test."""
    wire.send("BLOB.TCP_GET", key)
    wire.send("ECHO", "behind")
    error = wire.expect_value(pattern)
    assert wire.reply() == b"behind", "more than one reply"
    return error


def put(wire, key, pattern):
    """One SET with an ECHO behind it: None if it was stored, or the one error."""
    wire.send_value("BLOB.TCP_SET", key, pattern)
    wire.send("ECHO", "behind")
    answer = wire.reply()
    assert answer == b"OK" or isinstance(answer, ErrorReply), answer
    assert wire.reply() == b"behind", "more than one reply"
    return None if answer == b"OK" else answer


def works_again(stack, wire):
    """The same client's next transfers go by RDMA, and not a byte of the pool stays away."""
    pattern = Pattern(5 * MIB + 3, seed=77)

    def by_rdma():
        travelled = Travelled(stack)
        if put(wire, "again", pattern) or get(wire, "again", pattern):
            return None
        since = travelled.since()
        return (since["bytes", "set"], since["bytes", "get"]) == (pattern.length, pattern.length)

    # A lane that was cut off is made anew in its own time; until then values travel by TCP, right all the same.
    wait_until(by_rdma, "a transfer in each direction by RDMA", lambda: stack.metrics().get("keyferry_lanes"))
    stack.wait_quiet()
