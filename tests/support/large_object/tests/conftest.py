"""Servers for the stand-in's own tests. Nothing here uses keyferryd."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from large_object_server import Server  # noqa: E402


@pytest.fixture(scope="module")
def module_server():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def server(module_server):
    """The module's server, empty, without faults, with its settings as at start; clients made through it are closed afterwards."""
    module_server.admin.call("FLUSHALL")
    yield module_server
    module_server.forget_clients()
    module_server.admin.call("LARGEOBJ.FAULT", "CLEAR")


@pytest.fixture
def make_server():
    """Servers of the test's own."""
    made = []

    def make(settings=None, **options):
        made.append(Server(settings, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()
