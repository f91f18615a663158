"""valkey-server killed and started again and again under load: each request is answered once, and clients that retry get done (R38, R134)."""

import threading
import time

import pytest
from running_stack import PATIENCE, wait_until
from test_many_clients import in_parallel
from ways import ALL
from wire import ErrorReply, request

RESTARTS = 25 if ALL else 3
UP_SECONDS = 2 if ALL else 0.4  # between two kills
DIRECT_CLIENTS, RETRYING_CLIENTS, BLOCKED_CLIENTS = 5, 2, 1

pytestmark = pytest.mark.stack(config={"pool": {"size": "64MiB"}, "limits": {"upstream_wait": "1s"}})


class Tally:
    def __init__(self):
        self.answers = self.errors = self.reconnects = 0


def ask_once(stack, number, ended, tally):
    """Each request gets one reply, its own or one error: a lost or a doubled one would put every later ECHO out of step."""
    wire = stack.wire(unix=number % 2 == 1, protocol=2 + number % 2)
    count = 0
    while not ended.is_set():
        count += 1
        value = f"{number}:{count}".encode()
        batch = [(("SET", f"asked:{number}", value), [b"OK"]), (("GET", f"asked:{number}"), [value, None]), (("ECHO", value), [value])]
        if count % 5 == 0:
            batch.append((("EVAL", "return ARGV[1]", 0, value), [value]))
        wire.raw(b"".join(request(*words) for words, _ in batch))
        for words, allowed in batch:
            try:
                reply = wire.reply()
            except (EOFError, ConnectionResetError):  # a client whose state was in the connection, as directly; a new one must do
                tally.reconnects += 1
                wire.close()
                wire = stack.wire(unix=number % 2 == 1, protocol=2 + number % 2)
                break
            if isinstance(reply, ErrorReply):
                tally.errors += 1
                assert reply.startswith(("ERR keyferry", "LOADING", "BUSY")), f"{words[0]}: {reply}"
            else:
                tally.answers += 1
                assert reply in allowed, f"{words}: {reply!r}"
    wire.close()


def retry_until_done(stack, number, ended, tally):
    """An application that tries again until it was stored, and reads it back."""
    client = stack.client(protocol=2 + number % 2)
    count = 0
    while not ended.is_set():
        count += 1
        limit = time.monotonic() + PATIENCE
        while True:
            try:
                with client.pipeline(transaction=count % 2 == 0) as pipeline:
                    stored = pipeline.set(f"retried:{number}", count).get(f"retried:{number}").execute()
                assert stored == [True, str(count).encode()]
                break
            except AssertionError:
                raise
            except Exception as error:  # noqa: BLE001
                assert time.monotonic() < limit, f"tried {PATIENCE} s in vain: {error}"
                time.sleep(0.005)
    tally.answers += count


def wait_blocked(stack, ended, tally):
    """One that blocks gets an error or its end when the server goes, never nothing."""
    while not ended.is_set():
        wire = stack.wire(timeout=PATIENCE)
        wire.send("BLPOP", "blocked:queue", "0.7")
        try:
            reply = wire.reply()
            assert reply is None or isinstance(reply, ErrorReply)
        except (EOFError, ConnectionResetError):
            tally.reconnects += 1
        wire.close()


def test_while_the_server_is_killed_again_and_again_each_request_is_answered_once(stack):
    ended = threading.Event()
    tallies = [Tally() for _ in range(DIRECT_CLIENTS + RETRYING_CLIENTS + BLOCKED_CLIENTS)]
    base = stack.metrics().total("clients")

    def restarts():
        try:
            for _ in range(RESTARTS):
                time.sleep(UP_SECONDS)  # the load goes on; how long it does is what this test is about
                stack.restart_valkey(signal="KILL")
            stack.wait_ready()
            time.sleep(UP_SECONDS)
        finally:
            ended.set()

    def work(number):
        if number == len(tallies):
            restarts()
        elif number < DIRECT_CLIENTS:
            ask_once(stack, number, ended, tallies[number])
        elif number < DIRECT_CLIENTS + RETRYING_CLIENTS:
            retry_until_done(stack, number, ended, tallies[number])
        else:
            wait_blocked(stack, ended, tallies[number])

    in_parallel(work, len(tallies) + 1)
    print([vars(tally) for tally in tallies])
    assert all(tally.answers > 0 for tally in tallies[: DIRECT_CLIENTS + RETRYING_CLIENTS])
    assert sum(tally.errors for tally in tallies) > 0, "the server was never missed"
    with stack.wire() as wire:
        assert wire.call("ECHO", "after") == b"after"
    wait_until(lambda: stack.metrics().total("clients") <= base + RETRYING_CLIENTS, "the clients to be gone")
    wait_until(lambda: stack.metrics().total("upstream_connections", state="pinned") == 0, "no connection to be pinned")
    wait_until(lambda: stack.metrics().total("oldest_request_seconds") == 0, "no request to be under way")
