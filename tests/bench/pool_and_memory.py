#!/usr/bin/env python3
"""32 clients that each send and read 64 MiB at once through a pool of 256 MiB, then one value of 512 MiB: all come whole, and memory beside the pool stays small (promise 6).

    "$(tests/support/python)" tests/bench/pool_and_memory.py
"""

import concurrent.futures
import sys
import time

from bench import MIB, ROOT, Report, memory, running_stack

sys.path.insert(0, str(ROOT / "tests/integration"))

from ways import Travelled, reasons  # noqa: E402
from wire import Pattern  # noqa: E402

CLIENTS, BYTES, POOL, GIANT = 32, 64 * MIB, 256 * MIB, 512 * MIB


def move(stack, key, value):
    with stack.wire() as wire:
        wire.send_value("BLOB.TCP_SET", key, value)
        assert wire.reply() == b"OK"
        wire.send("BLOB.TCP_GET", key)
        assert wire.expect_value(value) is None


def main():
    report = Report("pool_and_memory", f"A pool of {POOL // MIB} MiB and {CLIENTS} clients with {BYTES // MIB} MiB each")
    with running_stack(config={"pool": {"size": f"{POOL // MIB}MiB"}}) as stack:

        def beside_pool(field):
            return f"{(memory(stack.keyferry_pid)[field] - POOL) / MIB:.1f}"

        rows = [("at the start", "", "", "", beside_pool("VmRSS"), beside_pool("VmHWM"))]
        for name, keys, length in ((f"{CLIENTS} clients at once", CLIENTS, BYTES), ("one value", 1, GIANT)):
            travelled, begin = Travelled(stack), time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(keys) as threads:
                list(threads.map(lambda number: move(stack, f"big:{number}", Pattern(length, seed=number)), range(keys)))  # noqa: B023
            took = time.monotonic() - begin
            stack.wait_quiet()
            since = travelled.since()
            ways = ", ".join(f"{since[op, path]:.0f} {op} by {path}" for op in ("set", "get") for path in ("rdma", "tcp") if since[op, path])
            rows.append((f"{name} of {length // MIB} MiB", f"{took:.1f}", f"{2 * keys * length / took / 1e9:.2f}", ways, beside_pool("VmRSS"), beside_pool("VmHWM")))
        report.table(["step", "seconds", "GB/s", "travelled", "MiB beside the pool", "most so far (at most 64)"], rows)
        report.say("Fallbacks: " + ", ".join(f"{count:.0f} x {reason}" for (_, _, reason), count in reasons(stack).items()))
    report.keep()


if __name__ == "__main__":
    main()
