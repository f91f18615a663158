"""Published clients through the gateway, each with its own means: clients/ has the programs, scenario.py what they are asked and judged by."""

import os
import sys

import pytest
from bring import bring
from client_ways import Way
from scenario import CLIENTS, Scenario


pytestmark = pytest.mark.stack(config={"pool": {"size": "64MiB"}})  # small, for a gateway that is started again for each client


def python(file, *arguments):
    return lambda: ([sys.executable, CLIENTS / "python" / file, *arguments], {})


def node(file, *arguments):
    return lambda: (["node", CLIENTS / "javascript" / file, *arguments], {"NODE_PATH": bring("node")})


def built(language, *arguments):
    return lambda: ([*bring("clients", language).split(" "), *arguments], {})


def java(name):
    return lambda: (["java", "-cp", bring("clients", "java"), "Main", name], {})


# name: how it is started, (protocol, listener) that it is run with, whether it has a client-side cache in the last one. The first ones of each language are
# what a plain tests/run takes.
ONE_OF_EACH = {
    "redis-py": (python("redis_py.py", "redis"), [(2, "unix"), (3, "tcp")], False),
    "ioredis": (node("ioredis.mjs", "ioredis"), [(2, "tcp"), (2, "unix")], False),
    "go-redis": (built("go", "go-redis"), [(2, "unix"), (3, "tcp")], True),
    "jedis": (java("jedis"), [(2, "tcp"), (3, "tcp")], False),
    "redis-rs": (built("rust"), [(2, "tcp"), (3, "unix")], False),
    "hiredis": (built("c"), [(2, "tcp"), (2, "unix")], False),
}
MORE = {
    "redis-py asyncio": (python("redis_py_asyncio.py", "redis"), [(2, "tcp"), (3, "unix")], False),
    "valkey-py": (python("redis_py.py", "valkey"), [(2, "tcp"), (3, "unix")], False),
    "valkey-py asyncio": (python("redis_py_asyncio.py", "valkey"), [(2, "unix"), (3, "tcp")], False),
    "node-redis": (node("node_redis.mjs"), [(2, "unix"), (3, "tcp")], True),
    "iovalkey": (node("ioredis.mjs", "iovalkey"), [(2, "tcp"), (2, "unix")], False),
    "valkey-go": (built("go", "valkey-go"), [(2, "unix"), (3, "tcp")], True),
    "lettuce": (java("lettuce"), [(2, "tcp"), (3, "tcp")], True),
    "valkey-glide Python": (python("valkey_glide.py"), [(2, "tcp"), (3, "tcp")], True),
    "valkey-glide Node": (node("valkey_glide.mjs"), [(2, "tcp"), (3, "tcp")], True),
}


def runs():
    for clients, marks in ((ONE_OF_EACH, []), (MORE, [pytest.mark.every_client])):
        for name, (command, ways, caches) in clients.items():
            for number, (protocol, listener) in enumerate(ways):
                cached = caches and number == len(ways) - 1
                yield pytest.param(command, protocol, listener, cached, marks=marks, id=f"{name}-RESP{protocol}-{listener}".replace(" ", "-"))


@pytest.mark.parametrize(("command", "protocol", "listener", "cached"), list(runs()))
def test_a_client_runs_its_scenario_as_it_would_at_the_server(command, protocol, listener, cached, stack, server, prefix):
    words, environment = command()
    environment = {**environment, "KF_CACHE": "1" if cached else ""}
    Scenario(stack, server, prefix).run(words, Way(listener, stack), protocol, environment, cached)
