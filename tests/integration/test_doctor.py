"""keyferry doctor on this host: what it says must be what keyferryd meets."""

import json
import os
import pathlib
import resource
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("KEYFERRY_BUILD", pathlib.Path(__file__).resolve().parent.parent.parent / "build/release"))
MIB = 1 << 20


def doctor(tmp_path, config, *arguments):
    """(exit status, {name: check}) of one run."""
    file = tmp_path / "keyferry.yaml"
    file.write_text(json.dumps(config))
    done = subprocess.run([BUILD / "bin/keyferry", "doctor", "--json", "--config", file, *arguments], stdout=subprocess.PIPE, text=True)
    page = json.loads(done.stdout)
    assert page["ok"] == (done.returncode == 0)
    return done.returncode, {check["name"]: check for check in page["checks"]}


def small(**fabric):
    return {"pool": {"size": "64MiB", "region": "4MiB", "huge_pages": "never"}, "fabric": {"provider": "software", "bind": "127.0.0.1", **fabric}}


def test_names_the_library_and_the_provider_that_the_configuration_comes_to(tmp_path):
    _, checks = doctor(tmp_path, small())
    assert checks["fabric"]["verdict"] == "ok" and "libfabric" in checks["fabric"]["text"], checks
    assert checks["memory"]["verdict"] == "ok"


@pytest.mark.parametrize("name, config", [
    ("memory", {"pool": {"size": "16TiB", "region": "4MiB"}, "fabric": {"provider": "off"}}),
    ("fabric", small(library="/nowhere/libfabric.so.1")),
], ids=["pool", "library"])
def test_what_keyferryd_would_not_start_with_fails_with_its_cause(tmp_path, name, config):
    status, checks = doctor(tmp_path, config)
    assert status == 1 and checks[name]["verdict"] == "fail", checks
    daemon = subprocess.run([BUILD / "bin/keyferryd", "--config", tmp_path / "keyferry.yaml"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert daemon.returncode == 1, daemon.stderr


def test_R69_judges_the_limits_of_another_process_and_names_the_settings(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 * MIB, 8 * MIB))
        if os.geteuid() == 0:
            os.setuid(65534)  # else no limit holds

    with subprocess.Popen(["sleep", "600"], preexec_fn=limit) as limited:
        try:
            status, checks = doctor(tmp_path, small(), "--pid", str(limited.pid))
        finally:
            limited.kill()
    memlock = checks["memlock"]
    assert status == 1 and memlock["verdict"] == "fail", checks
    assert "needs 64 MiB for the pool" in memlock["text"] and f"process {limited.pid} may lock 8 MiB" in memlock["text"]
    assert "LimitMEMLOCK=infinity" in memlock["fix"] and "--ulimit memlock=-1" in memlock["fix"]
