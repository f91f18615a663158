"""The stack that a soak runs on, as eight drivers share it: who may expect an error when, and the faults that hit more than one client."""

import contextlib
import os
import random
import signal
import threading
import time

from running_stack import PATIENCE, wait_until
from wire import ErrorReply, Pattern

MIB = 1 << 20
# As many as there are clients: identical GETs would share one lane.
SHARED = {f"shared:{number}": (number * MIB - 300_007, 9000 + number) for number in range(1, 9)}


class World:
    def __init__(self, stack):
        self.stack = stack
        # Changes when a restart begins and when it has ended: what is stored in between may be lost with the old server or stay in the new one.
        self.epoch = 0
        # Faults that the server has carried out; its own count dies with it.
        self.fired = 0
        self._up = threading.Event()
        self._one_at_a_time = threading.Lock()
        # [begin, end] of what may give any client an error.
        self._disturbances = []
        self._store_shared()
        self._up.set()

    def wait_up(self):
        if not self._up.wait(PATIENCE):
            raise AssertionError("the server did not come back")

    def disturbed_since(self, begin):
        return any(end is None or end >= begin for _, end in self._disturbances)

    def last_disturbance(self, moment):
        """Seconds from its end to that moment."""
        return moment - max((end for _, end in self._disturbances if end), default=moment)

    @contextlib.contextmanager
    def disturbance(self, noticed=0.0):
        """`noticed`: seconds that its effect may take to be seen: a command may still be written to a connection that is cut."""
        entry = [time.monotonic(), None]
        self._disturbances.append(entry)
        try:
            yield
        finally:
            entry[1] = time.monotonic() + noticed

    def server(self, *words):
        """One command past the gateway, again if a restart cuts it."""
        limit = time.monotonic() + PATIENCE
        while True:
            self.wait_up()
            try:
                with self.stack.wire(direct=True) as wire:
                    answer = wire.call(*words)
                if isinstance(answer, ErrorReply):
                    raise AssertionError(f"{words[0]}: {answer}")
                return answer
            except (OSError, EOFError):
                if time.monotonic() > limit:
                    raise

    def arm(self, fault, command, key):
        self.server("LARGEOBJ.FAULT", "SET", *fault, "ON", command, "KEY", key, "COUNT", 1)

    def kill_a_lane(self):
        """CLIENT KILL of a lane with a transfer on it, or of an idle one where none is to be seen."""
        with self.disturbance(noticed=2.0):
            lanes = [line for line in self.server("CLIENT", "LIST").decode().splitlines() if " cmd=blob.rdma_" in line]
            busy = [line for line in lanes if " flags=b" in line] or lanes
            if busy:
                chosen = random.choice(busy).split()[0].removeprefix("id=")
                self.server("CLIENT", "KILL", "ID", chosen)

    def stop_by_signal(self, name, seconds):
        """No client notices more than a pause."""
        with self._one_at_a_time:
            pid = self.stack.valkey_pid if name == "valkey" else self.stack.keyferry_pid
            if not pid:  # and 0 would be this process's own group
                raise AssertionError(f"{name} has ended by itself")
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                os.kill(pid, signal.SIGCONT)

    def restart_server(self):
        with self._one_at_a_time, self.disturbance():
            self.count_fired()
            self._up.clear()
            self.epoch += 1
            self.stack.stop_valkey("KILL")
            self.stack.start_valkey()
            self.stack.wait_ready()
            self._store_shared()
            self.epoch += 1
            self._up.set()

    @property
    def restarts(self):
        return self.epoch // 2

    def count_fired(self):
        # By a connection of its own: the stack's is for one thread.
        with self.stack.wire(direct=True) as wire:
            for line in wire.call("INFO", "largeobj").decode().splitlines():
                if line.startswith("largeobj_faults_fired:"):
                    self.fired += int(line.split(":")[1])

    def _store_shared(self):
        with self.stack.wire(direct=True) as wire:
            for key, value in SHARED.items():
                wire.send_value("BLOB.TCP_SET", key, Pattern(*value))
                assert wire.reply() == b"OK"


def resources(stack):
    """What keyferryd holds of the machine."""
    process = f"/proc/{stack.keyferry_pid}"
    return {
        "descriptors": len(os.listdir(f"{process}/fd")),
        "threads": len(os.listdir(f"{process}/task")),
        "registered": stack.metrics().total("registered_bytes"),
        "free": stack.pool_bytes()["free"],
    }


def everything_in_use(stack, clients):
    """Brings up as many lanes and bulk connections as `clients` need at once, then lets the clients go: a base for resources()."""
    for fault in (
        [("delay-before-reply", "500", "ON", "BLOB.RDMA_GET")],
        [("wrong-crc", "ON", "BLOB.RDMA_GET"), ("delay-before-reply", "500", "ON", "BLOB.TCP_GET")],
    ):
        for words in fault:
            with stack.wire(direct=True) as wire:
                assert wire.call("LARGEOBJ.FAULT", "SET", *words, "COUNT", clients) == b"OK"
        wires = [(stack.wire(), *shared) for _, shared in zip(range(clients), SHARED.items(), strict=False)]
        for wire, key, _ in wires:
            wire.send("BLOB.TCP_GET", key)
        for wire, _, value in wires:
            assert wire.expect_value(Pattern(*value)) is None
            wire.close()
        with stack.wire(direct=True) as wire:
            wire.call("LARGEOBJ.FAULT", "CLEAR")
    wait_until(lambda: stack.metrics().total("clients") == 0, "the clients to be gone")
    stack.wait_quiet()
