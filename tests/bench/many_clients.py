#!/usr/bin/env python3
"""What an idle client costs keyferryd in memory (at most 4 KiB), and how fast clients can come and go, past keyferryd and through it.

    "$(tests/support/python)" tests/bench/many_clients.py [CLIENTS [ROUNDS]]
"""

import pathlib
import ssl
import statistics
import sys
import tempfile
import time

from bench import Report, cpu, load, running_stack

import certificates
from idle_clients import AT_ONCE, KIB, STEPS, connect, do, prepare, resident, warm_up

CLIENTS = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
TLS_CLIENTS = CLIENTS // 10
TLS_PORT = 9443
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
STORM_SECONDS, STORM_THREADS, STORM_AT_ONCE = 3, 1, 64


def settled(pid):
    """The same when it has not changed for six seconds: longer than it takes keyferryd to give back what it has no use for."""
    seen = [resident(pid)]
    while len(seen) < 7 or max(seen[-7:]) - min(seen[-7:]) > 64 * KIB:
        time.sleep(1)
        seen.append(resident(pid))
        if len(seen) > 30:
            break
    return seen[-1]


def connect_by(way, stack):
    if way == "unix":
        return connect(stack.unix)
    if way == "tcp":
        return connect(stack.port)
    return TLS.wrap_socket(connect(TLS_PORT))


def grown(stack, way, count):
    """[(step, bytes per client)], the last one when they have left."""
    stack.stop_keyferry()
    stack.start_keyferry()
    warm_up(lambda: connect_by(way, stack))
    pid = stack.keyferry_pid
    base = settled(pid)
    rows = []
    links = [connect_by(way, stack) for _ in range(count)]
    for name, sent, wanted in STEPS:
        do(links, sent, wanted)
        rows.append((name, (settled(pid) - base) / count))
    for link in links:
        link.close()
    while stack.metrics().total("clients") > 0:
        time.sleep(0.1)
    rows.append(("all have left", (settled(pid) - base) / count))
    return rows


def memory_table(stack, report):
    columns = {way: dict(grown(stack, way, count)) for way, count in (("tcp", CLIENTS), ("unix", CLIENTS), ("tls", TLS_CLIENTS))}
    report.say(f"Bytes that keyferryd grew by for each of {CLIENTS} clients ({TLS_CLIENTS} with TLS) that have done this and what stands above it, {AT_ONCE} at a time, and are idle "
               "since; at most 4096 without TLS. Counted is resident memory with what malloc keeps for itself.", "")  # fmt: skip
    report.table(["done"] + list(columns), [(name, *(f"{columns[way][name]:.0f}" for way in columns)) for name in columns["tcp"]])


def storm_table(stack, report):
    ways = {"past it, tcp": (stack.valkey_port, stack.valkey_pid), "through it, tcp": (stack.port, stack.keyferry_pid), "through it, unix": (stack.unix, stack.keyferry_pid)}
    rates, spent, longest = ({way: [] for way in ways} for _ in range(3))
    for _ in range(ROUNDS):
        for way, (address, pid) in ways.items():
            before = cpu(pid)
            seen = load("storm", address, STORM_THREADS, STORM_AT_ONCE, STORM_SECONDS)
            rates[way].append(seen["connects"] / seen["seconds"])
            spent[way].append((cpu(pid) - before) / seen["connects"])
            longest[way].append(seen["longest"])
    report.say(f"Clients that connect, PING and close, {STORM_AT_ONCE} at a time, {ROUNDS} rounds of {STORM_SECONDS} s in turn; medians:", "")
    rows = [(way, f"{statistics.median(rates[way]):.0f}", f"{min(rates[way]):.0f} to {max(rates[way]):.0f}", f"{statistics.median(spent[way]) * 1e6:.0f}",
             f"{max(longest[way]) * 1e3:.0f}") for way in ways]  # fmt: skip
    report.table(["way", "connects a second", "rounds", "processor us of a connect in keyferryd (past it: valkey-server)", "longest ms"], rows)
    ratios = [through / past for through, past in zip(rates["through it, tcp"], rates["past it, tcp"])]
    report.say(f"Through it / past it by tcp: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); wanted are 10 000 a second where the server alone reaches them.")


def main():
    report = Report("many_clients", f"{CLIENTS} idle clients, and storms of clients that come and go")
    with tempfile.TemporaryDirectory() as folder:
        certificates.make(pathlib.Path(folder))
        tls = {"cert": f"{folder}/server.crt", "key": f"{folder}/server.key"}
        config = {"limits": {"clients": CLIENTS + 100}, "listen": [{"tcp": f"127.0.0.1:{TLS_PORT}", "tls": tls}]}
        measure(report, config)
    report.keep()


def measure(report, config):
    # Together they have two cores or more, as they come: each of the programs is needed for a connect.
    with running_stack(apart=False, config=config) as stack:
        prepare(stack.direct_info_client)
        storm_table(stack, report)
        memory_table(stack, report)


if __name__ == "__main__":
    main()
