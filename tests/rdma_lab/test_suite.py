"""Units of the server's own suite through keyferryd, which goes to the server by RDMA and by nothing else."""

import os
import subprocess

import pytest
from lab import ADDRESS, ROOT

long = pytest.mark.long


@pytest.mark.parametrize("unit", ["unit/protocol", "unit/multi", "unit/pubsub", pytest.param("unit/type/string", marks=long)])
def test_no_test_of_the_servers_own_suite_fails_over_rdma_that_is_not_in_the_list(unit):
    # The suite is copied to memory: the host's files are read-only here.
    done = subprocess.run([ROOT / "tests/compat/tcl", "--rdma", ADDRESS, "--timeout", "1500", unit], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "TMPDIR": "/var/tmp"})
    assert done.returncode == 0, done.stdout[-4000:]
    assert " 0 passed" not in done.stdout, done.stdout[-4000:]
