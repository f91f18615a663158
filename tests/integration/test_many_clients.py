"""Many clients at once, small and large values beside each other, in any order within a pipeline."""

import random
import threading

import pytest
from running_stack import wait_until
from ways import FULL, KIB, MIB, THRESHOLD, Travelled, every_way
from wire import Pattern, request

CLIENTS = 64
ROUNDS = 6 if FULL else 2
SIZES = [1, 100, 16 * KIB + 1, THRESHOLD - 1, THRESHOLD, MIB + 1, 4 * MIB, 4 * MIB + 1, 9 * MIB + 17]


def in_parallel(work, count):
    """work(number) in a thread each; the first failure is this test's."""
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_64_clients_with_mixed_sizes_each_get_their_own_values(stack):
    travelled = Travelled(stack)
    large = [0] * CLIENTS

    def work(number):
        chosen = random.Random(number)
        with stack.wire(unix=number % 2 == 1, protocol=2 + number // 2 % 2) as wire:
            for turn in range(ROUNDS):
                size = chosen.choice(SIZES)
                large[number] += size >= THRESHOLD
                value = Pattern(size, seed=number * 1000 + turn)
                wire.send_value("BLOB.TCP_SET", f"many:{number}", value)
                assert wire.reply() == b"OK"
                wire.raw(request("INCR", f"many:count:{number}") + request("BLOB.TCP_GET", f"many:{number}") + request("BLOB.INFO", f"many:{number}", "LEN"))
                assert wire.reply() == turn + 1
                assert wire.expect_value(value) is None
                assert wire.reply() == size
            assert wire.call("DEL", f"many:{number}", f"many:count:{number}") == 2

    in_parallel(work, CLIENTS)
    stack.wait_quiet()
    since = travelled.since()
    assert (since["set", "rdma"], since["get", "rdma"]) == (sum(large), sum(large))


@every_way
def test_pipelines_that_mix_both_kinds_are_answered_in_order(stack, unix, protocol):
    values = [Pattern(size, seed=size + protocol) for size in SIZES]
    with stack.wire(unix=unix, protocol=protocol) as wire:
        wire.call("DEL", "mixed:counter")

        def talk():
            for number, value in enumerate(values):
                wire.send("SET", f"mixed:small:{number}", number)
                wire.send_value("BLOB.TCP_SET", f"mixed:{number}", value)
                wire.raw(request("INCR", "mixed:counter") + request("BLOB.TCP_GET", f"mixed:{number}") + request("GET", f"mixed:small:{number}"))
                wire.raw(request("BLOB.TCP_GET", "mixed:none") + request("BLOB.TCP_GET", f"mixed:small:{number}") + request("BLOB.INFO", f"mixed:{number}", "LEN"))
            wire.raw(b"".join(request("BLOB.TCP_GET", f"mixed:{number}") for number in range(len(values))) + request("ECHO", "end"))

        sender = threading.Thread(target=talk)  # one that sends all before it reads would only fill the buffers
        sender.start()
        for number, value in enumerate(values):
            assert [wire.reply(), wire.reply(), wire.reply()] == [b"OK", b"OK", number + 1]
            assert wire.expect_value(value) is None
            assert wire.reply() == str(number).encode()
            assert wire.reply() is None
            assert wire.reply().startswith("WRONGTYPE")
            assert wire.reply() == value.length
        for value in values:
            assert wire.expect_value(value) is None
        assert wire.reply() == b"end"
        sender.join()
    stack.wait_quiet()


def test_a_client_that_sends_all_before_it_reads_does_not_wait_for_itself(stack):
    """A SET that finds no room while its own client has undelivered replies is streamed (design: pool)."""
    value = Pattern(8 * MIB, seed=3)
    with stack.wire() as wire:
        wire.send_value("BLOB.TCP_SET", "eager", value)
        assert wire.reply() == b"OK"
        wire.raw(request("BLOB.TCP_GET", "eager"))
        wire.send_value("BLOB.TCP_SET", "eager:2", value)
        wire.raw(request("BLOB.TCP_GET", "eager:2"))
        assert wire.expect_value(value) is None
        assert wire.reply() == b"OK"
        assert wire.expect_value(value) is None
    stack.wait_quiet()


def test_large_values_do_not_keep_small_requests_waiting(stack):
    """Promise 5: while others move large values back to back, a small request is answered between two of them, not after all."""
    value = Pattern(32 * MIB, seed=9)
    rounds, started = 6, threading.Barrier(4)
    finished = []

    def move(number):
        with stack.wire() as wire:
            started.wait()
            for _ in range(rounds):
                wire.send_value("BLOB.TCP_SET", f"heavy:{number}", value)
                assert wire.reply() == b"OK"
                wire.send("BLOB.TCP_GET", f"heavy:{number}")
                assert wire.expect_value(value) is None
            finished.append(number)

    answered_before = []

    def ask():
        with stack.wire() as wire:
            started.wait()
            count = 0
            while not finished:
                assert wire.call("ECHO", str(count)) == str(count).encode()
                count += 1
            answered_before.append(count)

    in_parallel(lambda number: ask() if number == 0 else move(number), 4)
    assert answered_before[0] > rounds, "fewer small requests were answered than large values moved"
    stack.wait_quiet()


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_clients_that_come_and_go_leave_nothing_behind(stack, unix):
    before = stack.metrics().total("clients")
    for number in range(200):
        with stack.wire(unix=unix) as wire:
            assert wire.call("ECHO", str(number)) == str(number).encode()
    wait_until(lambda: stack.metrics().total("clients") <= before, "the number of clients to fall back", lambda: stack.metrics().total("clients"))
