"""Fixtures of the tests that run in the guest (tests/rdma_lab/run)."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

if not os.path.exists("/sys/class/infiniband/rxe0"):
    pytest.exit("tests/rdma_lab needs the guest with soft RoCE. Fix: tests/run rdma", returncode=3)

from lab import Lab  # noqa: E402


@pytest.fixture
def lab():
    made = Lab()
    yield made
    if made.server is not None:
        print(f"--- server\n{made.server.log()[-4000:]}")
    made.close()
