"""keyferry doctor where there is a device."""

import json
import subprocess

from lab import ADDRESS, build


def doctor(lab, host):
    config = lab.dir / "keyferry.yaml"
    config.write_text(json.dumps({"upstream": {"nodes": [f"{host}:6379"]}, "pool": {"size": "64MiB", "region": "4MiB", "huge_pages": "never"}}))
    done = subprocess.run([build() / "bin/keyferry", "doctor", "--json", "--config", config], stdout=subprocess.PIPE, text=True)
    page = json.loads(done.stdout)
    return done.returncode, {check["name"]: check for check in page["checks"]}


def test_finds_the_device_its_node_its_link_and_the_gid_of_the_address_in_use(lab):
    status, checks = doctor(lab, ADDRESS)
    assert status == 0 and all(check["verdict"] == "ok" for check in checks.values()), checks
    assert checks["rdma link rxe0/1"]["text"].startswith("ACTIVE")
    assert "/dev/infiniband/uverbs0 (rxe0)" in checks["rdma node uverbs0"]["text"]
    # Index 0 is the link-local address.
    with open("/sys/class/infiniband/rxe0/ports/1/gids/0") as first:
        assert first.read().startswith("fe80")
    assert f"leave from {ADDRESS}: rxe0/1 index 1, RoCE v2" in checks["rdma gid"]["text"]


def test_R68_says_so_where_the_way_to_the_server_has_no_gid(lab):
    _, checks = doctor(lab, "127.0.0.1")
    assert "no RDMA device has a GID" in checks["rdma gid"]["text"] and f"{ADDRESS} (rdma0)" in checks["rdma gid"]["text"]
    assert "route" in checks["rdma gid"]["fix"]
