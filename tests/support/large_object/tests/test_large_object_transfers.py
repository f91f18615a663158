"""Large objects over the fabric: every byte and every checksum, pieces and regions, and what happens beside a transfer."""

import random
import subprocess
import sys
import threading

import pytest
from large_object_client import HERE, Error, Resp, crc32c
from large_object_server import Server, wait_until

CHUNK = 64 * 1024
SIZES = [1, 2, 4095, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7, 1 << 20, (1 << 22) + 1, 1 << 24, 1 << 26]
GUARD = 64


def pattern(size, seed=7):
    block = random.Random(seed).randbytes(min(size, 999_983))
    return (block * (size // len(block) + 1))[:size]


def split(size, count, seed=3):
    """`count` lengths > 0 that add up to `size`."""
    cuts = sorted(random.Random(seed).sample(range(1, size), count - 1))
    return [end - start for start, end in zip([0, *cuts], [*cuts, size])]


class Windows:
    """Windows of a region in a shuffled order with guard bytes between them, so that a byte out of place is seen."""

    def __init__(self, lane, lengths, seed=5):
        self.lengths = lengths
        self.region = lane.register(sum(lengths) + GUARD * (len(lengths) + 1))
        self.offsets = [0] * len(lengths)
        offset = GUARD
        for index in random.Random(seed).sample(range(len(lengths)), len(lengths)):
            self.offsets[index] = offset
            offset += lengths[index] + GUARD

    @property
    def triples(self):
        return [self.region.triple(offset, length) for offset, length in zip(self.offsets, self.lengths)]

    def fill(self, value):
        self.region.view[:] = bytes([value]) * len(self.region.view)

    def write(self, data):
        position = 0
        for offset, length in zip(self.offsets, self.lengths):
            part = data[position:position + length]
            self.region.view[offset:offset + len(part)] = part
            position += length

    def read(self, size):
        return b"".join(self.region.view[offset:offset + length] for offset, length in zip(self.offsets, self.lengths))[:size]

    def untouched(self, value, size):
        """Everything but the first `size` bytes of the windows still has `value`."""
        copy = bytearray(self.region.view)
        left = size
        for offset, length in zip(self.offsets, self.lengths):
            used = min(length, left)
            copy[offset:offset + used] = bytes([value]) * used
            left -= used
        return copy == bytes([value]) * len(copy)


def round_trip(lane, key, size, triples):
    data = pattern(size, seed=size)
    source = Windows(lane, split(size, triples) if triples > 1 else [size])
    source.write(data)
    assert lane.set(key, source.triples, size, crc32c(data)) == "OK"
    assert lane.call("BLOB.INFO", key) == [b"len", size, b"crc", crc32c(data), b"tier", "dram"]
    target = Windows(lane, split(size, triples, seed=11) if triples > 1 else [size + 5], seed=13)
    target.fill(0xA5)
    assert lane.get(key, target.triples) == [size, crc32c(data)]
    assert target.read(size) == data
    assert target.untouched(0xA5, size)
    return data


@pytest.mark.parametrize("size", SIZES)
def test_every_byte_comes_back_through_one_triple(server, size):
    data = round_trip(server.lane(), "one", size, 1)
    assert server.admin.call("BLOB.TCP_GET", "one") == data


@pytest.mark.parametrize("triples", [2, 3, 17, 255, 256])
@pytest.mark.parametrize("size", [256, CHUNK + 1, (1 << 20) + 3, 1 << 24])
def test_every_byte_comes_back_through_many_triples(server, size, triples):
    if triples > size // 2:
        triples = size // 2
    round_trip(server.lane(protocol=3), "many", size, triples)


def test_an_object_of_64_mib_in_256_triples(server):
    round_trip(server.lane(), "big", 1 << 26, 256)


def test_an_object_of_512_mib_in_256_equal_triples_as_a_gateway_sends_it(make_server):
    server = make_server({"chunk-size": "8mb"})
    lane = server.lane()
    size, part = 512 << 20, 2 << 20
    region = lane.register(size)
    data = pattern(size)
    region.view[:] = data
    triples = [region.triple(offset, part) for offset in range(0, size, part)]
    assert lane.set("max", triples, size, crc32c(data)) == "OK"
    region.view[:] = bytes(size)
    assert lane.get("max", triples) == [size, crc32c(data)]
    assert region.view == data
    assert server.info()["largeobj_rdma_writes_total"] == 256


def test_pieces_are_cut_at_chunks_and_at_regions(server):
    lane = server.lane()
    size = 3 * CHUNK
    before = server.info()
    source = Windows(lane, [CHUNK // 2, 2 * CHUNK, CHUNK // 2])
    assert lane.set("cut", source.triples, size) == "OK"
    after = server.info()
    # 0 to 1/2, 1/2 to 1, 1 to 2, 2 to 2 1/2, 2 1/2 to 3 chunks
    assert after["largeobj_rdma_reads_total"] - before["largeobj_rdma_reads_total"] == 5
    assert after["largeobj_efa_read_bytes_total"] - before["largeobj_efa_read_bytes_total"] == size


def test_a_surplus_window_is_left_alone(server):
    lane = server.lane()
    server.admin.call("BLOB.TCP_SET", "short", "123456789")
    target = Windows(lane, [4, 4096, 100])
    target.fill(0x5A)
    assert lane.get("short", target.triples) == [9, 3808858755]
    assert target.read(9) == b"123456789"
    assert target.untouched(0x5A, 9)


def test_a_window_that_is_too_small_is_refused_before_a_byte_lands(server):
    lane = server.lane()
    server.admin.call("BLOB.TCP_SET", "long", "1234567890")
    target = Windows(lane, [4, 5])
    target.fill(1)
    assert lane.get("long", target.triples) == Error("ERR client address space smaller than object length")
    assert target.untouched(1, 0)


def test_a_wrong_crc_stores_nothing_and_leaves_the_old_value(server):
    lane = server.lane()
    server.admin.call("BLOB.TCP_SET", "old", "before")
    source = Windows(lane, [9])
    source.write(b"123456789")
    reply = lane.set("old", source.triples, 9, 1)
    assert isinstance(reply, Error) and reply.startswith("ERR ")
    assert server.admin.call("BLOB.TCP_GET", "old") == b"before"
    assert server.info()["largeobj_checksum_mismatches"] >= 1


def test_an_unknown_key_of_memory_fails_the_transfer_and_the_next_one_works(server):
    lane = server.lane()
    region = lane.register(CHUNK * 4)
    key, address, length = region.triple()
    server.admin.call("BLOB.TCP_SET", "value", pattern(CHUNK * 4))
    for _ in range(3):
        assert lane.get("value", [[key + 1000, address, length]]) == Error("ERR RDMA write failed")
        assert lane.set("other", [[key + 1000, address, length]], length) == Error("ERR RDMA read failed")
        assert lane.get("value", [[key, address, length]]) == [length, crc32c(pattern(CHUNK * 4))]
    assert server.admin.call("EXISTS", "other") == 0
    assert region.view == pattern(CHUNK * 4)


def test_a_range_beyond_the_registration_fails(server):
    lane = server.lane()
    region = lane.register(4096)
    key, address, _ = region.triple()
    assert lane.set("beyond", [[key, address + 1, 4096]], 4096) == Error("ERR RDMA read failed")


def test_an_endpoint_that_is_gone_fails_the_transfer_and_nobody_else(server):
    lane, other = server.lane(), server.lane()
    region = lane.register(CHUNK * 8)
    assert lane.set("gone", [region.triple()], CHUNK * 8) == "OK"
    lane.endpoint.close_endpoint()
    assert lane.get("gone", [region.triple()]) == Error("ERR RDMA write failed")
    round_trip(other, "still", CHUNK * 3, 2)


def test_an_address_that_nobody_listens_on_is_accepted_and_then_fails(server):
    resp = server.resp()
    assert len(resp.call("BLOB.RDMA_HELLO", "020000017f0000010000000000000000")) == 2
    assert resp.call("BLOB.RDMA_SET", "nowhere", 10, 1, 0, 10) == Error("ERR RDMA read failed")
    assert server.info()["largeobj_in_flight"] == 0


def test_nothing_moves_until_the_client_polls(make_server):
    server = make_server({"fabric-services": "1"})
    lane = server.lane(polling=False)
    region = lane.register(4096)
    server.admin.call("BLOB.TCP_SET", "idle", pattern(4096))
    lane.endpoint.poll(True)
    assert lane.get("idle", [region.triple()])[0] == 4096  # connects
    lane.endpoint.poll(False)
    region.view[:] = bytes(4096)
    lane.send_get("idle", [region.triple()])
    wait_until(lambda: server.info()["largeobj_in_flight"] == 1, "the write to be posted")
    assert region.view == bytes(4096)
    lane.endpoint.poll(True)
    assert lane.read()[0] == 4096
    assert region.view == pattern(4096)


def test_a_value_that_goes_away_during_a_get_is_delivered_all_the_same(server):
    size = 16 * CHUNK
    for number, command in enumerate([("DEL", "v"), ("BLOB.TCP_SET", "v", "new"), ("FLUSHALL",), ("SET", "v", "string"), ("PEXPIRE", "v", "0")]):
        data = pattern(size, seed=number)
        server.admin.call("DEL", "v")
        server.admin.call("BLOB.TCP_SET", "v", data)
        lane = server.lane()
        region = lane.register(size)
        server.fault("delay-before-rma", 100, "KEY", "v", "ON", "RDMA_GET")
        lane.send_get("v", [region.triple()])
        wait_until(lambda: server.info()["largeobj_transfers_running"] == 1, "the GET to run")
        server.admin.call(*command)
        assert lane.read() == [size, crc32c(data)]
        assert region.view == data
    wait_until(lambda: server.info()["largeobj_allocated_bytes"] == 0, "the memory to be given back")


def test_of_two_sets_the_later_one_wins_whichever_ends_first(server):
    slow, fast = server.lane(), server.lane()
    first, second = slow.register(9), fast.register(9)
    first.view[:], second.view[:] = b"111111111", b"222222222"
    server.fault("delay-before-rma", 200)
    slow.send_set("race", [first.triple()], 9)
    wait_until(lambda: server.info()["largeobj_faults_fired"] and server.info()["largeobj_faults_armed"] == 0, "the first SET to arrive")
    stale = server.info()["largeobj_set_finalize_stale"]
    assert fast.set("race", [second.triple()], 9) == "OK"
    assert slow.read() == "OK"
    assert server.admin.call("BLOB.TCP_GET", "race") == b"222222222"
    assert server.info()["largeobj_set_finalize_stale"] == stale + 1


def test_a_set_commits_though_the_key_was_deleted_meanwhile(server):
    lane = server.lane()
    region = lane.register(9)
    region.view[:] = b"123456789"
    server.admin.call("BLOB.TCP_SET", "k", "old")
    server.fault("delay-before-rma", 100)
    lane.send_set("k", [region.triple()], 9)
    wait_until(lambda: server.info()["largeobj_transfers_running"] == 1, "the SET to run")
    server.admin.call("DEL", "k")
    assert lane.read() == "OK"
    assert server.admin.call("BLOB.TCP_GET", "k") == b"123456789"


def test_a_set_that_meets_another_type_at_its_end_leaves_it_alone(server):
    lane = server.lane()
    region = lane.register(9)
    server.fault("delay-before-rma", 100)
    lane.send_set("k", [region.triple()], 9)
    wait_until(lambda: server.info()["largeobj_transfers_running"] == 1, "the SET to run")
    server.admin.call("SET", "k", "string")
    assert lane.read().startswith("WRONGTYPE")
    assert server.admin.call("GET", "k") == b"string"


def test_a_session_ends_with_its_connection_and_its_transfer_still_ends(server):
    lane = server.lane()
    size = 16 * CHUNK
    region = lane.register(size)
    region.view[:] = pattern(size)
    sessions = server.info()["largeobj_rdma_sessions"]
    server.fault("delay-before-rma", 100)
    lane.send_set("left", [region.triple()], size)
    wait_until(lambda: server.info()["largeobj_transfers_running"] == 1, "the SET to run")
    Resp.close(lane)
    wait_until(lambda: server.info()["largeobj_rdma_sessions"] == sessions - 1, "the session to go")
    wait_until(lambda: server.info()["largeobj_transfers_running"] == 0, "the SET to end")
    assert server.admin.call("BLOB.TCP_GET", "left") == pattern(size)


def test_many_lanes_at_once_do_not_disturb_each_other(server):
    problems = []

    def work(number):
        try:
            for step in range(6):
                lane = server.lane()
                round_trip(lane, f"lane-{number}", CHUNK * (number % 5 + 1) + step, step % 3 + 1)
                lane.close()
        except BaseException as problem:  # reported by the main thread
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]
    wait_until(lambda: server.info()["largeobj_rdma_sessions"] == 0, "all sessions to go")
    assert server.info()["largeobj_in_flight"] == 0


def libfabrics():
    done = subprocess.run([HERE.parents[1] / "peers/libfabric", "--print"], capture_output=True, text=True)
    newer = f"{done.stdout.strip()}/lib/libfabric.so.1" if done.returncode == 0 else None
    return {"1.17": "", "2.5.1": newer}


@pytest.mark.parametrize("client", ["1.17", "2.5.1"])
@pytest.mark.parametrize("module", ["1.17", "2.5.1"])
def test_either_side_may_run_on_either_libfabric(module, client):
    """The client is a process of its own: two libfabrics in one would share its environment and its signal handlers."""
    files = libfabrics()
    if None in (files[module], files[client]):
        pytest.skip("libfabric 2.5.1 is not here. Fix: tests/support/peers/libfabric")
    server = Server({"libfabric-path": files[module]} if files[module] else {})
    try:
        assert f"libfabric {module.rsplit('.', module.count('.') - 1)[0]}" in server.info()["largeobj_fabric_provider"]
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import test_large_object_transfers as t, large_object_client as c\n"
                "lane = c.Lane(int(sys.argv[2]), libfabric=sys.argv[3])\n"
                "for size in t.SIZES: t.round_trip(lane, 'x', size, 1)\n"
                "for triples in (2, 100, 256): t.round_trip(lane, 'x', (1 << 20) + 3, triples)\n"
                "region = lane.register(4096)\n"
                "key, address, length = region.triple()\n"
                "for _ in range(5):\n"
                "    assert lane.set('bad', [[key + 99, address, length]], length).startswith('ERR RDMA read failed')\n"
                "    t.round_trip(lane, 'x', 200000, 3)\n")
        done = subprocess.run([sys.executable, "-c", code, str(HERE), str(server.port), files[client]], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    finally:
        server.close()
