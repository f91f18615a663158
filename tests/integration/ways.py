"""What the integration tests measure with: the combinations of listener and protocol, and how a large value travelled."""

import os

import pytest

KIB = 1 << 10
MIB = 1 << 20
THRESHOLD = 512 * KIB  # transfer.threshold's default

# full: every size everywhere, for the release build. short: up to 1 MiB and one of 64 MiB, for sanitizers and for the mixtures of libfabric.
FULL = os.environ.get("KEYFERRY_MATRIX", "full") != "short"
# Long forms of tests, and clients beyond one of each language: tests/run --all.
ALL = os.environ.get("KEYFERRY_TESTS") == "all"

every_way = pytest.mark.parametrize(
    ("unix", "protocol"),
    [(False, 2), (False, 3), (True, 2), (True, 3)],
    ids=["tcp-RESP2", "tcp-RESP3", "unix-RESP2", "unix-RESP3"],
)


class Travelled:
    """What large values did since this was made, as keyferryd and as the server count it."""

    FIELDS = {"set": "largeobj_rdma_read_bytes_total", "get": "largeobj_rdma_write_bytes_total"}

    def __init__(self, stack):
        self.stack = stack
        self.before = self._look()

    def _look(self):
        metrics, info = self.stack.metrics(), self.stack.info()
        return {
            **{(op, path): metrics.total("transfers_total", op=op, path=path, outcome="ok") for op in ("set", "get") for path in ("rdma", "tcp")},
            **{("bytes", op): info[self.FIELDS[op]] for op in ("set", "get")},
        }

    def since(self):
        now = self._look()
        return {key: now[key] - before for key, before in self.before.items()}


def reasons(stack):
    """{(from, to, reason): count} of fallback_total."""
    series = stack.metrics().get("keyferry_fallback_total", {})
    return {tuple(dict(labels)[name] for name in ("from", "to", "reason")): count for labels, count in series.items() if count}
