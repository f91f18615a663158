"""The moving and measuring half of deploy/quickstart: stores and reads one file through keyferryd and straight at the server, and prints a table.

    quickstart.py DIR FILE      DIR: a running stack of tests/support/stack
"""

import hashlib
import pathlib
import shlex
import statistics
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))

import exposition  # noqa: E402
import redis  # noqa: E402

ROUNDS = 5
KEY = "quickstart"


def read_env(directory):
    lines = (directory / "env").read_text().splitlines()
    return {key: "".join(shlex.split(value)) for key, _, value in (line.partition("=") for line in lines)}


class Counted:
    """What keyferryd (transfers by path) and the server (bytes by RMA) counted since this was made."""

    def __init__(self, env, server):
        self.env, self.server = env, server
        self.start = self.look()

    def look(self):
        with urllib.request.urlopen(f"http://{self.env['KEYFERRY_ADMIN']}/metrics", timeout=10) as answer:
            metrics = exposition.parse(answer.read().decode())
        info = self.server.info("largeobj")
        seen = {(op, path): metrics.total("transfers_total", op=op, path=path, outcome="ok") for op in ("set", "get") for path in ("rdma", "tcp")}
        return {**seen, "set bytes": info["largeobj_rdma_read_bytes_total"], "get bytes": info["largeobj_rdma_write_bytes_total"]}

    def since(self):
        return {key: value - self.start[key] for key, value in self.look().items()}


def timed(work):
    """Median seconds of ROUNDS calls, and the last result."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def move(client, value):
    """(seconds to store, seconds to read, SHA-256 of what was read)."""
    store, answer = timed(lambda: client.execute_command("BLOB.TCP_SET", KEY, value))
    if answer not in (b"OK", True):
        sys.exit(f"quickstart: BLOB.TCP_SET was answered with {answer!r}")
    read, back = timed(lambda: client.execute_command("BLOB.TCP_GET", KEY))
    return store, read, hashlib.sha256(back).hexdigest()


def path_of(counted, op):
    since = counted.since()
    used = [path for path in ("rdma", "tcp") if since[op, path]]
    return " and ".join(used) or "none"


def main():
    directory, file = map(pathlib.Path, sys.argv[1:3])
    env = read_env(directory)
    value = file.read_bytes()
    wanted = hashlib.sha256(value).hexdigest()
    server = redis.Redis(host="127.0.0.1", port=int(env["VALKEY_PORT"]))
    ways = {
        "keyferryd, Unix socket": redis.Redis(unix_socket_path=env["KEYFERRY_UNIX"]),
        "keyferryd, TCP": redis.Redis(host="127.0.0.1", port=int(env["KEYFERRY_PORT"])),
        "server directly": server,
    }
    row = "{:<24} {:>8} {:>9} {:>7} {:>9} {:>7}  {}"
    print(f"\n{len(value) >> 20} MiB of {file}, SHA-256 {wanted[:16]}..., median of {ROUNDS}\n")
    print(row.format("", "path", "SET s", "GB/s", "GET s", "GB/s", "digest"))
    failed = False
    total = Counted(env, server)
    for name, client in ways.items():
        counted = Counted(env, server)
        store, read, digest = move(client, value)
        if client is server:
            path = "RESP"
        else:
            paths = {path_of(counted, op) for op in ("set", "get")}
            path = " / ".join(sorted(paths))
            failed |= paths != {"rdma"}
        failed |= digest != wanted
        rate = len(value) / 1e9
        print(row.format(name, path, f"{store:.3f}", f"{rate / store:.2f}", f"{read:.3f}", f"{rate / read:.2f}", "equal" if digest == wanted else "DIFFERS"))
    since = total.since()
    print("\nWhat travelled how:")
    print(f"  keyferryd  /metrics       {since['set', 'rdma']:.0f} SET and {since['get', 'rdma']:.0f} GET by rdma, {since['set', 'tcp'] + since['get', 'tcp']:.0f} by tcp")
    print(f"  server     INFO largeobj  {since['set bytes']} bytes read from, {since['get bytes']} bytes written to keyferryd's memory over the fabric")
    print(f"  fabric     {server.info('largeobj')['largeobj_fabric_provider']} (software; figures of a machine with EFA will differ)")
    if failed:
        sys.exit(f"quickstart: not everything went by rdma with equal digests. Fix: see {directory}/keyferryd.log")


main()
