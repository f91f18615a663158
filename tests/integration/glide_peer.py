"""Runs in the Python of tests/support/peers/glide: does what a JSON list on stdin says with GLIDE's own RDMA path, and prints the outcomes as JSON.

Each step is {"do": "set" | "get", "key", "length", "seed", "checksum": "skip" | "compute" | "known" | "wrong"}. A value is `length` bytes of the pattern
of tests/support/wire.py; for a get, `length` is the window. The outcome of a get is {"length", "digest"} or {"missing"}, of a set {"digest"}; an error is
{"error", "closed": whether the region was lost}, and ends nothing.
"""

import hashlib
import json
import os
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from glide_sync import GlideClient, GlideClientConfiguration, NodeAddress, RdmaConfiguration, RdmaProvider, RdmaSetChecksum  # noqa: E402
from wire import Pattern  # noqa: E402

WATCHDOG_SECONDS = 300
CAPACITY = 80 << 20
OFFSET = 4096  # windows need not begin where the region does


def checksum(client, value, mode):
    if mode == "skip":
        return RdmaSetChecksum.Skip()
    if mode == "compute":
        return RdmaSetChecksum.Compute()
    return RdmaSetChecksum.Known(client.rdma_checksum(value) ^ (mode == "wrong"))


def do(client, region, memory, step):
    window = region.window(OFFSET, step["length"])
    if step["do"] == "set":
        value = Pattern(step["length"], step["seed"]).bytes()
        memory[OFFSET : OFFSET + len(value)] = value
        client.rdma_set(step["key"], window, checksum(client, value, step["checksum"]))
        return {"digest": hashlib.sha256(value).hexdigest()}
    receipt = client.rdma_get(step["key"], window)
    if receipt is None:
        return {"missing": True}
    return {"length": receipt.bytes_written, "digest": hashlib.sha256(memoryview(memory)[OFFSET : OFFSET + receipt.bytes_written]).hexdigest()}


def main():
    port, steps = int(sys.argv[1]), json.load(sys.stdin)
    client = GlideClient.create(
        GlideClientConfiguration([NodeAddress("127.0.0.1", port)], request_timeout=30000, rdma=RdmaConfiguration(provider=RdmaProvider.Tcp(bind="127.0.0.1")))
    )
    # A transfer of GLIDE's has no time limit of its own.
    watchdog = threading.Timer(WATCHDOG_SECONDS, os._exit, [9])
    watchdog.daemon = True
    watchdog.start()
    memory = bytearray(OFFSET + CAPACITY)
    outcomes = []
    with client.register_rdma_region(memory) as region:
        for step in steps:
            try:
                outcomes.append(do(client, region, memory, step))
            except Exception as error:  # noqa: BLE001
                outcomes.append({"error": f"{type(error).__name__}: {error}", "closed": region.closed})
    client.close()
    json.dump(outcomes, sys.stdout)


main()
