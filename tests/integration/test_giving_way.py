"""Who has a connection for himself gives way to those on shared channels: many that commit or are woken at once hold up no GET of others."""

import os
import pathlib
import signal
import socket
import struct

import pytest
from running_stack import wait_until
from wire import request

SO_TIMESTAMPNS = 35  # of the kernel's socket.h; a received segment then comes with the time of its arrival
LISTS = [f"list:{number:02}" for number in range(40)]

pytestmark = pytest.mark.stack(config={"workers": 1}, module=False)


def unread(port, column):
    """Bytes that wait in the kernel for the readers of connections with this port, of /proc/net/tcp's column 1 (the reader's own) or 2 (its peer's)."""
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(fields[4].split(":")[1], 16) for fields in lines if fields[3] == "01" and int(fields[column].split(":")[1], 16) == port)


def wait_unread(port, column, count):
    wait_until(lambda: unread(port, column) == count, f"{count} bytes to wait", lambda: unread(port, column))


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    state = pathlib.Path(f"/proc/{pid}/stat")
    wait_until(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T", f"{pid} to be stopped")


def stamped(stack):
    client = stack.wire()
    client.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return client


def reply_and_arrival(client):
    """What comes next, and when it came (nanoseconds)."""
    data, ancillary, _, _ = client.socket.recvmsg(4096, 64)
    seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
    return data, seconds * 10**9 + nanoseconds


def answered_at_once(stack, many, commit, wake, replies_to_wake):
    """When replies leave that have all come before keyferryd reads the first: (to the GET of another, [to each of `many`])."""
    get, value = request("GET", "key"), b"$1\r\nv\r\n"
    stack.direct_info_client.set("key", "v")
    reader, waker = stamped(stack), stack.wire(direct=True)
    assert [client.call("GET", "key") for client in (reader, waker)] == [b"v"] * 2
    try:
        stop(stack.valkey_pid)
        # The server reads it first and so writes its reply last.
        reader.raw(get)
        wait_unread(stack.valkey_port, 1, len(get))
        for client in many:
            client.raw(commit)
        wait_unread(stack.valkey_port, 1, len(commit) * len(many) + len(get))
        waker.raw(wake)
        stop(stack.keyferry_pid)
        os.kill(stack.valkey_pid, signal.SIGCONT)
        wait_unread(stack.valkey_port, 2, sum(len(answer) for answer in many.values()) + len(value) + len(replies_to_wake))
    finally:
        os.kill(stack.valkey_pid, signal.SIGCONT)
        os.kill(stack.keyferry_pid, signal.SIGCONT)
    to_reader, to_many = reply_and_arrival(reader), [reply_and_arrival(client) for client in many]
    assert [to_reader[0]] + [reply for reply, _ in to_many] == [value, *many.values()]
    return to_reader[1], [arrival for _, arrival in to_many]


def test_a_reply_on_a_shared_channel_leaves_before_those_to_many_that_commit(stack):
    many = {stamped(stack): b"*1\r\n:1\r\n" for _ in LISTS}
    for client, name in zip(many, LISTS):
        assert (client.call("MULTI"), client.call("LPUSH", name, "x")) == (b"OK", b"QUEUED")
    to_reader, to_many = answered_at_once(stack, many, request("EXEC"), b"", b"")
    assert to_reader < min(to_many)


def test_a_reply_on_a_shared_channel_leaves_before_those_to_many_that_are_woken(stack):
    stack.direct_info_client.flushall()
    many = {stamped(stack): b"*2\r\n$7\r\n%b\r\n$1\r\nx\r\n" % name.encode() for name in LISTS}
    for client, name in zip(many, LISTS):
        client.send("BLPOP", name, 0)
    wait_until(lambda: stack.info("clients")["blocked_clients"] == len(LISTS), "all to be blocked")
    to_reader, to_many = answered_at_once(stack, many, b"", b"".join(request("LPUSH", name, "x") for name in LISTS), b":1\r\n" * len(LISTS))
    assert to_reader < min(to_many)
