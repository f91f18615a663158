"""Clients that have state but nothing to do share their connections to the server (R15, R54)."""

import resource

import pytest
from running_stack import wait_until
from wire import request

CLIENTS = 1000
MOST = 16

pytestmark = pytest.mark.stack(module=False)


def test_1000_clients_with_names_databases_and_past_transactions_hold_at_most_16_connections(stack):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, CLIENTS + 500)), hard))
    script = "return redis.call('incr', KEYS[1])"
    words = [("HELLO", 3), ("CLIENT", "SETNAME", "idles"), ("CLIENT", "SETINFO", "LIB-NAME", "by-hand"), ("CLIENT", "ID"), ("SELECT", 3),
             ("MULTI",), ("INCR", "count"), ("CLIENT", "ID"), ("EXEC",), ("EVAL", script, 1, "scripts")]  # fmt: skip
    made = []
    try:
        for number in range(CLIENTS):
            made.append(stack.wire())
            made[-1].raw(b"".join(request(*one) for one in words))
            answers = [made[-1].reply() for _ in words]
            assert answers[3:5] + answers[8:] == [answers[3], b"OK", [number + 1, answers[3]], number + 1]
        assert stack.metrics().total("clients") >= CLIENTS

        def connections():
            return len(stack.direct_info_client.client_list()) - 1  # past keyferryd, which is the one that asks

        wait_until(lambda: connections() <= MOST, f"at most {MOST} connections of {CLIENTS} clients", connections)
        assert made[0].call("GET", "count") == made[-1].call("GET", "scripts") == str(CLIENTS).encode()
    finally:
        for wire in made:
            wire.close()
        stack.direct_info_client.flushall()
