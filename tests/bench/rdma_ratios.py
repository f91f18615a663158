#!/usr/bin/env python3
"""valkey-benchmark straight to the server over TCP and over RDMA, and through keyferryd over each, in one run of the guest with soft RoCE (tests/rdma_lab).

  rdma_ratios.py [ROUNDS]     4; of each figure the best round counts

Soft RoCE computes a checksum of every byte and is slower than TCP, and the guest is emulated and has one processor, which client, keyferryd, server and soft RoCE share: only the
ratio of ratios means anything. The four ways of a load are measured one right after the other, as the machine is not always as idle.
"""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/support"), str(ROOT / "tests/rdma_lab")]

# Bytes of a value, clients, requests.
LOADS = [(64, 1, 200), (64, 16, 1000), (4096, 16, 600), (32768, 4, 200)]
WAYS = ["direct tcp", "direct rdma", "keyferryd tcp", "keyferryd rdma"]
TESTS = ["SET", "GET"]


def rates(target, size, clients, requests):
    """{test: requests a second}."""
    from lab import valkey

    done = subprocess.run([valkey() / "bin/valkey-benchmark", *target, "-t", "set,get", "-d", str(size), "-c", str(clients), "-n", str(requests), "--csv"],
                          capture_output=True, text=True, timeout=600, check=True)
    rows = list(csv.reader(line for line in done.stdout.splitlines() if line.startswith('"')))
    return {row[0]: float(row[1]) for row in rows if row[0] in TESTS}


def inside(rounds, output):
    """In the guest."""
    import lab as place

    first = place.Lab()
    first.start_server()
    targets = {"direct tcp": ["-h", place.ADDRESS, "-p", str(place.PORT)]}
    targets["direct rdma"] = [*targets["direct tcp"], "--rdma"]
    labs = [first]
    for carrier in ("tcp", "rdma"):
        place.GATEWAY_PORT += 1
        place.ADMIN = f"127.0.0.1:{place.GATEWAY_PORT + 3000}"
        labs.append(place.Lab())
        labs[-1].start_gateway(transport=carrier, require=True)
        assert labs[-1].transport() == (carrier, "configured"), labs[-1].transport()
        targets[f"keyferryd {carrier}"] = ["-h", "127.0.0.1", "-p", str(place.GATEWAY_PORT)]
    best = {}
    for _ in range(rounds):
        for load in LOADS:
            for way in WAYS:
                for test, rate in rates(targets[way], *load).items():
                    key = json.dumps([test, *load[:2], way])
                    best[key] = max(best.get(key, 0), rate)
    for each in labs:
        each.close()
    output.write_text(json.dumps(best))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    import bench

    with tempfile.TemporaryDirectory(prefix="kf-rdma-") as folder:
        output = pathlib.Path(folder) / "rates.json"
        valkey = subprocess.run([ROOT / "tests/support/valkey/build"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        subprocess.run([ROOT / "tests/rdma_lab/run", "-t", "3000", folder, "env", f"KEYFERRY_BUILD={bench.BUILD}", f"KEYFERRY_VALKEY={valkey}", "PYTHONDONTWRITEBYTECODE=1",
                        sys.executable, __file__, "--inside", str(rounds), output], check=True)
        best = json.loads(output.read_text())
    report = bench.Report("rdma_ratios", "valkey-benchmark over TCP and over soft RoCE, past keyferryd and through it")
    rows = []
    for size, clients, _ in LOADS:
        for test in TESTS:
            rate = {way: best[json.dumps([test, size, clients, way])] for way in WAYS}
            past, through = rate["direct rdma"] / rate["direct tcp"], rate["keyferryd rdma"] / rate["keyferryd tcp"]
            rows.append([f"{test} {size} B", clients, *(f"{rate[way]:.0f}" for way in WAYS), f"{past:.2f}", f"{through:.2f}", f"{through / past:.2f}"])
    report.table(["command", "clients", *(f"{way}, 1/s" for way in WAYS), "rdma/tcp direct", "rdma/tcp keyferryd", "second by first (at least 0.9)"], rows)
    report.keep()


if sys.argv[1:2] == ["--inside"]:
    # The folder is the guest's own; what pytest would set is not needed.
    os.environ.setdefault("KEYFERRY_TEST_PATIENCE", "180")
    inside(int(sys.argv[2]), pathlib.Path(sys.argv[3]))
else:
    main()
