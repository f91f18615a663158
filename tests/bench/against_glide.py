#!/usr/bin/env python3
"""Socket clients through keyferryd beside GLIDE 2.6.0's own RDMA client on the same server in one run: wall clock, processor time, registered bytes.

    "$(tests/support/python)" tests/bench/against_glide.py [REPEATS]          needs Rust for GLIDE: tests/support/peers/README.md
"""

import os
import pathlib
import statistics
import subprocess
import sys
import time

from bench import HERE, LOAD, MIB, ROOT, Report, count, cpu, go, rate, result_of, running_stack, start_bulk, start_load

REPEATS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SIZES = [1 * MIB, 16 * MIB, 64 * MIB]
PROCESSES = [1, 8]


def bring(*script):
    done = subprocess.run([ROOT / "tests/support/peers" / script[0], *script[1:]], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    return pathlib.Path(done.stdout.splitlines()[-1])


class Measured:
    def __init__(self, results, wall, gateway, server):
        size = sum(result["bytes"] for result in results) / 1e9
        self.speed = size / wall
        self.client = sum(result["cpu"] for result in results) / size
        self.gateway, self.server = gateway / size, server / size
        self.total = self.client + self.gateway
        self.one = statistics.median(rate(result) for result in results)


def measured(stack, peers):
    """Peers that have stored their values and done one operation each; processor seconds are read around the rest."""
    gateway, server, start = cpu(stack.keyferry_pid), cpu(stack.valkey_pid), time.monotonic()
    results = [result_of(process) for process in go(peers)]
    wall = time.monotonic() - start
    return Measured(results, wall, cpu(stack.keyferry_pid) - gateway, cpu(stack.valkey_pid) - server)


def each(length, processes):
    """Operations of one of them: about a gigabyte in all, and never so few that the first and the last weigh much."""
    return max(4, count(length) // processes)


def by_glide(stack, folder, library, processes, length, op):
    environment = {**os.environ, "GLIDE_LIBFABRIC_PATH": f"{library}/lib/libfabric.so.1"}
    peer = [folder / "venv/bin/python", HERE / "glide_peer.py", stack.valkey_port]
    return measured(stack, [start_bulk([*peer, number, length, op, each(length, processes)], stdin=subprocess.PIPE, env=environment) for number in range(processes)])


def by_keyferry(stack, processes, length, op):
    peer = [LOAD, "ops", stack.port, length, op, each(length, processes)]
    return measured(stack, [start_bulk([*peer, number], stdin=subprocess.PIPE) for number in range(processes)])


def best(repeats):
    """The run with the least processor time: what others on the machine did can only add to it."""
    return min(repeats, key=lambda one: one.total)


def socket_copy(length, processes):
    """CPU seconds for a gigabyte from one process to another through a socket, as many pairs at once as there are clients: each value of eight finds the caches full of the others'."""
    results = [result_of(pair) for pair in [start_load("socket", length, each(length, processes)) for _ in range(processes)]]
    return sum(result["cpu"] for result in results) / (sum(result["bytes"] for result in results) / 1e9)


def side_by_side(report, stack, folder, library):
    rows = []
    for length in SIZES:
        for processes in PROCESSES:
            for op in ("get", "set"):
                ours, theirs, copies = [], [], []
                for _ in range(REPEATS):  # in turns, so that all meet the same weather
                    copies.append(socket_copy(length, processes))
                    theirs.append(by_glide(stack, folder, library, processes, length, op))
                    ours.append(by_keyferry(stack, processes, length, op))
                our, their = best(ours), best(theirs)
                copy = min(copies)
                rows.append((f"{length // MIB} MiB {op.upper()}", processes, f"{our.speed:.2f}", f"{their.speed:.2f}", f"{our.client:.2f} + {our.gateway:.2f}",
                             f"{their.client:.2f}", f"{copy:.2f}", f"{our.total / (their.total + copy):.2f}", f"{our.server:.2f} / {their.server:.2f}",
                             f"{stack.metrics().total('registered_bytes') / MIB:.0f} / {processes * length // MIB}"))  # fmt: skip
    report.table(["value", "processes", "GB/s", "GLIDE GB/s", "CPU s/GB client + keyferryd", "GLIDE", "one socket copy", "ratio (8: at most 1.1)",
                  "server CPU s/GB, keyferryd's / GLIDE's", "registered MiB, keyferryd / GLIDE"], rows)  # fmt: skip


def main():
    folder, library = bring("glide", "--release"), bring("libfabric")
    report = Report("against_glide", "One socket client and eight through keyferryd, beside GLIDE's RDMA client")
    with running_stack(config={"pool": {"size": "1GiB"}}) as stack:
        side_by_side(report, stack, folder, library)
    report.keep()


if __name__ == "__main__":
    main()
