"""What the tests with real clients and a real server share: the stack (tests/support/stack) and what one asks of it.

    def test_something(stack): ...                                      # one stack per module, as it comes
    pytestmark = pytest.mark.stack(config={"pool": {"size": "64MiB"}})  # the module's stack, made otherwise: StackOptions of running_stack.py
    def test_something(make_stack): stack = make_stack(tls=True)        # one of the test's own
"""

import os
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))

from running_stack import Stack, StackOptions  # noqa: E402


def stop(stack, request):
    """Takes a stack down. Its folder goes unless a test failed; a sanitizer's report in the log is a failure of its own."""
    stack.close()
    log = stack.log()
    for sign in ("ERROR: AddressSanitizer", "WARNING: ThreadSanitizer", "runtime error:", "ERROR: LeakSanitizer"):
        if sign in log:
            pytest.fail(f"{sign} in {stack.dir}/keyferryd.log:\n{log[max(0, log.index(sign) - 500):][:6000]}", pytrace=False)
    if request.session.testsfailed:
        print(f"the stack's folder is kept: {stack.dir}", file=sys.stderr)
    else:
        shutil.rmtree(stack.dir, ignore_errors=True)


@pytest.fixture(scope="module")
def stack(request):
    """The module's stack. `pytest.mark.stack(...)` or indirect parametrisation with a dict gives the StackOptions."""
    mark = request.node.get_closest_marker("stack")
    options = {**(mark.kwargs if mark else {}), **(getattr(request, "param", None) or {})}
    running = Stack(StackOptions(**options))
    yield running
    stop(running, request)


@pytest.fixture
def make_stack(request):
    """Calls of it bring up stacks that this test alone uses."""
    running = []

    def make(**options):
        running.append(Stack(StackOptions(**options)))
        return running[-1]

    yield make
    for each in running:
        stop(each, request)


def pytest_collection_modifyitems(config, items):
    """What is marked with every_client is left out unless KEYFERRY_TESTS=all (tests/run --all)."""
    if os.environ.get("KEYFERRY_TESTS") == "all":
        return
    left_out = [item for item in items if item.get_closest_marker("every_client")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_configure(config):
    config.addinivalue_line("markers", "every_client: beyond one client of each language, so for `tests/run --all` (KEYFERRY_TESTS=all) alone")
    config.addinivalue_line("markers", "stack(**options): how the module's stack is made (StackOptions in tests/conftest.py)")
