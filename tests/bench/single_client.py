#!/usr/bin/env python3
"""One socket client through keyferryd, beside the same way by hand (by_hand.cpp), and beside the parts that it is made of, each alone: the fabric into memory, CRC-32C, a socket between two processes.

    "$(tests/support/python)" tests/bench/single_client.py [ROUNDS [STACKS]]
"""

import statistics
import subprocess
import sys

from bench import BUILD, HERE, MIB, Report, count, load, result_of, running_stack

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
STACKS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
SIZES = [1 * MIB, 16 * MIB, 64 * MIB]
PARTS = ("fabric", "hash", "socket")
WAYS = ("by hand", "alone")


def start(*command):
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)


def middle(each):
    """Seconds of the middle operation: the tenth of a sum is later than the sum of its parts' tenths."""
    return statistics.median(each)


def alone(stack, length, op):
    """What each part takes that goes on and on by itself."""
    raw = start(sys.executable, HERE / "fabric_peer.py", stack.valkey_port, 1, length, op, count(length), "ops")
    results = {"fabric": result_of(raw), "hash": load("hash", length, count(length)), "socket": load("socket", length, count(length))}
    return {part: middle(result["each"]) for part, result in results.items()}


def by_hand(stack, length, op):
    """What the parts take one after the other. The socket's is what remains of the client's time."""
    process = start(BUILD / "bin/bench_by_hand", stack.valkey_port, length, op)
    port = process.stdout.readline() or sys.exit(f"bench_by_hand ended with status {process.wait()}")
    client = load("ops", int(port), length, op, count(length), 0)
    parts = {part: middle(each) for part, each in result_of(process).items()}
    return parts | {"socket": middle(client["each"]) - sum(parts.values())}


def once(stack, length, op):
    """One right after the other, so that they are compared at one speed of the machine."""
    client = middle(load("ops", stack.port, length, op, count(length), 0)["each"])
    return {"alone": alone(stack, length, op), "by hand": by_hand(stack, length, op), "client": client}


def measure(seen):
    for _ in range(STACKS):
        with running_stack(config={"pool": {"size": "1GiB"}}) as stack:
            for way, rounds in seen.items():
                rounds += [once(stack, *way) for _ in range(ROUNDS)]


def ratio(rounds, way):
    """(median, least, most) of how fast the client was beside that way, round by round."""
    each = sorted(sum(seen[way].values()) / seen["client"] for seen in rounds)
    return statistics.median(each), each[0], each[-1]


def ms(values):
    return f"{statistics.median(values) * 1e3:.2f}"


def ratios_row(name, rounds):
    taken = [ms(seen["client"] for seen in rounds), *(ms(sum(seen[way].values()) for seen in rounds) for way in WAYS)]
    beside = [ratio(rounds, way) for way in WAYS]
    return (name, *taken, *(text for median, least, most in beside for text in (f"{median:.2f}", f"{least:.2f} to {most:.2f}")), "0.75" if name.startswith("1 MiB") else "0.9")


def parts_row(name, rounds):
    return (name, *(ms(seen[way][part] for seen in rounds) for part in PARTS for way in WAYS))


def main():
    report = Report("single_client", "One socket client, the same way by hand, and each part of it alone")
    report.say(f"Milliseconds of the middle operation, medians of {ROUNDS} rounds on each of {STACKS} servers. A ratio is of one round: its median, and all rounds' range.", "")
    seen = {(length, op): [] for length in SIZES for op in ("get", "set")}
    measure(seen)
    named = [(f"{length // MIB} MiB {op.upper()}", rounds) for (length, op), rounds in seen.items()]
    report.table(["value", "one client", "by hand", "parts alone", "beside by hand", "of a round", "beside parts alone", "of a round", "at least"],
                 [ratios_row(*each) for each in named])  # fmt: skip
    report.say("What the parts take, by hand one after the other and each alone:", "")
    report.table(["value", *(f"{part} {how}" for part in PARTS for how in ("by hand", "alone"))], [parts_row(*each) for each in named])
    report.keep()


if __name__ == "__main__":
    main()
