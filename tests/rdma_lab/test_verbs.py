"""libfabric's verbs;ofi_rxm on soft RoCE: registration with a device, whose provider chooses the keys and wants addresses, as on efa-direct. The stand-in has a provider for it,
keyferryd a switch."""

import json
import subprocess
import urllib.request

import exposition
import pytest
from lab import ADDRESS, PORT, Lab, Program, build
from running_stack import PATIENCE, wait_until
from wire import Pattern, Wire

GATEWAY = 6390
ADMIN = "127.0.0.1:9790"
MIB = 1 << 20
REGIONS = 16


class Verbs:
    def __init__(self, lab):
        self.lab = lab
        lab.start_server("--loadmodule", build() / "tests/support/large_object/large_object.so", "fabric-provider", "Verbs", "fabric-bind", ADDRESS,
                         "chunk-size", "64kb", "fabric-patience", 60_000, "fabric-services", 1, rdma=False)
        config = {
            "workers": 1,
            "listen": [{"tcp": f"127.0.0.1:{GATEWAY}"}],
            "upstream": {"nodes": [f"{ADDRESS}:{PORT}"]},
            "pool": {"size": f"{REGIONS * 4}MiB", "region": "4MiB", "huge_pages": "never"},
            "fabric": {"bind": ADDRESS},
            "transfer": {"lanes": 1, "threshold": "4KiB"},
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

    def client(self):
        return self.lab._keep(Wire(("127.0.0.1", GATEWAY), PATIENCE))

    @staticmethod
    def _page(path):
        with urllib.request.urlopen(f"http://{ADMIN}{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def metrics(self):
        return exposition.parse(self._page("/metrics"))

    def status(self):
        return json.loads(self._page("/status.json"))


@pytest.fixture(scope="module")
def verbs():
    with pytest.MonkeyPatch.context() as patch:
        # ofi_rxm makes a queue with room for this many peers (256), which is more than soft RoCE has (32767 entries).
        patch.setenv("FI_UNIVERSE_SIZE", "16")
        # Its cache keeps a registration after it was closed: then closing fences nothing.
        patch.setenv("FI_MR_CACHE_MAX_COUNT", "0")
        lab = Lab()
        made = Verbs(lab)
        yield made
        made.close()
        lab.close()


def test_the_pool_is_registered_with_the_device_and_both_sides_open_their_endpoints(verbs):
    fabric = verbs.status()["fabric"]
    assert (fabric["provider"], fabric["domain"]) == ("verbs", "rxe0")
    assert verbs.metrics().total("registered_bytes") == REGIONS * 4 * MIB
    # Of the kernel: each region is a registration of the device's, so nothing was left to a cache or to software.
    shown = subprocess.run(["rdma", "resource", "show", "mr"], capture_output=True, text=True, check=True).stdout
    assert sum(f" mrlen {4 * MIB} " in line for line in shown.splitlines()) == REGIONS, shown
    assert b"verbs;ofi_rxm" in verbs.server.call("INFO", "largeobj")


def test_values_cross_both_ways_by_addresses_and_keys_that_the_provider_gave(verbs):
    client = verbs.client()
    sizes = [64 << 10, MIB, 3 * MIB + 1, 8 * MIB]
    for size in sizes:
        pattern = Pattern(size, size)
        client.send_value("BLOB.TCP_SET", "large", pattern)
        assert client.reply() == b"OK"
        client.send("BLOB.TCP_GET", "large")
        assert client.reply() == pattern.bytes()
    metrics = verbs.metrics()
    assert {op: metrics.total("transfers_total", op=op, path="rdma", outcome="ok") for op in ("set", "get")} == {"set": len(sizes), "get": len(sizes)}
    told = dict(line.split(b":", 1) for line in verbs.server.call("INFO", "largeobj").splitlines() if b":" in line)
    assert {int(told[b"largeobj_rdma_%s_bytes_total" % way]) for way in (b"read", b"write")} == {sum(sizes)}
