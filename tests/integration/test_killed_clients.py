"""Clients that are cut off at random moments in random states: no crossed reply, no channel and no memory stays behind (R13, R19, R54)."""

import contextlib
import pathlib
import random
import socket
import struct
import threading

import pytest
from running_stack import wait_until
from test_many_clients import in_parallel
from ways import ALL, MIB
from wire import ErrorReply, Pattern, request

CLIENTS = 1000 if ALL else 150
AT_ONCE = 12
WITNESSES = 3
MEMORY_SLACK = 24 * MIB  # of the process, for what the allocator keeps

pytestmark = pytest.mark.stack(config={"pool": {"size": "64MiB"}, "transfer": {"orphan_grace": "200ms"}})


LARGE = Pattern(MIB + 7, seed=5).bytes()

# What a client may be in the middle of: commands, of which any may be the last that came whole.
STATES = [
    lambda tag: [("MULTI",), ("SET", tag, tag), ("INCR", tag + ":n"), ("GET", tag), ("EXEC",)],
    lambda tag: [("WATCH", tag), ("GET", tag), ("MULTI",), ("SET", tag, tag)],
    lambda tag: [("BLPOP", tag + ":queue", 0)],
    lambda tag: [("BLMOVE", tag + ":queue", tag + ":other", "LEFT", "RIGHT", 0)],
    lambda tag: [("SUBSCRIBE", tag, tag + ":2"), ("UNSUBSCRIBE", tag)],
    lambda tag: [("PSUBSCRIBE", tag + "*")],
    lambda tag: [("CLIENT", "TRACKING", "ON"), ("GET", tag), ("GET", tag)],
    lambda tag: [("MONITOR",)],
    lambda tag: [("CLIENT", "REPLY", "OFF"), ("SET", tag, tag), ("CLIENT", "REPLY", "ON"), ("GET", tag)],
    lambda tag: [("SELECT", 5), ("SET", tag, tag), ("GET", tag)],
    lambda tag: [("EVAL", "for i = 1, 2000 do redis.call('GET', KEYS[1]) end return ARGV[1]", 1, tag, tag)],
    lambda tag: [("GET", tag)] * 200,
    lambda tag: [("BLOB.TCP_SET", tag + ":large", LARGE), ("BLOB.TCP_GET", tag + ":large"), ("GET", tag)],
    lambda tag: [("SET", tag + ":big", b"x" * 300000), ("GET", tag + ":big"), ("GET", tag + ":big")],
]


def check_own_values(wire, tag, chosen):
    """A few rounds of the usual, each value and each reply marked as this client's."""
    for turn in range(chosen.randrange(1, 4)):
        value = f"{tag}:{turn}".encode()
        batch = [("SET", tag, value), ("GET", tag), ("ECHO", value), ("MULTI",), ("GET", tag), ("ECHO", value), ("EXEC",),
                 ("EVAL", "return {ARGV[1], redis.call('GET', KEYS[1])}", 1, tag, value)]
        wire.raw(b"".join(request(*words) for words in batch))
        got = [wire.reply() for _ in batch]
        assert got == [b"OK", value, value, b"OK", b"QUEUED", b"QUEUED", [value, value], [value, value]], f"{tag}: a reply that is not its own"


def cut_off(wire, chosen):
    """The client is gone: in order, by a reset, or with its sending side first."""
    way = chosen.randrange(3)
    if way == 0:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif way == 1:
        with contextlib.suppress(OSError):  # another may have ended it already
            wire.socket.shutdown(socket.SHUT_WR)
    wire.close()


def live_and_die(stack, number, seed):
    chosen = random.Random(f"{seed}:{number}")
    tag = f"killed:{seed}:{number}"
    wire = stack.wire(unix=chosen.random() < 0.5, protocol=chosen.choice([2, 3]))
    check_own_values(wire, tag, chosen)
    stream = b"".join(request(*words) for words in chosen.choice(STATES)(tag))
    cut = len(stream) if chosen.random() < 0.3 else chosen.randrange(1, len(stream) + 1)
    if chosen.random() < 0.2:  # another ends it, by its id, while it is at that
        client = wire.call("CLIENT", "ID")
        wire.raw(stream[:cut])
        with stack.wire() as killer:
            assert killer.call("CLIENT", "KILL", "ID", client) == 1
    else:
        wire.raw(stream[:cut])
        if chosen.random() < 0.5:
            wire.socket.settimeout(chosen.random() * 0.02)  # some replies may come before the end
            try:
                for _ in range(50):  # to MONITOR the witnesses never fall silent
                    if not wire.socket.recv(65536):
                        break
            except OSError:
                pass
    cut_off(wire, chosen)


def witness(stack, number, seed, ended):
    """One that is never cut off: whatever happens to others, each reply is its own."""
    wire = stack.wire(unix=number % 2 == 0, protocol=2 + number % 2)
    count, key = 0, f"witness:{seed}:{number}"
    while not ended.is_set():
        count += 1
        words = [("SET", key, count), ("GET", key), ("ECHO", f"{number}:{count}"), ("INCR", key + ":n")]
        wire.raw(b"".join(request(*each) for each in words))
        assert [wire.reply() for _ in words] == [b"OK", str(count).encode(), f"{number}:{count}".encode(), count], "a reply that is not the witness's own"
    wire.close()


def storm(stack, seed, count):
    ended = threading.Event()
    numbers = iter(range(count))
    guard = threading.Lock()

    def next_number():
        with guard:
            return next(numbers, None)

    def work(worker):
        if worker < WITNESSES:
            return witness(stack, worker, seed, ended)
        while (number := next_number()) is not None:
            live_and_die(stack, number, seed)
        return None

    def rest():
        try:
            in_parallel(lambda worker: work(worker + WITNESSES), AT_ONCE)
        finally:
            ended.set()

    in_parallel(lambda worker: work(worker) if worker < WITNESSES else rest(), WITNESSES + 1)


def settled(stack):
    metrics = stack.metrics()
    return metrics.total("clients"), metrics.total("upstream_connections", state="pinned"), stack.info("clients")["blocked_clients"]


def left_behind(stack):
    with stack.wire() as wire:
        return settled(stack), wire.call("CLIENT", "LIST").decode()


def memory(stack):
    status = pathlib.Path(f"/proc/{stack.keyferry_pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


def sanitized(stack):
    maps = pathlib.Path(f"/proc/{stack.keyferry_pid}/maps").read_text()
    return "libasan" in maps or "libtsan" in maps  # a sanitizer's own memory is much more


def test_clients_cut_off_in_any_state_cross_no_reply_and_leave_nothing_behind(stack):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    base = settled(stack)
    used = []
    for turn, count in enumerate((CLIENTS // 3, CLIENTS)):  # the first one brings the process to its working size
        storm(stack, seed + turn, count)
        wait_until(lambda: settled(stack) == base, "clients and channels to be given back", lambda: left_behind(stack))
        stack.wait_quiet()
        used.append(memory(stack))
        if turn == 0:
            connected = stack.info("clients")["connected_clients"]
    # Those that are idle are kept for some seconds.
    wait_until(lambda: stack.info("clients")["connected_clients"] <= connected + 8, "the connections to the server to be given up")
    assert sanitized(stack) or used[1] < used[0] + MEMORY_SLACK, f"memory grows: {used}"
    with stack.wire() as wire:
        for words in (("PING",), ("SET", "after", "1"), ("MULTI",), ("EXEC",), ("EVAL", "return 1", 0), ("BLPOP", "none", "0.01")):
            assert not isinstance(wire.call(*words), ErrorReply)
