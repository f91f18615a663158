"""The part of Valkey's own Tcl suite that takes seconds; `tests/compat/tcl` runs all of it, and `tests/run --all` so, too."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent

SHORT_RUNS = [
    "--mode shared unit/protocol unit/multi unit/pubsub unit/tracking",
    "--mode dedicated unit/protocol unit/multi",
    "--mode shared --wrapped unit/auth unit/acl-v2",
]
LONG_RUNS = [
    "--mode shared",
    "--mode dedicated",
    "--mode shared --wrapped",
    "--mode dedicated --wrapped",
    "--mode shared --resp3",
    "--mode shared --tls",
    "--mode dedicated --resp3",
    "--mode dedicated --tls",
]


@pytest.mark.parametrize("options", SHORT_RUNS + [pytest.param(one, marks=pytest.mark.every_client) for one in LONG_RUNS])
def test_no_test_of_the_servers_own_suite_fails_that_is_not_in_the_list(options):
    if shutil.which("tclsh") is None:
        why = "tclsh is missing. Fix: tests/support/packages install"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    ended = subprocess.run([HERE / "tcl", *options.split()], capture_output=True, text=True)
    print(ended.stdout)  # for -rP
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-2000:]
    assert ": 0 passed" not in ended.stdout.splitlines()[-1], ended.stdout[-3000:]
