"""The part of Valkey's own Tcl suite that takes seconds; `tests/compat/tcl` runs all of it."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize(("mode", "units"), [("shared", "unit/protocol unit/multi unit/pubsub unit/tracking"), ("dedicated", "unit/protocol unit/multi")])
def test_no_test_of_the_servers_own_suite_fails_that_is_not_in_the_list(mode, units):
    if shutil.which("tclsh") is None:
        why = "tclsh is missing. Fix: tests/support/packages install"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    ended = subprocess.run([HERE / "tcl", "--mode", mode, *units.split()], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-2000:]
    assert " 0 passed" not in ended.stdout, ended.stdout[-3000:]
