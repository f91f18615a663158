#!/usr/bin/env python3
"""One socket client through keyferryd, beside the parts that a value's way is made of, each alone: the fabric into memory, CRC-32C, a socket between two processes.

    "$(tests/support/python)" tests/bench/single_client.py [REPEATS]
"""

import subprocess
import sys

from bench import HERE, MIB, Report, count, load, rate, result_of, running_stack

REPEATS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SIZES = [1 * MIB, 16 * MIB, 64 * MIB]


def measure(report, stack):
    """Store and forward: the three one after the other are what a single client can get."""
    rows = []
    for length in SIZES:
        wanted = 0.75 if length == MIB else 0.9
        for op in ("get", "set"):
            parts = {"fabric": [], "hash": [], "socket": [], "client": []}
            for _ in range(REPEATS):
                raw = [sys.executable, HERE / "fabric_peer.py", stack.valkey_port, 1, length, op, count(length), "ops"]
                parts["fabric"].append(rate(result_of(subprocess.Popen(list(map(str, raw)), stdout=subprocess.PIPE, text=True))))
                parts["hash"].append(rate(load("hash", length, count(length))))
                parts["socket"].append(rate(load("socket", length, count(length))))
                parts["client"].append(rate(load("ops", stack.port, length, op, count(length), 0)))
            best_of = {name: max(rates) for name, rates in parts.items()}
            possible = 1 / sum(1 / best_of[name] for name in ("fabric", "hash", "socket"))
            rows.append((f"{length // MIB} MiB {op.upper()}", *(f"{best_of[name] / 1e9:.2f}" for name in ("fabric", "hash", "socket")), f"{possible / 1e9:.2f}",
                         f"{best_of['client'] / 1e9:.2f}", f"{best_of['client'] / possible:.2f}", f"{wanted}"))  # fmt: skip
    report.table(["value", "fabric GB/s", "hash GB/s", "socket GB/s", "all three in turn", "one client", "ratio", "at least"], rows)


def main():
    report = Report("single_client", "One socket client, and each part of its way alone")
    with running_stack(config={"pool": {"size": "1GiB"}}) as stack:
        measure(report, stack)
    report.keep()


if __name__ == "__main__":
    main()
