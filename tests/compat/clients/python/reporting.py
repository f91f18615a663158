"""How a Python program of the scenario gets its task and talks to scenario.py."""

import os
import sys
import time

PREFIX = os.environ["KF_PREFIX"]
PROTOCOL = int(os.environ["KF_PROTOCOL"])
UNIX = os.environ.get("KF_UNIX")
HOST = os.environ.get("KF_HOST")
PORT = int(os.environ.get("KF_PORT", "0"))
CACHE = bool(os.environ.get("KF_CACHE"))
PAIRS = 100
MESSAGES = 50
CACHED_READS = 50
SCRIPT = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}"
UNKNOWN_SHA = "f" * 40


def text(value):
    if value is None:
        return "nil"
    if value is True:
        return "OK"
    if isinstance(value, (list, tuple)):
        return ",".join(map(text, value))
    return value.decode() if isinstance(value, bytes) else str(value)


def say(name, value=""):
    print(f"{name}\t{text(value)}", flush=True)


def ask(name, value=""):
    say("?" + name, value)
    sys.stdin.readline()


PATIENCE = 100


class Trying:
    """for _ in Trying(): one try after the other, until `break`; the time for it is bounded."""

    def __iter__(self):
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            yield None
            time.sleep(0.02)
        raise TimeoutError("tried in vain")
