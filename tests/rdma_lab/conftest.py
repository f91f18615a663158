"""Fixtures of the tests that run in the guest (tests/rdma_lab/run)."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

if not os.path.exists("/sys/class/infiniband/rxe0"):
    pytest.exit("tests/rdma_lab needs the guest with soft RoCE. Fix: tests/run rdma", returncode=3)

from lab import Lab  # noqa: E402

NAMESPACES = int(os.uname().release.split(".")[0]) >= 7


def pytest_configure(config):
    config.addinivalue_line("markers", "long: only with KEYFERRY_RDMA_LAB=all (tests/run --rdma)")


def pytest_collection_modifyitems(config, items):
    # Soft RoCE before Linux 7 has devices in the first network namespace only; the rest runs with the kernel that is fetched anyway.
    chosen = [item for item in items if (item.module.__name__ == "test_link") == NAMESPACES]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
    if os.environ.get("KEYFERRY_RDMA_LAB") == "all":
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


@pytest.fixture
def lab():
    made = Lab()
    yield made
    for name in ("gateway", "server"):
        program = getattr(made, name)
        if program is not None:
            print(f"--- {name}\n{program.log()[-4000:]}")
    made.close()
