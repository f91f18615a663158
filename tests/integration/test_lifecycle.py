"""Starting, stopping and restarting either side, and what keyferryd says of itself (promises 7 and 11)."""

import json
import threading

import pytest
from faults import OLD, armed, fired, get, store, stored, works_again
from running_stack import wait_until
from ways import MIB, Travelled
from wire import ErrorReply, Pattern


def test_without_a_server_it_starts_is_not_ready_answers_with_errors_and_recovers(make_stack):
    stack = make_stack(config={"limits": {"upstream_wait": "1s"}})
    stack.stop_keyferry()
    stack.stop_valkey()
    stack.start_keyferry(wait=False)
    wait_until(lambda: stack.answers("/healthz") == 200, "/healthz to answer 200", lambda: stack.answers("/healthz"))
    with stack.wire() as wire:
        for _ in range(2):
            wire.send("GET", "a")
            wire.send_value("BLOB.TCP_SET", "large", OLD)
            for _ in range(2):
                answer = wire.reply()
                assert isinstance(answer, ErrorReply) and answer.startswith("ERR keyferry"), answer
            assert wire.call("RESET") == b"RESET"  # answered by keyferryd itself
        assert stack.http("/readyz")[0] == 503
        stack.start_valkey()
        stack.wait_ready()
        works_again(stack, wire)


def test_a_restart_of_keyferryd_needs_no_restart_of_the_server_and_loses_nothing(make_stack):
    stack = make_stack()
    with stack.wire() as wire:
        wire.send_value("BLOB.TCP_SET", "kept", OLD)
        assert wire.reply() == b"OK"
        stack.stop_keyferry()
        wire.expect_end()
    stack.start_keyferry()
    with stack.wire(unix=True) as wire:
        assert get(wire, "kept", OLD) is None
        works_again(stack, wire)


def test_a_killed_keyferryd_harms_neither_the_server_nor_its_own_next_start(make_stack):
    stack = make_stack()
    store(stack, "kept", OLD)
    with stack.wire() as wire, armed(stack, "pause-after", "5", "1000", on="BLOB.RDMA_GET"):
        before = fired(stack)
        wire.send("BLOB.TCP_GET", "kept")
        wait_until(lambda: fired(stack) > before, "the transfer to begin")
        stack.stop_keyferry("KILL")
    assert stored(stack, "kept", OLD) is OLD
    stack.start_keyferry()
    with stack.wire() as wire:
        assert get(wire, "kept", OLD) is None
        works_again(stack, wire)


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_SIGTERM_lets_a_running_transfer_end_and_takes_no_new_client(make_stack, unix):
    stack = make_stack()
    store(stack, "kept", OLD)
    with stack.wire(unix=unix) as wire, armed(stack, "pause-after", "5", "2000", on="BLOB.RDMA_GET"):
        before = fired(stack)
        wire.send("BLOB.TCP_GET", "kept")
        wait_until(lambda: fired(stack) > before, "the transfer to begin")
        ending = threading.Thread(target=stack.stop_keyferry)
        ending.start()
        assert wire.expect_value(OLD) is None
        wire.expect_end()
        ending.join()
    with pytest.raises(OSError):
        stack.wire(unix=unix)
    assert "killed" not in stack.log()


def test_a_drain_that_lasts_too_long_fences_what_is_left(make_stack):
    stack = make_stack(config={"limits": {"drain": "1s"}})
    store(stack, "kept", OLD)
    with stack.wire() as wire, armed(stack, "never-answer", on="BLOB.RDMA_GET"):
        before = fired(stack)
        wire.send("BLOB.TCP_GET", "kept")
        wait_until(lambda: fired(stack) > before, "the transfer to begin")
        stack.stop_keyferry()
    assert "killed" not in stack.log() and "is fenced" in stack.log(), stack.log()
    assert stored(stack, "kept", OLD) is OLD


def test_the_metrics_and_pages_that_operators_rely_on_are_there(stack):
    with stack.wire() as wire:
        works_again(stack, wire)
    status, text = stack.http("/metrics")
    assert status == 200
    assert 'keyferry_transfers_total{op="set",path="rdma",outcome="ok"}' in text
    assert 'keyferry_transfers_total{op="get",path="rdma",outcome="ok"}' in text
    metrics = stack.metrics()
    for op, stages in {"set": ("lease", "wire"), "get": ("lease", "wire", "verify", "deliver")}.items():
        for stage in stages:
            assert metrics.total("transfer_stage_seconds_count", op=op, stage=stage) > 0, (op, stage)
    assert metrics.total("build_info") == 1
    assert metrics.total("transport_info", node=f"127.0.0.1:{stack.valkey_port}") == 2
    assert stack.http("/healthz")[0] == 200
    assert stack.http("/readyz")[0] == 200
    assert json.loads(stack.http("/status.json")[1])["ready"] is True
    assert stack.http("/status")[1].lstrip().lower().startswith("<!doctype html")
    assert stack.http("/nosuchpage")[0] == 404


def test_by_tls_everything_is_as_without(make_stack):
    stack = make_stack(tls=True)
    value = Pattern(9 * MIB + 1, seed=12)
    travelled = Travelled(stack)
    with stack.wire() as wire:
        assert wire.call("SET", "a", "1") == b"OK"
        wire.send_value("BLOB.TCP_SET", "by-tls", value)
        assert wire.reply() == b"OK"
        assert get(wire, "by-tls", value) is None
        wire.send_value("SET", "plain", value)
        assert wire.reply() == b"OK"
        wire.send("GET", "plain")
        assert wire.expect_value(value) is None
        assert travelled.since()["bytes", "get"] == value.length
        assert stack.metrics().total("transport_info", have="tls") == 1
        stack.restart_valkey("KILL")
        stack.wait_ready()
        works_again(stack, wire)
