"""The other side of a client's scenario: starts its program, does past the gateway what the program asks for, and judges what it reports.

A program (clients/) gets its task in the environment (KF_HOST and KF_PORT, or KF_UNIX; KF_PROTOCOL; KF_PREFIX, the start of its keys) and prints lines:

    name<TAB>value      what a step saw, judged at the end
    !name<TAB>value     the program goes on: this side acts beside it (`act_name`)
    ?name<TAB>value     the program waits for a line on stdin, which comes when this side has acted

It ends with status 0. A second connection would only show that the client agrees with itself: pushes, publishes, conflicting writes come from here,
straight to the server, and what was stored is read there.
"""

import os
import pathlib
import subprocess
import threading

from client_ways import MIB, bytes_of, digest
from running_stack import wait_until

WATCHDOG_SECONDS = 240
PAIRS = 100
MESSAGES = 50
LARGE = 3 * MIB + 7
CACHED_READS = 50

REPORTS = {
    "pipeline": ",".join(f"{number + 1},OK,v{number}" for number in range(PAIRS)),
    "after_error": "v1",
    "transaction": "OK,1,a",
    "conflict": "aborted",
    "blpop_timeout": "nil",
    "blpop": "item",
    "received": ",".join([*(f"m{number}" for number in range(MESSAGES)), "own"]),
    "published": "1",
    "large": str(LARGE),
    "after_kill": "v1",
    "after_restart": "v1",
}


class Scenario:
    def __init__(self, stack, server, prefix):
        self.stack = stack
        self.server = server
        self.prefix = prefix
        self.large = bytes_of(LARGE, len(prefix))
        self.killed = None

    def run(self, command, way, protocol, environment=(), cached=False):
        """Starts the program, talks with it, and judges what it said."""
        base = self.connections()
        self.server.execute_command("BLOB.TCP_SET", self.prefix + "placed", self.large)
        self.server.set(self.prefix + "cached", "old")
        address = {"KF_UNIX": way.path} if way.unix else {"KF_HOST": "127.0.0.1", "KF_PORT": str(way.port)}
        task = {**address, "KF_PROTOCOL": str(protocol), "KF_PREFIX": self.prefix, **dict(environment)}
        with subprocess.Popen([str(word) for word in command], env={**os.environ, **task}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as program:
            errors = []
            reader = threading.Thread(target=lambda: errors.extend(program.stderr))
            reader.start()
            watchdog = threading.Timer(WATCHDOG_SECONDS, program.kill)
            watchdog.start()
            try:
                seen = self.talk(program)
                status = program.wait()
            finally:
                program.kill()
                watchdog.cancel()
                reader.join()
        assert status == 0, f"the program ended with status {status} after {seen}:\n{''.join(errors)[-6000:]}"
        self.judge(seen, cached)
        wait_until(lambda: self.connections() <= base, "what the client had to be given back", self.connections)

    def connections(self):
        metrics = self.stack.metrics()
        return metrics.total("clients"), metrics.total("upstream_connections", state="pinned")

    def talk(self, program):
        seen = {}
        for line in program.stdout:
            name, _, value = line.rstrip("\n").partition("\t")
            if name[:1] not in ("!", "?"):
                seen[name] = value
                continue
            seen[name[1:]] = value
            getattr(self, "act_" + name[1:])(value)
            if name[0] == "?":
                program.stdin.write("go\n")
                program.stdin.flush()
        return seen

    def judge(self, seen, cached):
        wanted = {**REPORTS, "eval": f"{self.prefix}script,x,1", "evalsha": f"{self.prefix}script,y,2", **({"cached": "new"} if cached else {})}
        if "resubscribed" in seen:
            wanted["resubscribed"] = "again"
        assert {name: seen.get(name) for name in wanted} == wanted
        assert "WRONGTYPE" in seen["pipeline_error"]  # clients that make a word of its own of the code keep the rest
        assert "No matching script" in seen["noscript"] or "NOSCRIPT" in seen["noscript"].upper().replace(" ", "")
        assert int(seen["new_id"]) != int(seen["kill"]) == self.killed
        assert int(self.server.get(self.prefix + "counter")) == PAIRS
        assert self.server.get(self.prefix + "watched") == b"theirs"
        assert self.server.get(self.prefix + "transaction") == b"a"
        assert self.server.llen(self.prefix + "queue") == 0
        assert digest(self.server.execute_command("BLOB.TCP_GET", self.prefix + "copy")) == digest(self.large)
        if cached:
            assert self.reads < CACHED_READS / 2, "the client's cache was not asked"

    # --- what programs ask for

    def act_watched(self, _):
        self.server.set(self.prefix + "watched", "theirs")

    def act_blocking(self, _):
        wait_until(lambda: self.server.info("clients")["blocked_clients"] == 1, "the client to be blocked")
        self.server.rpush(self.prefix + "queue", "item")

    def act_subscribed(self, _):
        channel = self.prefix + "channel"
        wait_until(lambda: self.server.pubsub_numsub(channel) == [(channel.encode(), 1)], "one subscriber", lambda: self.server.pubsub_numsub(channel))
        for number in range(MESSAGES):
            assert self.server.publish(channel, f"m{number}") == 1

    def gets(self):
        return self.server.info("commandstats").get("cmdstat_get", {"calls": 0})["calls"]

    def act_cache_begin(self, _):
        self.reads = self.gets()

    def act_cache_end(self, _):
        self.reads = self.gets() - self.reads
        self.server.set(self.prefix + "cached", "new")

    def act_kill(self, client):
        self.killed = int(client)
        with self.stack.client() as killer:
            assert killer.execute_command("CLIENT", "KILL", "ID", client) == 1

    def act_restart(self, _):
        self.stack.stop_keyferry(signal="KILL")
        self.stack.start_keyferry()


CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
