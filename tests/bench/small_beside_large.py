#!/usr/bin/env python3
"""What 1000 small clients feel of 8 clients that move 64 MiB values without pause (promise 5), against the same bytes a second past keyferryd.

    "$(tests/support/python)" tests/bench/small_beside_large.py [SECONDS]
"""

import sys

from bench import HERE, LOAD, MIB, Report, busy, result_of, running_stack, start_bulk, start_load, threads

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20
CLIENTS, RATE = 1000, 2000
BULK, BYTES = 8, 64 * MIB


def small(stack):
    return start_load("small", stack.port, CLIENTS, RATE, SECONDS)


def beside(stack, bulk):
    """The small clients' times while `bulk` runs, its bytes a second, and what each thread of keyferryd did."""
    bulk = start_bulk(bulk)
    before = threads(stack.keyferry_pid)
    quick = small(stack)
    moved = result_of(bulk)
    times = result_of(quick)
    return times, moved["bytes"] / moved["seconds"], busy(before, threads(stack.keyferry_pid), SECONDS)


def main():
    report = Report("small_beside_large", f"{CLIENTS} small clients beside {BULK} that move {BYTES // MIB} MiB values")
    with running_stack(config={"pool": {"size": "1GiB"}}) as stack:
        result_of(start_bulk([LOAD, "bulk", stack.port, BULK, BYTES, "get", 1, 0]))  # makes lanes, stores the values
        rows = []

        def add(name, measured):
            times, speed, parts = measured
            rows.append((name, times, speed, parts))

        before = threads(stack.keyferry_pid)
        quiet = result_of(small(stack))
        add("nothing beside", (quiet, 0, busy(before, threads(stack.keyferry_pid), SECONDS)))
        add("GETs through keyferryd", beside(stack, [LOAD, "bulk", stack.port, BULK, BYTES, "get", SECONDS, 0]))
        pace = rows[-1][2]
        fabric = [sys.executable, HERE / "fabric_peer.py", stack.valkey_port, BULK, BYTES, "get", SECONDS, pace]
        add("the same past it, by the fabric", beside(stack, fabric))
        add("the same past it, by BLOB.TCP_GET", beside(stack, [LOAD, "bulk", stack.valkey_port, BULK, BYTES, "get", SECONDS, pace]))

        def us(seconds):
            return f"{seconds * 1e6:.0f}"

        report.table(
            ["beside", "bulk GB/s", "p50 us", "p99 us", "p99.9 us", "max us", "of it the generator's p99.9", "requests"],
            [(name, f"{speed / 1e9:.2f}", us(t["p50"]), us(t["p99"]), us(t["p99.9"]), us(t["max"]), us(t["generator_p99.9"]), t["count"])
             for name, t, speed, _ in rows],
        )
        through, past_fabric, past_tcp = (row[1]["p99.9"] for row in rows[1:])
        report.say(f"p99.9 through keyferryd / past it: {through / past_fabric:.2f} (by the fabric), {through / past_tcp:.2f} (by BLOB.TCP_GET); at most 2", "",
                   "Busy threads of keyferryd:", "")
        for name, _, _, parts in rows:
            report.say(f"- {name}: " + ", ".join(f"{thread} {part:.0%}" for thread, part in parts))
    report.keep()


if __name__ == "__main__":
    main()
