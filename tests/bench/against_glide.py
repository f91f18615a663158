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

from bench import HERE, MIB, ROOT, Report, count, cpu, load, rate, result_of, running_stack, start_load

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


def measured(stack, begin):
    """Runs clients that begin() starts; processor seconds are read around it."""
    gateway, server, start = cpu(stack.keyferry_pid), cpu(stack.valkey_pid), time.monotonic()
    results = [result_of(process) for process in begin()]
    wall = time.monotonic() - start
    return Measured(results, wall, cpu(stack.keyferry_pid) - gateway, cpu(stack.valkey_pid) - server)


def by_glide(stack, folder, library, processes, length, op):
    environment = {**os.environ, "GLIDE_LIBFABRIC_PATH": f"{library}/lib/libfabric.so.1"}
    peers = [
        subprocess.Popen([folder / "venv/bin/python", HERE / "glide_peer.py", str(stack.valkey_port), str(number), str(length), op, str(count(length) // processes)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for number in range(processes)
    ]  # fmt: skip
    for peer in peers:
        if peer.stdout.readline() != "ready\n":
            raise SystemExit(f"GLIDE's client ended with status {peer.wait()}")

    def begin():
        for peer in peers:
            peer.stdin.write("go\n")
            peer.stdin.flush()
        return peers

    return measured(stack, begin)


def by_keyferry(stack, processes, length, op):
    start_up = measured(stack, lambda: [start_load("ops", stack.port, length, op, 1, number) for number in range(processes)])
    del start_up  # it stored the values and made the lanes
    return measured(stack, lambda: [start_load("ops", stack.port, length, op, count(length) // processes, number) for number in range(processes)])


def best(repeats):
    """The run with the least processor time: what others on the machine did can only add to it."""
    return min(repeats, key=lambda one: one.total)


def side_by_side(report, stack, folder, library):
    copies = {length: min(load("socket", length, count(length))["cpu"] / (length * count(length) / 1e9) for _ in range(REPEATS)) for length in SIZES}
    rows = []
    for length in SIZES:
        for processes in PROCESSES:
            for op in ("get", "set"):
                ours, theirs = [], []
                for _ in range(REPEATS):  # in turns, so that both meet the same weather
                    theirs.append(by_glide(stack, folder, library, processes, length, op))
                    ours.append(by_keyferry(stack, processes, length, op))
                our, their = best(ours), best(theirs)
                target = their.total + copies[length]
                rows.append((f"{length // MIB} MiB {op.upper()}", processes, f"{our.speed:.2f}", f"{their.speed:.2f}", f"{our.client:.2f} + {our.gateway:.2f}",
                             f"{their.client:.2f}", f"{copies[length]:.2f}", f"{our.total / target:.2f}", f"{our.server:.2f} / {their.server:.2f}",
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
