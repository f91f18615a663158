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
LEAST = {1 * MIB: 0.75, 16 * MIB: 0.9, 64 * MIB: 0.9}
PARTS = ("fabric", "hash", "socket")


def start(*command):
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)


def middle(result):
    """Seconds of the middle operation: the tenth of a sum is later than the sum of its parts' tenths."""
    return statistics.median(result["each"])


def client(stack, length, op):
    return {"all": middle(load("ops", stack.port, length, op, count(length), 0))}


def by_hand(stack, length, op):
    """What the parts take one after the other. The socket's is what remains of the client's time."""
    with start(BUILD / "bin/bench_by_hand", stack.valkey_port, length, op) as process:
        try:
            port = process.stdout.readline() or sys.exit(f"bench_by_hand ended with status {process.wait()}")
            whole = middle(load("ops", int(port), length, op, count(length), 0))
            result = result_of(process)
        finally:
            process.kill()
    # Its first two are not among the client's: one stores the value, one warms up.
    parts = {part: statistics.median(each[2:]) for part, each in result.items()}
    return parts | {"socket": whole - sum(parts.values())}


def alone(stack, length, op):
    """What each part takes that goes on and on by itself."""
    fabric = start(sys.executable, HERE / "fabric_peer.py", stack.valkey_port, 1, length, op, count(length), "ops")
    return {"fabric": middle(result_of(fabric)), "hash": middle(load("hash", length, count(length))), "socket": middle(load("socket", length, count(length)))}


WAYS = {"one client": client, "by hand": by_hand, "parts alone": alone}


def once(number, *what):
    """{way: what its parts took}, one way right after the other so that all meet one speed of the machine; another one first each time."""
    turned = [*WAYS, *WAYS][number % len(WAYS) :][: len(WAYS)]
    return {way: WAYS[way](*what) for way in turned}


def measure(seen):
    for _ in range(STACKS):
        with running_stack(config={"pool": {"size": "1GiB"}}) as stack:
            for what, rounds in seen.items():
                rounds += [once(len(rounds) + number, stack, *what) for number in range(ROUNDS)]


def ms(values):
    return f"{statistics.median(values) * 1e3:.2f}"


def took(way, rounds):
    return [sum(each[way].values()) for each in rounds]


def beside(way, rounds):
    """How fast the client was beside that way, round by round: the median, and the range."""
    ratios = sorted(other / client for other, client in zip(took(way, rounds), took("one client", rounds), strict=True))
    return f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f} to {ratios[-1]:.2f}"


def main():
    report = Report("single_client", "One socket client, the same way by hand, and each part of it alone")
    report.say(f"Milliseconds of the middle operation, medians of {ROUNDS} rounds on each of {STACKS} servers. The ratios are of single rounds: their median, and their range.",
               "The server has one half of the CPUs, keyferryd or the program by hand and the client share the other.", "")  # fmt: skip
    seen = {(length, op): [] for length in LEAST for op in ("get", "set")}
    measure(seen)
    named = {(length, f"{length // MIB} MiB {op.upper()}"): rounds for (length, op), rounds in seen.items()}
    report.table(["value", *WAYS, "beside by hand", "of a round", "at least", "beside parts alone", "of a round"],
                 [(name, *(ms(took(way, rounds)) for way in WAYS), *beside("by hand", rounds), LEAST[length], *beside("parts alone", rounds))
                  for (length, name), rounds in named.items()])  # fmt: skip
    report.say("What the parts take, by hand one after the other (the socket with all that is neither of the others) and each alone:", "")
    report.table(["value", *(f"{part} {way}" for part in PARTS for way in ("by hand", "alone"))],
                 [(name, *(ms(each[way][part] for each in rounds) for part in PARTS for way in ("by hand", "parts alone"))) for (_, name), rounds in named.items()])  # fmt: skip
    report.keep()


if __name__ == "__main__":
    main()
