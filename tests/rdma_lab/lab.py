"""A real server with valkey-rdma.so, inside the guest."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest
from running_stack import PATIENCE, wait_until
from wire import Wire

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ADDRESS = "10.99.0.1"
PORT = 6379


def valkey():
    """The folder of the server that tests/support/valkey/build has made."""
    return pathlib.Path(os.environ["KEYFERRY_VALKEY"])


def build():
    return pathlib.Path(os.environ["KEYFERRY_BUILD"])


class Program:
    """A process with its log; ended with the lab."""

    def __init__(self, command, log):
        self.log_path = log
        with open(log, "ab") as output:
            self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def running(self):
        return self.process.poll() is None

    def end(self, how=signal.SIGTERM):
        if self.running():
            self.process.send_signal(how)
        return self.process.wait(PATIENCE)


class Lab:
    """One server at a time, as the test wants it."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="rdma-", dir="/var/tmp"))
        self.server = None
        self._wires = []

    def close(self):
        for wire in self._wires:
            wire.close()
        if self.server is not None:
            self.server.end(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)

    # --- the server

    def start_server(self, *arguments, rdma=True):
        module = ["--loadmodule", valkey() / "lib/valkey-rdma.so", "--rdma-bind", ADDRESS, "--rdma-port", PORT] if rdma else []
        self.server = Program(
            [valkey() / "bin/valkey-server", "--port", PORT, "--bind", ADDRESS, "127.0.0.1", "--protected-mode", "no",
             "--save", "", "--appendonly", "no", "--dir", self.dir, "--enable-debug-command", "yes",
             *module, *arguments],
            self.dir / "valkey.log")
        wait_until(self._server_listens, "the server to listen", self.server.log)

    def _server_listens(self):
        if not self.server.running():
            pytest.fail(f"valkey-server ended:\n{self.server.log()}", pytrace=False)
        try:
            socket.create_connection(("127.0.0.1", PORT), 1).close()
            return True
        except OSError:
            return False

    def direct(self):
        """A connection to the server over TCP."""
        return self._keep(Wire(("127.0.0.1", PORT), PATIENCE))

    def _keep(self, wire):
        self._wires.append(wire)
        return wire
