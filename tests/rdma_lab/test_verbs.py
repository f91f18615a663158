"""libfabric's verbs;ofi_rxm on soft RoCE: registration with a device, whose provider chooses the keys, as on efa-direct. The stand-in has a provider for it, keyferryd a switch;
README.md says why no transfer is tried."""

import json
import subprocess
import urllib.request

import exposition
import pytest
from lab import ADDRESS, PORT, Program, build
from running_stack import PATIENCE, wait_until

GATEWAY = 6390
ADMIN = "127.0.0.1:9790"
MIB = 1 << 20
REGIONS = 16


class Verbs:
    def __init__(self, lab):
        self.lab = lab
        lab.start_server("--loadmodule", build() / "tests/support/large_object/large_object.so", "fabric-provider", "Verbs", "fabric-bind", ADDRESS,
                         "chunk-size", "64kb", rdma=False)
        config = {
            "workers": 1,
            "listen": [{"tcp": f"127.0.0.1:{GATEWAY}"}],
            "upstream": {"nodes": [f"{ADDRESS}:{PORT}"]},
            "pool": {"size": f"{REGIONS * 4}MiB", "region": "4MiB", "huge_pages": "never"},
            "fabric": {"bind": ADDRESS},
            "transfer": {"lanes": 1},
            "limits": {"upstream_wait": "30s", "stall": "300s"},  # a guest on a busy machine is slow
            "admin": {"http": ADMIN},
        }
        path = lab.dir / "keyferry.yaml"
        path.write_text(json.dumps(config))
        self.gateway = Program(["env", "KEYFERRY_FABRIC_VERBS=1", build() / "bin/keyferryd", "--config", path], lab.dir / "keyferryd.log")
        wait_until(self._ready, "keyferryd to be ready with its pool registered", self.gateway.log)
        self.server = lab.direct()

    def _ready(self):
        assert self.gateway.running(), self.gateway.log()
        try:
            return self._page("/readyz") and self.metrics().total("regions", state="free") == REGIONS
        except OSError:
            return False

    def close(self):
        print(f"--- keyferryd\n{self.gateway.log()[-6000:]}")
        self.gateway.end()

    @staticmethod
    def _page(path):
        with urllib.request.urlopen(f"http://{ADMIN}{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def metrics(self):
        return exposition.parse(self._page("/metrics"))

    def status(self):
        return json.loads(self._page("/status.json"))


@pytest.fixture
def verbs(lab, monkeypatch):
    # ofi_rxm makes a queue with room for this many peers (256), which is more than soft RoCE has (32767 entries).
    monkeypatch.setenv("FI_UNIVERSE_SIZE", "16")
    # Its cache keeps a registration after it was closed: then closing fences nothing.
    monkeypatch.setenv("FI_MR_CACHE_MAX_COUNT", "0")
    made = Verbs(lab)
    yield made
    made.close()


def test_the_pool_is_registered_with_the_device_and_both_sides_open_their_endpoints(verbs):
    fabric = verbs.status()["fabric"]
    assert (fabric["provider"], fabric["domain"]) == ("verbs", "rxe0")
    assert verbs.metrics().total("registered_bytes") == REGIONS * 4 * MIB
    # Of the kernel: each region is a registration of the device's, so nothing was left to a cache or to software.
    shown = subprocess.run(["rdma", "resource", "show", "mr"], capture_output=True, text=True, check=True).stdout
    assert sum(f" mrlen {4 * MIB} " in line for line in shown.splitlines()) == REGIONS, shown
    assert b"verbs;ofi_rxm" in verbs.server.call("INFO", "largeobj")
