"""What every client test needs: the ways into the gateway, a direct line to the server behind it, and keys of its own."""

import uuid

import pytest
from client_ways import Way


@pytest.fixture(params=["tcp", "unix"])
def way(request, stack):
    return Way(request.param, stack)


@pytest.fixture
def server(stack):
    """A client of the server itself, past the gateway: what it says is what the gateway must say."""
    with stack.direct() as client:
        yield client


@pytest.fixture
def prefix(server):
    """The start of this test's keys, which are deleted afterwards."""
    start = f"compat:{uuid.uuid4().hex}:"
    yield start
    for key in server.scan_iter(start + "*", count=1000):
        server.delete(key)
