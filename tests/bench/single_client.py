#!/usr/bin/env python3
"""One socket client through keyferryd, beside the parts that a value's way is made of, each alone: the fabric into memory, CRC-32C, a socket between two processes.

    "$(tests/support/python)" tests/bench/single_client.py [ROUNDS [STACKS]]
"""

import statistics
import subprocess
import sys

from bench import HERE, MIB, Report, count, load, rate, result_of, running_stack

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
STACKS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
SIZES = [1 * MIB, 16 * MIB, 64 * MIB]
PARTS = ("fabric", "hash", "socket")


def once(stack, length, op):
    """What each part did, one right after the other."""
    raw = [sys.executable, HERE / "fabric_peer.py", stack.valkey_port, 1, length, op, count(length), "ops"]
    return {
        "fabric": result_of(subprocess.Popen(list(map(str, raw)), stdout=subprocess.PIPE, text=True)),
        "hash": load("hash", length, count(length)),
        "socket": load("socket", length, count(length)),
        "client": load("ops", stack.port, length, op, count(length), 0),
    }


def possible(rates):
    """Store and forward: the three one after the other are what a single client can get."""
    return 1 / sum(1 / rates[part] for part in PARTS)


def measure(seen):
    for _ in range(STACKS):
        with running_stack(config={"pool": {"size": "1GiB"}}) as stack:
            for way, rounds in seen.items():
                rounds += [once(stack, *way) for _ in range(ROUNDS)]


def row(length, op, rounds):
    # The middle operation: the tenth of a sum is later than the sum of its parts' tenths, so by those the client would be compared with what no one gets.
    middles = [{name: rate(result, 0.5) for name, result in each.items()} for each in rounds]
    ratios = sorted(rates["client"] / possible(rates) for rates in middles)
    best = {name: max(rate(each[name]) for each in rounds) for name in rounds[0]}
    shown = [statistics.median(rates[name] for rates in middles) for name in PARTS] + [statistics.median(map(possible, middles)), statistics.median(rates["client"] for rates in middles)]
    return (f"{length // MIB} MiB {op.upper()}", *(f"{one / 1e9:.2f}" for one in shown), f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
            f"{best['client'] / possible(best):.2f}", "0.75" if length == MIB else "0.9")  # fmt: skip


def main():
    report = Report("single_client", "One socket client, and each part of its way alone")
    report.say(f"Of the middle operation, medians of {ROUNDS} rounds on each of {STACKS} servers. A ratio is of one round; of the bests: of the best tenth that each part and the client had in any round.", "")
    seen = {(length, op): [] for length in SIZES for op in ("get", "set")}
    measure(seen)
    report.table(["value", "fabric GB/s", "hash GB/s", "socket GB/s", "all three in turn", "one client", "ratio", "of a round", "of the bests", "at least"],
                 [row(*way, rounds) for way, rounds in seen.items()])  # fmt: skip
    report.keep()


if __name__ == "__main__":
    main()
