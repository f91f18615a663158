"""What a soak does, from a seed: which transfers, and the fault that each tenth of them meets."""

import dataclasses
import random

KIB = 1 << 10
MIB = 1 << 20

GET = "BLOB.RDMA_GET"
SET = "BLOB.RDMA_SET"
COMMANDS = {"get": GET, "set": SET}

# Replies after which the gateway gives up the lane by itself.
SHAPES = {
    "get": ["integer", "one-element", "three-elements", "empty-array", "negative-count", "crc-too-big", "too-long", "ok", "queued", "unreadable"],
    "set": ["integer", "three-elements", "lower-case-ok", "queued", "unreadable", "null"],
}
KINDS = ["lane cut by the server", "lane killed at the server", "lane cut by the gateway", "stopped by a signal", "client killed", "server restarted",
         "wrong checksum", "error before the last write"]  # fmt: skip


@dataclasses.dataclass
class Transfer:
    number: int
    op: str
    length: int
    shared: bool = False  # a GET of a key that all clients read
    kind: str | None = None
    armed: tuple | None = None  # words for LARGEOBJ.FAULT SET
    after: float = 0.0  # seconds from the request to what is done to processes and lanes
    process: str = ""  # which is stopped: valkey or keyferryd
    lasting: float = 0.0  # seconds that it is stopped for


def transfers(count, seed):
    """A tenth of them have a fault: each kind equally often, in a random order, spread over the run."""
    rng = random.Random(seed)
    kinds = []
    while len(kinds) < count // 10:
        kinds += rng.sample(KINDS, len(KINDS))
    plan = []
    for number in range(count):
        one = Transfer(number, rng.choice(["get", "set"]), rng.randint(512 * KIB, 8 * MIB))
        if number % 10 == 9:
            give_fault(one, kinds[number // 10], rng)
        elif one.op == "get":
            one.shared = rng.random() < 0.3
        plan.append(one)
    return plan


def give_fault(one, kind, rng):
    one.kind = kind
    one.after = rng.uniform(0, 0.05)
    pieces = str(rng.randint(0, 7))
    paused = ("pause-after", pieces, str(rng.randint(100, 1500)))
    if kind == "lane cut by the server":
        one.armed = ("drop-after", pieces, str(rng.randint(1, 400)))
    elif kind == "lane killed at the server":
        one.armed = paused
    elif kind == "lane cut by the gateway":
        one.armed = ("reply", rng.choice(SHAPES[one.op]))
    elif kind == "stopped by a signal":
        one.process = rng.choice(["valkey", "keyferryd"])
        one.lasting = rng.uniform(0.02, 0.3)
    elif kind in ("client killed", "server restarted"):
        one.armed = paused if rng.random() < 0.7 else None
    elif kind == "wrong checksum":
        one.armed = ("wrong-crc",) if one.op == "get" else ("error", "ERR crc32c of the received bytes differs from CRC")
    elif kind == "error before the last write":
        one.armed = ("early-error", pieces, str(rng.randint(1, 400)))
