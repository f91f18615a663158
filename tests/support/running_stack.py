"""A stack (tests/support/stack) as a Python object, and waiting for conditions: what the fixtures of tests/conftest.py hand out."""

import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import exposition
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from wire import Wire

STACK = pathlib.Path(__file__).resolve().parent / "stack"
# Bounds after which a test gives up waiting for something that should happen at once; generous, since sanitizers on a busy machine are slow.
PATIENCE = float(os.environ.get("KEYFERRY_TEST_PATIENCE", "60"))


def wait_until(condition, what, evidence=None, seconds=PATIENCE):
    """Asks until condition() is true and returns what it gave; fails the test after `seconds`, naming what was waited for and what evidence() saw."""
    limit = time.monotonic() + seconds
    pause = 0.002
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > limit:
            pytest.fail(f"waited {seconds:.0f} s in vain for: {what}; last seen: {evidence() if evidence else seen!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


@dataclasses.dataclass(frozen=True)
class StackOptions:
    config: dict = dataclasses.field(default_factory=dict)  # keys of config/keyferry.yaml
    module_args: str = "chunk-size 64kb"  # many pieces even for small values
    module: bool = True
    tls: bool = False
    environment: dict = dataclasses.field(default_factory=dict)  # of both programs, beside the test's own


class Clients:
    """Bare connections (wire.py) of one test: made by a call, all closed by close()."""

    def __init__(self, stack):
        self._stack, self._made = stack, []

    def __call__(self, protocol=2, address=None):
        """`address`: the path of a Unix socket, else the stack's TCP listener."""
        self._made.append(Wire(address, PATIENCE) if address else self._stack.wire())
        if protocol == 3:
            self._made[-1].call("HELLO", 3)
        return self._made[-1]

    def close(self):
        for client in self._made:
            client.close()


class Stack:
    """A running stack. Ports and pids are int, paths are str, admin is host:port."""

    def __init__(self, options):
        self.options = options
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kf-"))  # short: a Unix socket's path has 107 bytes
        arguments = ["--module-args", options.module_args]
        if options.config:
            (self.dir / "given.yaml").write_text(json.dumps(options.config))  # every JSON text is YAML
            arguments += ["--config", self.dir / "given.yaml"]
        if options.tls:
            arguments.append("--tls")
        if not options.module:
            arguments.append("--no-module")
        self._clients = []
        self._lost = {}
        self._script("up", self.dir, *arguments)
        self._read_env()

    def _script(self, *arguments):
        done = subprocess.run([STACK, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, **self.options.environment})
        if done.returncode != 0:
            pytest.fail(f"stack {' '.join(map(str, arguments))} ended with status {done.returncode}:\n{done.stdout}", pytrace=False)

    def _read_env(self):
        lines = (self.dir / "env").read_text().splitlines()
        values = {key: "".join(shlex.split(value)) for key, _, value in (line.partition("=") for line in lines)}
        self.port = int(values["KEYFERRY_PORT"])
        self.unix = values["KEYFERRY_UNIX"]
        self.ring = values["KEYFERRY_RING"]
        self.admin = values["KEYFERRY_ADMIN"]
        self.valkey_port = int(values["VALKEY_PORT"])
        self.keyferry_pid = int(values["KEYFERRY_PID"] or 0)
        self.valkey_pid = int(values["VALKEY_PID"] or 0)

    # --- clients

    def client(self, protocol=2, unix=False, **options):
        """A redis-py client through keyferryd that reports the first failure instead of connecting again behind the test's back."""
        address = {"unix_socket_path": self.unix} if unix else {"host": "127.0.0.1", "port": self.port}
        return self._keep(redis.Redis(protocol=protocol, retry=Retry(NoBackoff(), 0), **{"socket_timeout": PATIENCE, **address, **options}))

    def direct(self, protocol=2, **options):
        """A redis-py client straight to the server."""
        return self._keep(redis.Redis(host="127.0.0.1", port=self.valkey_port, protocol=protocol, retry=Retry(NoBackoff(), 0),
                                      **{"socket_timeout": PATIENCE, **options}))

    def wire(self, unix=False, protocol=2, direct=False, timeout=PATIENCE):
        """A bare connection (wire.py) through keyferryd, or straight to the server."""
        link = Wire(("127.0.0.1", self.valkey_port) if direct else self.unix if unix else ("127.0.0.1", self.port), timeout)
        self._clients.append(link)
        if protocol == 3:
            link.call("HELLO", 3)
        return link

    def _keep(self, client):
        self._clients.append(client)
        return client

    # --- what is seen from outside

    def http(self, path):
        """(status, body) of the admin listener."""
        try:
            with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def answers(self, path):
        """The status of a page, or None while nobody listens."""
        try:
            return self.http(path)[0]
        except OSError:
            return None

    def metrics(self):
        return exposition.parse(self.http("/metrics")[1])

    def info(self, section="largeobj"):
        """The server's own INFO."""
        return self.direct_info_client.info(section)

    @property
    def direct_info_client(self):
        if not hasattr(self, "_info_client"):
            self._info_client = self.direct()
        return self._info_client

    def log(self):
        return (self.dir / "keyferryd.log").read_text(errors="replace")

    # --- what is done to it

    def fault(self, *words):
        """LARGEOBJ.FAULT of the stand-in: tests/support/large_object/README.md has the list."""
        return self.direct_info_client.execute_command("LARGEOBJ.FAULT", *words)

    def stop_valkey(self, signal="TERM"):
        self._script("server", self.dir, "stop", "--signal", signal)
        self._read_env()

    def start_valkey(self):
        self._script("server", self.dir, "start")
        self._read_env()

    def stop_keyferry(self, signal="TERM"):
        self._script("gateway", self.dir, "stop", "--signal", signal)
        self._read_env()

    def start_keyferry(self, wait=True):
        self._script("gateway", self.dir, "start", *([] if wait else ["--no-wait"]))
        self._read_env()

    def restart_valkey(self, signal="TERM"):
        self.stop_valkey(signal)
        self.start_valkey()

    def wait_ready(self):
        wait_until(lambda: self.http("/readyz")[0] == 200, "/readyz to answer 200", lambda: self.http("/readyz"))

    def wait_quiet(self):
        """Every byte of the pool is free again: nothing leased, in flight or quarantined. What is not fails this test, and is not held against the next."""

        def busy():
            return {state: max(0, count - self._lost.get(state, 0)) for state, count in self.pool_bytes().items() if state not in ("free", "closed")}

        try:
            wait_until(lambda: not any(busy().values()), "the pool to be free again", self.pool_bytes)
        except pytest.fail.Exception:
            self._lost = {state: count for state, count in self.pool_bytes().items() if state != "free"}
            raise

    def wait_left(self, staying=0):
        """All clients but so many have left, and nothing of theirs is at the server any more. Whoever has just come counts from its first byte on."""
        # This gauge is of now, those of connections are up to a second old: they may still tell of what was before the clients came.
        wait_until(lambda: self.metrics().total("clients") == staying, f"all clients but {staying} to be gone", lambda: self.http("/clients.json"))
        # What their connections carried was all sent by then, so the server has read it when it has answered this.
        self.info("clients")
        wait_until(lambda: self.info("clients")["blocked_clients"] == 0, "nobody to be blocked at the server", lambda: self.direct_info_client.client_list())

    def pool_bytes(self):
        return {dict(labels)["state"]: value for labels, value in self.metrics().get("keyferry_pool_bytes", {}).items()}

    def close(self):
        for client in self._clients:
            client.close()
        self._script("down", self.dir)
