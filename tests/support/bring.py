"""Lets a test call the scripts of this folder: what is missing is fetched or built, what the machine can't have skips the test aloud."""

import functools
import os
import pathlib
import subprocess

import pytest

SUPPORT = pathlib.Path(__file__).resolve().parent
TOOL_MISSING = 3


@functools.cache
def bring(script, *arguments):
    """Runs tests/support/<script> and returns the last line that it printed: the path of what it brought.

    A tool that the machine lacks (exit status 3, the script says how to get it) skips the test, under CI it fails it like any other failure.
    """
    done = subprocess.run([SUPPORT / script, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == TOOL_MISSING and not os.environ.get("CI"):
        pytest.skip(f"tests/support/{script}: {done.stderr.strip()}")
    if done.returncode != 0:
        pytest.fail(f"tests/support/{script} ended with status {done.returncode}:\n{done.stderr}", pytrace=False)
    return done.stdout.splitlines()[-1]
