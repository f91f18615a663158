"""A real server with valkey-rdma.so and keyferryd before it, inside the guest."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request

import exposition
import pytest
from running_stack import PATIENCE, wait_until
from wire import Wire

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ADDRESS = "10.99.0.1"
PORT = 6379
GATEWAY_PORT = 6380
ADMIN = "127.0.0.1:9742"


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
    """One server and one gateway at a time, each as the test wants it."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="rdma-", dir="/var/tmp"))
        self.server = self.gateway = None
        self._wires = []

    def close(self):
        for wire in self._wires:
            wire.close()
        for program in (self.gateway, self.server):
            if program is not None:
                program.end(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)

    # --- the server

    def start_server(self, *arguments, rdma=True, address=ADDRESS, inside=None, version=None):
        """`inside`: a network namespace, from which that address alone leads out. `version`: what it says that it is, of as many characters as its own."""
        server, plugin = valkey() / "bin/valkey-server", valkey() / "lib/valkey-rdma.so"
        if version:
            server, plugin = (self._renamed(file, version) for file in (server, plugin))
        self._server = (address if inside else "127.0.0.1", PORT)
        place = ["ip", "netns", "exec", inside] if inside else []
        module = ["--loadmodule", plugin, "--rdma-bind", address, "--rdma-port", PORT] if rdma else []
        self.server = Program(
            [*place, server, "--port", PORT, "--bind", address, "127.0.0.1", "--protected-mode", "no",
             "--save", "", "--appendonly", "no", "--dir", self.dir, "--enable-debug-command", "yes",
             *module, *arguments],
            self.dir / "valkey.log")
        wait_until(self._server_listens, "the server to listen", self.server.log)

    def _renamed(self, file, version):
        own = subprocess.run([valkey() / "bin/valkey-server", "--version"], capture_output=True, text=True, check=True).stdout.split("v=")[1].split()[0]
        assert len(own) == len(version)
        copy = self.dir / f"{version}-{file.name}"
        copy.write_bytes(file.read_bytes().replace(own.encode(), version.encode()))
        copy.chmod(0o755)
        return copy

    def _server_listens(self):
        if not self.server.running():
            pytest.fail(f"valkey-server ended:\n{self.server.log()}", pytrace=False)
        try:
            socket.create_connection(self._server, 5).close()
            return True
        except OSError:
            return False

    def direct(self):
        """A connection to the server over TCP."""
        return self._keep(Wire(self._server, PATIENCE))

    # --- the gateway

    def start_gateway(self, wait=True, address=ADDRESS, limits=None, **upstream):
        config = {
            "workers": 1,
            "listen": [{"tcp": f"127.0.0.1:{GATEWAY_PORT}"}],
            "upstream": {"nodes": [{"host": address, "port": PORT}], "rdma_resolve": "10s", "rdma_connect": "20s", **upstream},
            "pool": {"size": "8MiB", "region": "4MiB"},
            "fabric": {"provider": "off"},
            # A guest on a busy machine is slow.
            "limits": {"upstream_wait": "30s", "stall": "300s", **(limits or {})},
            "admin": {"http": ADMIN},
        }
        path = self.dir / "keyferry.yaml"
        path.write_text(json.dumps(config))
        self.gateway = Program([build() / "bin/keyferryd", "--config", path], self.dir / "keyferryd.log")
        if wait:
            wait_until(self._gateway_ready, "keyferryd to be ready", self.gateway.log)
        return self.gateway

    def _gateway_ready(self):
        if not self.gateway.running():
            pytest.fail(f"keyferryd ended:\n{self.gateway.log()}", pytrace=False)
        try:
            return urllib.request.urlopen(f"http://{ADMIN}/readyz", timeout=5).status == 200
        except (OSError, urllib.error.HTTPError):
            return False

    def client(self):
        """A connection to keyferryd."""
        return self._keep(Wire(("127.0.0.1", GATEWAY_PORT), PATIENCE))

    def metrics(self):
        with urllib.request.urlopen(f"http://{ADMIN}/metrics", timeout=PATIENCE) as answer:
            return exposition.parse(answer.read().decode())

    def transport(self):
        """(have, reason) of ordinary commands."""
        for labels, value in self.metrics().get("keyferry_transport_info", {}).items():
            labels = dict(labels)
            if value == 1 and not labels["want"].startswith("fabric-"):
                return labels["have"], labels["reason"]
        return None

    def crossed(self, transport):
        """Bytes between keyferryd and the server by that transport."""
        return self.metrics().total("bytes_total", side="server", transport=transport)

    def queue_pairs(self):
        return self.own("qp")

    def own(self, kind):
        """How many of the devices' objects of that kind (qp, cq, mr) belong to keyferryd."""
        shown = subprocess.run(["rdma", "resource", "show", kind], capture_output=True, text=True, check=True).stdout
        # The kernel names the thread that made it.
        try:
            own = os.listdir(f"/proc/{self.gateway.process.pid}/task")
        except FileNotFoundError:
            own = [str(self.gateway.process.pid)]
        return sum(any(f" pid {thread} " in line for thread in own) or " comm kf-worker" in line for line in shown.splitlines())

    def _keep(self, wire):
        self._wires.append(wire)
        return wire
