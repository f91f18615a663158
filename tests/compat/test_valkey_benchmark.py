"""valkey-benchmark through the gateway: no error, and no command lost or done twice."""

import csv
import pathlib
import subprocess

import pytest
from bring import bring

REQUESTS = 32000  # a multiple of the pipeline, so that the tool sends exactly as many
KEYS = ["key:__rand_int__", "counter:__rand_int__", "mylist"]
WATCHDOG_SECONDS = 300


@pytest.mark.parametrize("options", [[], ["-3"]], ids=["RESP2", "RESP3"])
def test_valkey_benchmark_ends_without_an_error_and_every_command_counts_once(way, server, options):
    benchmark = pathlib.Path(bring("valkey/build")) / "bin" / "valkey-benchmark"
    server.delete(*KEYS)
    try:
        done = subprocess.run(
            [benchmark, *way.benchmark(), *options, "-t", "set,get,incr,lpush,mset", "-P", "16", "-n", str(REQUESTS), "-c", "50", "--csv"],
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "error" not in (done.stdout + done.stderr).lower()
        figures = {row["test"]: float(row["rps"]) for row in csv.DictReader(done.stdout.splitlines())}
        assert list(figures) == ["SET", "GET", "INCR", "LPUSH", "MSET (10 keys)"]
        assert all(rate > 0 for rate in figures.values())
        assert int(server.get("counter:__rand_int__")) == REQUESTS
        assert server.llen("mylist") == REQUESTS
    finally:
        server.delete(*KEYS)


@pytest.mark.every_client
@pytest.mark.parametrize("options", [[], ["-3"]], ids=["RESP2", "RESP3"])
def test_every_default_test_of_valkey_benchmark_ends_without_an_error(way, server, options):
    benchmark = pathlib.Path(bring("valkey/build")) / "bin" / "valkey-benchmark"
    try:
        done = subprocess.run([benchmark, *way.benchmark(), *options, "-n", "2000", "-c", "20", "--csv"], capture_output=True, text=True, timeout=WATCHDOG_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "error" not in (done.stdout + done.stderr).lower()
        figures = {row["test"]: float(row["rps"]) for row in csv.DictReader(done.stdout.splitlines())}
        assert len(figures) >= 18, list(figures)
        assert all(rate > 0 for rate in figures.values())
    finally:
        server.flushdb()
