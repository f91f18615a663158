"""A real valkey-server with the stand-in, for one test or one module of tests."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from large_object_client import HERE, PATIENCE, Lane, Resp, build_folder


def valkey_folder():
    done = subprocess.run([HERE.parents[1] / "valkey/build", "--print"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.fail(done.stderr, pytrace=False)
    return pathlib.Path(done.stdout.strip())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what):
    limit = time.monotonic() + PATIENCE
    while not (seen := condition()):
        if time.monotonic() > limit:
            pytest.fail(f"waited {PATIENCE:.0f} s in vain for: {what}")
        time.sleep(0.002)
    return seen


class Server:
    """`settings` are the stand-in's, `directives` the server's own. A server that does not start has `running` False and its log."""

    def __init__(self, settings=None, directives=(), must_start=True, environment=None):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="lo-"))
        self.settings = {"chunk-size": "64kb", **(settings or {})}
        self.directives = list(directives)
        self.environment = {**os.environ, **(environment or {})}
        self.must_start = must_start
        self.clients = []
        self.start()

    def start(self):
        self.port = free_port()
        command = [valkey_folder() / "bin/valkey-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.dir, "--save", "",
                   "--enable-debug-command", "local", "--logfile", self.dir / "log", "--loglevel", "verbose", *self.directives,
                   "--loadmodule", build_folder() / "large_object.so", *(word for pair in self.settings.items() for word in pair)]
        self.process = subprocess.Popen([str(word) for word in command], env=self.environment, stdin=subprocess.DEVNULL)
        wait_until(lambda: self.answers() or self.process.poll() is not None, "the server to answer or to end")
        self.running = self.process.poll() is None
        if self.must_start and not self.running:
            pytest.fail(f"valkey-server did not start:\n{self.log()}")
        self.admin = Resp(self.port) if self.running else None

    def answers(self):
        try:
            return not Resp(self.port).call("PING").startswith("LOADING")
        except OSError:
            return False

    def log(self):
        return (self.dir / "log").read_text(errors="replace")

    def resp(self, protocol=2):
        return self._keep(Resp(self.port, protocol))

    def lane(self, **options):
        return self._keep(Lane(self.port, **options))

    def _keep(self, client):
        self.clients.append(client)
        return client

    def fault(self, *words):
        assert self.admin.call("LARGEOBJ.FAULT", "SET", *words) == "OK"

    def info(self):
        return self.admin.info()

    def forget_clients(self):
        for client in self.clients:
            client.close()
        self.clients.clear()

    def stop(self, how=signal.SIGTERM):
        """The exit status; 0 after SIGTERM unless something crashed."""
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)

    def close(self):
        self.forget_clients()
        status = self.stop() if self.process.poll() is None else 0
        log = self.log()
        shutil.rmtree(self.dir, ignore_errors=True)
        if self.must_start and (status != 0 or "BUG REPORT" in log):
            pytest.fail(f"the server ended with status {status}:\n{log[-5000:]}", pytrace=False)
