"""ioredis and node-redis through the gateway: the programs in clients/ do the work, this side stores and checks past the gateway."""

import json
import os
import pathlib
import subprocess

import pytest
from bring import bring
from client_ways import MIB, bytes_of, digest

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
SIZES = [MIB, 8 * MIB]
WATCHDOG_SECONDS = 120


@pytest.mark.parametrize(
    "program, protocol",
    [("ioredis", 2), ("node_redis", 2), ("node_redis", 3)],
    ids=["ioredis-RESP2", "node_redis-RESP2", "node_redis-RESP3"],
)
def test_a_javascript_client_connects_pipelines_stores_and_reads(program, protocol, way, server, prefix):
    modules = bring("node")
    placed = {f"{prefix}placed{size}": bytes_of(size, size + protocol) for size in SIZES}
    for key, value in placed.items():
        server.execute_command("BLOB.TCP_SET", key, value)

    task = {"address": way.javascript(), "protocol": protocol, "prefix": prefix, "sizes": SIZES, "read": list(placed)}
    done = subprocess.run(
        ["node", CLIENTS / f"{program}.mjs", json.dumps(task)],
        env=os.environ | {"NODE_PATH": modules},
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)

    assert result["read"] == {key: digest(value) for key, value in placed.items()}
    assert len(result["stored"]) == len(SIZES)
    for key, expected in result["stored"].items():
        assert digest(server.execute_command("BLOB.TCP_GET", key)) == expected
