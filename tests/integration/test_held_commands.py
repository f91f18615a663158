"""What the server holds back, a script, a pause of writes, clients that block, holds up nobody whom it would answer past keyferryd (R23). How long that takes is measured by tests/bench/held_commands.py."""

import json
import threading

import pytest
from running_stack import wait_until
from test_many_clients import in_parallel
from wire import ErrorReply

CONSUMERS, PRODUCERS, ROUNDS = 200, 50, 4
READERS, WRITERS = 8, 8
pytestmark = pytest.mark.stack(module=False, config={"workers": 1})


@pytest.fixture
def consumers(stack):
    """200 clients in BLPOP, four on each list."""
    clients = [stack.wire(protocol=2 + number % 2) for number in range(CONSUMERS)]
    for number, client in enumerate(clients):
        client.send("BLPOP", f"queue:{number % PRODUCERS}", 0)
    wait_until(lambda: stack.info("clients")["blocked_clients"] == CONSUMERS, "all of them to be blocked", lambda: stack.info("clients"))
    yield clients
    for client in clients:
        client.close()
    stack.wait_left()
    wait_until(lambda: stack.metrics().total("upstream_connections", state="pinned") == 0, "no connection to be pinned")


def test_R23_200_consumers_starve_none_of_50_producers_in_transactions(stack, consumers):
    def produce(number):
        with stack.wire() as producer:
            for turn in range(ROUNDS):
                assert producer.call("MULTI") == b"OK"
                assert producer.call("LPUSH", f"queue:{number}", f"{number}:{turn}") == b"QUEUED"
                assert producer.call("EXEC") == [1]

    in_parallel(produce, PRODUCERS)
    taken = sorted(tuple(client.reply()) for client in consumers)
    assert taken == sorted((f"queue:{number}".encode(), f"{number}:{turn}".encode()) for number in range(PRODUCERS) for turn in range(ROUNDS))


def test_a_script_that_never_ends_is_killed_while_200_clients_block(stack, consumers):
    server = stack.direct_info_client
    server.config_set("busy-reply-threshold", 50)
    try:
        with stack.wire() as runner, stack.wire() as killer, stack.wire() as other:
            runner.send("EVAL", "while true do end", 0)
            replies = []

            def killed():
                replies.append(killer.call("SCRIPT", "KILL"))  # NOTBUSY: the script has not begun
                return replies[-1] == b"OK"

            wait_until(killed, "SCRIPT KILL to be taken", lambda: replies[-3:])
            assert "Script killed by user" in runner.reply()
            assert other.call("SET", "after", 1) == b"OK"
    finally:
        server.config_set("busy-reply-threshold", 5000)
    assert stack.info("clients")["blocked_clients"] == CONSUMERS


def test_while_writes_are_paused_reads_go_on_and_all_writes_are_answered_afterwards(stack, consumers):
    """Writes of many clients wait on shared connections; no GET waits behind them (Access, ChannelPool::pick)."""
    server = stack.direct_info_client
    server.set("k", "v")
    ready, paused, resumed = threading.Barrier(1 + READERS + WRITERS), threading.Event(), threading.Event()
    reads = []

    def read(number):
        with stack.wire(protocol=2 + number % 2) as reader:
            assert reader.call("GET", "k") == b"v"
            ready.wait()
            paused.wait()
            while not resumed.is_set():
                assert reader.call("GET", "k") == b"v"
                reads.append(1)

    def write(number):
        with stack.wire(protocol=2 + number % 2) as writer:
            assert writer.call("SET", f"written:{number}", 1) == b"OK"
            ready.wait()
            paused.wait()
            # Half of them in a transaction, which waits on a connection of its own; the others cover all shared ones.
            if number >= WRITERS // 2:
                assert writer.call("MULTI") == b"OK"
                assert writer.call("INCR", f"written:{number}") == b"QUEUED"
                assert writer.call("EXEC") == [2]
            else:
                assert writer.call("INCR", f"written:{number}") == 2
            assert resumed.is_set(), "a write was answered during the pause"

    def clients():
        return json.loads(stack.http("/clients.json")[1])["clients"]

    def conduct():
        with stack.wire() as admin:
            ready.wait()
            # Longer than this test lasts: it ends by UNPAUSE.
            assert admin.call("CLIENT", "PAUSE", 3_600_000, "WRITE") == b"OK"
            paused.set()
            try:
                wait_until(lambda: sum(row["owed"] > 0 and row["command"] in ("INCR", "EXEC") for row in clients()) == WRITERS, "all writes to wait", clients)
                seen = len(reads)
                wait_until(lambda: len(reads) >= seen + 20 * READERS, "reads to go on", lambda: (seen, len(reads)))
                wait_until(lambda: stack.metrics().total("upstream_connections", state="pinned") >= CONSUMERS, "consumers to be where they were")
            finally:
                resumed.set()
                assert admin.call("CLIENT", "UNPAUSE") == b"OK"

    in_parallel(lambda number: conduct() if number == 0 else read(number) if number <= READERS else write(number - READERS - 1), 1 + READERS + WRITERS)
    assert [server.get(f"written:{number}") for number in range(WRITERS)] == [b"2"] * WRITERS
    with stack.wire() as one:
        assert not isinstance(one.call("SET", "k", "w"), ErrorReply)
