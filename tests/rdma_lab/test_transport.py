"""The transport by itself: rdma_transport_test of the build against servers with small and large windows."""

import os
import subprocess

import pytest
from lab import ADDRESS, PORT, build


# The thousand connects and the busy server know nothing of windows; a window of 16 MiB takes its time.
@pytest.mark.parametrize("window, tests", [
    pytest.param(64 << 10, "-*thousand*:*64_MiB*", id="64KiB"),
    pytest.param(16 << 20, "-*thousand*:*64_MiB*:*busy*:*edges*", id="16MiB"),
    pytest.param(64 << 10, "*64_MiB*:*thousand*", id="64KiB-long", marks=pytest.mark.long),
    pytest.param(16 << 20, "*64_MiB*:*edges*", id="16MiB-long", marks=pytest.mark.long),
])
def test_transport_alone(lab, window, tests):
    lab.start_server("--rdma-rx-size", window)
    done = subprocess.run([build() / "bin/rdma_transport_test", "--gtest_brief=1", f"--gtest_filter={tests}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "RDMA_SERVER": f"{ADDRESS}:{PORT}", "RDMA_WINDOW": str(window)})
    assert done.returncode == 0, done.stdout[-6000:]
    assert lab.server.running(), lab.server.log()
    assert lab.direct().call("PING") == b"PONG"
