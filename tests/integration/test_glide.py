"""GLIDE 2.6.0 with its own RDMA path: somebody else's client proves that the stand-in speaks the protocol, and its values cross to keyferryd and back.

GLIDE talks to the server itself: keyferryd refuses BLOB.RDMA_* from a socket.
"""

import json
import os
import pathlib
import subprocess

import pytest
from bring import bring
from ways import KIB, MIB, THRESHOLD, Travelled, every_way
from wire import Pattern

PEER = pathlib.Path(__file__).resolve().parent / "glide_peer.py"
SIZES = [1, 2, 511, 4095, 4096, 4097, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 256 * KIB, MIB - 1, MIB, MIB + 1, 4 * MIB + 1, 16 * MIB, 64 * MIB]
CROSSING = [1, 64 * KIB + 1, THRESHOLD, 5 * MIB + 3, 64 * MIB]


@pytest.fixture(scope="module")
def glide(stack):
    """glide(steps) does the steps of glide_peer.py in one GLIDE client and returns their outcomes."""
    folder = pathlib.Path(bring("peers/glide"))
    library = bring("peers/libfabric")

    def run(steps):
        done = subprocess.run(
            [folder / "venv" / "bin" / "python", PEER, str(stack.valkey_port)],
            input=json.dumps(steps),
            capture_output=True,
            text=True,
            env={**os.environ, "GLIDE_LIBFABRIC_PATH": f"{library}/lib/libfabric.so.1"},
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("checksum", ["skip", "compute", "known"])
def test_glide_stores_and_reads_every_size_in_each_checksum_mode(stack, glide, checksum):
    before = stack.info()
    steps = []
    for size in SIZES:
        key = f"glide:{checksum}:{size}"
        steps.append({"do": "set", "key": key, "length": size, "seed": size, "checksum": checksum})
        steps.append({"do": "get", "key": key, "length": size})  # a window that just fits
        steps.append({"do": "get", "key": key, "length": size + 1000})
    outcomes = glide(steps)
    for number, size in enumerate(SIZES):
        stored, fitting, roomy = outcomes[3 * number : 3 * number + 3]
        digest = Pattern(size, size).digest()
        assert stored == {"digest": digest}
        assert fitting == roomy == {"length": size, "digest": digest}
    after = stack.info()
    assert after["largeobj_rdma_read_bytes_total"] - before["largeobj_rdma_read_bytes_total"] == sum(SIZES)
    assert after["largeobj_rdma_write_bytes_total"] - before["largeobj_rdma_write_bytes_total"] == 2 * sum(SIZES)
    assert after["largeobj_checksum_mismatches"] == before["largeobj_checksum_mismatches"]


def test_a_wrong_checksum_of_glides_is_refused_and_the_old_value_stays(glide):
    old, new = 2 * MIB, 3 * MIB
    outcomes = glide(
        [
            {"do": "set", "key": "glide:wrong", "length": old, "seed": 1, "checksum": "compute"},
            {"do": "set", "key": "glide:wrong", "length": new, "seed": 2, "checksum": "wrong"},
            {"do": "get", "key": "glide:wrong", "length": new},
            {"do": "get", "key": "glide:nothing", "length": new},
        ]
    )
    assert "error" in outcomes[1] and not outcomes[1]["closed"], outcomes[1]
    assert outcomes[2] == {"length": old, "digest": Pattern(old, 1).digest()}
    assert outcomes[3] == {"missing": True}


@every_way
def test_values_cross_between_glide_and_keyferryd(stack, glide, unix, protocol):
    def steps(do, name):
        return [{"do": do, "key": f"cross:{name}:{size}", "length": size, "seed": size + 1, "checksum": "compute"} for size in CROSSING]

    outcomes = glide(steps("set", "from-glide"))
    assert [outcome.get("digest") for outcome in outcomes] == [Pattern(size, size + 1).digest() for size in CROSSING], outcomes
    large = sum(size for size in CROSSING if size >= THRESHOLD)
    travelled = Travelled(stack)
    with stack.wire(unix=unix, protocol=protocol) as wire:
        for size in CROSSING:
            wire.send("BLOB.TCP_GET", f"cross:from-glide:{size}")
            assert wire.expect_value(Pattern(size, size + 1)) is None
            wire.send_value("BLOB.TCP_SET", f"cross:from-keyferryd:{size}", Pattern(size, size + 2))
            assert wire.reply() == b"OK"
    stack.wait_quiet()
    since = travelled.since()
    assert (since["bytes", "set"], since["bytes", "get"]) == (large, large), "keyferryd's half did not go by RDMA"
    assert glide(steps("get", "from-keyferryd")) == [{"length": size, "digest": Pattern(size, size + 2).digest()} for size in CROSSING]
