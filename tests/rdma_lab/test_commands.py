"""Ordinary commands through keyferryd over RDMA, and nothing else: transport rdma, required."""

import signal
import threading

import pytest
from lab import Lab, build
from running_stack import wait_until
from wire import Pattern, request

MIB = 1 << 20


@pytest.fixture(scope="module", params=[64 << 10, 16 << 20], ids=["64KiB", "16MiB"])
def rdma(request):
    """A gateway before a server with that window; the window in bytes."""
    made = Lab()
    made.start_server("--rdma-rx-size", request.param, "--loadmodule", build() / "tests/support/large_object/large_object.so", "fabric-provider", "Off")
    made.start_gateway(transport="rdma", require=True, connections=1)
    made.window = request.param
    yield made
    made.close()


def set_and_get(client, key, pattern):
    client.send_value("SET", key, pattern)
    assert client.reply() == b"OK"
    client.send("GET", key)
    assert client.reply() == pattern.bytes()


def test_6000_keys_are_written_and_read(rdma):
    client = rdma.client()
    before = rdma.crossed("rdma")
    for begin in range(0, 6000, 500):
        keys = range(begin, begin + 500)
        client.raw(b"".join(request("SET", f"key:{i}", f"value {i} " * (i % 50 + 1)) for i in keys))
        assert all(client.reply() == b"OK" for _ in keys)
    for begin in range(0, 6000, 500):
        keys = range(begin, begin + 500)
        client.raw(b"".join(request("GET", f"key:{i}") for i in keys))
        assert [client.reply() for _ in keys] == [(f"value {i} " * (i % 50 + 1)).encode() for i in keys]
    wait_until(lambda: rdma.crossed("rdma") - before > 6000 * 100, "the bytes to be counted for RDMA")
    assert rdma.crossed("tcp") == 0
    assert rdma.transport() == ("rdma", "configured")


@pytest.mark.long
def test_R62_values_at_the_edges_of_both_windows(rdma):
    client = rdma.client()
    sizes = {1, *(edge for window in (rdma.window, MIB) for edge in (window - 1, window, window + 1, 3 * window))}
    for size in sorted(sizes):
        set_and_get(client, "edge", Pattern(size, size))


@pytest.mark.long
def test_a_value_of_64_MiB(rdma):
    set_and_get(rdma.client(), "large", Pattern(64 * MIB, 3))


def test_connections_are_counted_by_what_carries_them(rdma):
    client = rdma.client()
    assert client.call("MULTI") == b"OK"
    assert client.call("PING") == b"QUEUED"

    def pinned(transport):
        return rdma.metrics().total("upstream_connections", transport=transport, state="pinned")

    wait_until(lambda: pinned("rdma") == 1, "the connection of the transaction to be counted")
    assert client.call("EXEC") == [b"PONG"]
    assert rdma.metrics().total("upstream_connections", transport="tcp") == 0


def test_a_large_object_without_a_fabric_travels_by_rdma_as_well(rdma):
    client, pattern = rdma.client(), Pattern(MIB, 5)
    before = rdma.crossed("rdma")
    client.send_value("BLOB.TCP_SET", "object", pattern)
    assert client.reply() == b"OK"
    client.send("BLOB.TCP_GET", "object")
    assert client.reply() == pattern.bytes()
    wait_until(lambda: rdma.crossed("rdma") - before > 2 * MIB, "the bytes to be counted for RDMA")
    assert rdma.crossed("tcp") == 0


def test_a_pipeline_of_10_000_commands(rdma):
    client = rdma.client()
    sender = threading.Thread(target=client.raw, args=(b"".join(request("ECHO", i) for i in range(10_000)),))
    sender.start()
    assert [client.reply() for _ in range(10_000)] == [b"%d" % i for i in range(10_000)]
    sender.join()


def test_5_000_small_commands_wait_for_a_server_that_is_busy_for_5_s(rdma):
    busy = rdma.client()
    waiting = [rdma.client() for _ in range(10)]
    busy.send("DEBUG", "SLEEP", 5)
    for i in range(500):
        for client in waiting:
            client.send("ECHO", i)
    assert busy.reply() == b"OK"
    for client in waiting:
        assert [client.reply() for _ in range(500)] == [b"%d" % i for i in range(500)]
    assert rdma.transport() == ("rdma", "configured")


def test_R63_a_gateway_that_ends_in_mid_pipeline_leaves_the_server_up(rdma):
    client = rdma.client()
    client.raw(b"".join(request("SET", f"key:{i}", "x" * 1000) for i in range(2000)))
    rdma.gateway.end(signal.SIGTERM)
    assert rdma.queue_pairs() == 0
    assert rdma.server.running(), rdma.server.log()
    assert rdma.direct().call("PING") == b"PONG"
    wait_until(lambda: b"\n".join(rdma.direct().call("CLIENT", "LIST").splitlines()).count(b"lib-name=keyferry") == 0,
               "the server to let go of the gateway's connections")
    rdma.start_gateway(transport="rdma", require=True, connections=1)
