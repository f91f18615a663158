"""Every fault switch does what its line in the README says, and then lets the next command work."""

import re
import time

import pytest
from large_object_client import HERE, Error, Status, crc32c
from large_object_server import wait_until

CHUNK = 64 * 1024
SIZE = 16 * CHUNK
DATA = bytes((i * 7 + i // 256) % 256 for i in range(SIZE))
LOOPBACK = "020000017f0000010000000000000000"


@pytest.fixture
def lane(server):
    """A lane with a region, and the object "v" in the server."""
    server.admin.call("BLOB.TCP_SET", "v", DATA)
    lane = server.lane()
    lane.region = lane.register(SIZE)
    return lane


def pieces_landed(lane):
    return sum(lane.region.view[start:start + CHUNK] == DATA[start:start + CHUNK] for start in range(0, SIZE, CHUNK))


def works(lane):
    lane.region.view[:] = bytes(SIZE)
    assert lane.get("v", [lane.region.triple()]) == [SIZE, crc32c(DATA)]
    assert lane.region.view == DATA


def test_fail_after_some_pieces(server, lane):
    server.fault("fail-after", 5)
    assert lane.get("v", [lane.region.triple()]) == Error("ERR RDMA write failed")
    assert pieces_landed(lane) == 5
    works(lane)
    server.fault("fail-after", 2, "ON", "BLOB.RDMA_SET")
    works(lane)
    assert lane.set("new", [lane.region.triple()], SIZE) == Error("ERR RDMA read failed")
    assert server.admin.call("EXISTS", "new") == 0


def test_pieces_land_in_no_order(server, lane):
    orders = set()
    for _ in range(5):
        lane.region.view[:] = bytes(SIZE)
        server.fault("fail-after", 8)
        lane.get("v", [lane.region.triple()])
        orders.add(tuple(start for start in range(0, SIZE, CHUNK) if lane.region.view[start:start + CHUNK] == DATA[start:start + CHUNK]))
    assert len(orders) > 1
    server.admin.call("CONFIG", "SET", "largeobj.shuffle", "no")
    lane.region.view[:] = bytes(SIZE)
    server.fault("fail-after", 8)
    lane.get("v", [lane.region.triple()])
    assert lane.region.view[:SIZE // 2] == DATA[:SIZE // 2] and lane.region.view[SIZE // 2:] == bytes(SIZE // 2)
    server.admin.call("CONFIG", "SET", "largeobj.shuffle", "yes")


def test_a_dropped_connection_is_followed_by_late_writes(server, lane):
    server.fault("drop-after", 3, 300)
    lane.send_get("v", [lane.region.triple()])
    with pytest.raises(ConnectionError):
        lane.read()
    assert pieces_landed(lane) == 3
    wait_until(lambda: pieces_landed(lane) == SIZE // CHUNK, "the late writes")


def test_closing_the_endpoint_stops_late_writes(server, lane):
    server.fault("drop-after", 3, 300)
    lane.send_get("v", [lane.region.triple()])
    with pytest.raises(ConnectionError):
        lane.read()
    lane.endpoint.close_endpoint()
    wait_until(lambda: server.info()["largeobj_transfers_running"] == 0, "the transfer to end")
    assert pieces_landed(lane) == 3


def test_a_set_whose_connection_is_dropped_is_stored_all_the_same(server, lane):
    lane.region.view[:] = DATA
    server.fault("drop-after", 3, 50)
    lane.send_set("late", [lane.region.triple()], SIZE)
    with pytest.raises(ConnectionError):
        lane.read()
    wait_until(lambda: server.admin.call("BLOB.TCP_GET", "late") == DATA, "the SET to commit")


def test_an_early_error_is_followed_by_late_writes(server, lane):
    server.fault("early-error", 4, 300)
    assert lane.get("v", [lane.region.triple()]) == Error("ERR RDMA write failed")
    assert pieces_landed(lane) == 4
    wait_until(lambda: pieces_landed(lane) == SIZE // CHUNK, "the late writes")
    assert server.info()["largeobj_rdma_write_errors"] >= 1
    works(lane)
    server.fault("early-error", 4, 10)
    assert lane.set("never", [lane.region.triple()], SIZE) == Error("ERR RDMA read failed")
    wait_until(lambda: server.info()["largeobj_transfers_running"] == 0, "the transfer to end")
    assert server.admin.call("EXISTS", "never") == 0


def test_a_pause_in_the_middle(server, lane):
    server.fault("pause-after", 6, 300)
    lane.send_get("v", [lane.region.triple()])
    wait_until(lambda: pieces_landed(lane) == 6, "the first pieces")
    assert server.info()["largeobj_transfers_running"] == 1
    assert lane.read() == [SIZE, crc32c(DATA)]
    assert pieces_landed(lane) == SIZE // CHUNK


def test_delays_before_rma_and_before_the_reply(server, lane):
    server.fault("delay-before-rma", 300)
    lane.send_get("v", [lane.region.triple()])
    wait_until(lambda: server.info()["largeobj_transfers_running"] == 1, "the GET to run")
    assert pieces_landed(lane) == 0
    assert lane.read() == [SIZE, crc32c(DATA)]
    lane.region.view[:] = bytes(SIZE)
    server.fault("delay-before-reply", 300)
    started = time.monotonic()
    lane.send_get("v", [lane.region.triple()])
    wait_until(lambda: pieces_landed(lane) == SIZE // CHUNK, "all pieces")
    assert lane.read() == [SIZE, crc32c(DATA)]
    assert time.monotonic() - started >= 0.3
    works(lane)


def test_a_wrong_checksum_in_the_reply(server, lane):
    server.fault("wrong-crc")
    assert lane.get("v", [lane.region.triple()]) == [SIZE, crc32c(DATA) ^ 0xFFFFFFFF]
    server.fault("wrong-crc", 5)
    assert lane.get("v", [lane.region.triple()]) == [SIZE, 5]
    works(lane)


GET_SHAPES = {"null": None, "integer": SIZE, "one-element": [SIZE], "three-elements": [SIZE, crc32c(DATA), 0], "empty-array": [],
              "negative-count": [-1, crc32c(DATA)], "crc-too-big": [SIZE, 1 << 32], "too-long": [SIZE + 1, crc32c(DATA)], "ok": Status("OK"),
              "queued": Status("QUEUED")}
SET_SHAPES = {"null": None, "integer": SIZE, "one-element": [SIZE], "three-elements": [SIZE, 0, 0], "empty-array": [],
              "lower-case-ok": Status("ok"), "queued": Status("QUEUED")}


@pytest.mark.parametrize("shape", GET_SHAPES)
def test_get_replies_of_every_shape(server, lane, shape):
    server.fault("reply", shape)
    assert lane.get("v", [lane.region.triple()]) == GET_SHAPES[shape]
    assert lane.region.view == DATA
    works(lane)


@pytest.mark.parametrize("shape", SET_SHAPES)
def test_set_replies_of_every_shape(server, lane, shape):
    lane.region.view[:] = DATA
    server.fault("reply", shape, "ON", "RDMA_SET")
    assert lane.set("stored", [lane.region.triple()], SIZE) == SET_SHAPES[shape]
    assert server.admin.call("BLOB.TCP_GET", "stored") == DATA


@pytest.mark.parametrize("protocol", [2, 3])
def test_an_unreadable_reply(server, lane, protocol):
    server.fault("reply", "unreadable")
    lane.send_get("v", [lane.region.triple()])
    with pytest.raises(ValueError):
        lane.read()


@pytest.mark.parametrize("shape, check", [
    ("empty-array", lambda reply, good: reply == []),
    ("null", lambda reply, good: reply is None),
    ("integer", lambda reply, good: reply == 2),
    ("ok", lambda reply, good: reply == "OK"),
    ("queued", lambda reply, good: reply == "QUEUED"),
    ("odd-hex", lambda reply, good: reply == [good[0], good[1][:-1]]),
    ("not-hex", lambda reply, good: reply == [good[0], b"x" + good[1][1:]]),
    ("other-family", lambda reply, good: reply[0] == good[0] and len(reply[1]) == 56 and reply[1][:2] == b"0a"),
    ("short-address", lambda reply, good: reply == [good[0], good[1][:16]]),
])
def test_hello_replies_of_every_shape_leave_a_session_behind(server, shape, check):
    good = server.resp().call("BLOB.RDMA_HELLO", LOOPBACK)
    resp = server.resp()
    server.fault("reply", shape, "ON", "BLOB.RDMA_HELLO")
    assert check(resp.call("BLOB.RDMA_HELLO", LOOPBACK), good)
    assert resp.call("BLOB.RDMA_HELLO", LOOPBACK) == Error("ERR RDMA session already established")


FIXED = [
    ("oom", "RDMA_SET", "OOM command not allowed when used memory > 'maxmemory'."),
    ("disk-oom", "TCP_SET", "OOM command not allowed when used disk space > 'disk-maxmemory'."),
    ("staging", "RDMA_GET", "ERR disk staging buffer pool exhausted; retry later"),
    ("no-fabric", "RDMA_HELLO", "ERR RDMA provider unavailable on this instance"),
    ("session-exists", "RDMA_HELLO", "ERR RDMA session already established"),
    ("no-session", "RDMA_GET", "ERR no RDMA session (call BLOB.RDMA_HELLO first)"),
    ("unknown-command", "RDMA_HELLO", "ERR unknown command 'BLOB.RDMA_HELLO', with args beginning with: "),
    ("noperm", "RDMA_SET", "NOPERM User default has no permissions to run the 'blob.rdma_set' command"),
    ("readonly", "RDMA_HELLO", "READONLY You can't write against a read only replica."),
    ("loading", "TCP_GET", "LOADING Valkey is loading the dataset in memory"),
    ("moved 7 127.0.0.1:9", "RDMA_GET", "MOVED 7 127.0.0.1:9"),
    ("ask 7 127.0.0.1:9", "RDMA_SET", "ASK 7 127.0.0.1:9"),
    ("clusterdown", "RDMA_HELLO", "CLUSTERDOWN The cluster is down"),
    ("masterdown", "RDMA_GET", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
    ("tryagain", "INFO", "TRYAGAIN Multiple keys request during rehashing of slot"),
]


@pytest.mark.parametrize("fault, command, text", FIXED, ids=[row[0] for row in FIXED])
def test_errors_instead_of_work(server, lane, fault, command, text):
    words = {"RDMA_HELLO": [LOOPBACK], "RDMA_GET": ["v", *lane.region.triple()], "RDMA_SET": ["v", 5, *lane.region.triple()], "TCP_GET": ["v"],
             "TCP_SET": ["v", "x"], "INFO": ["v"]}[command]
    server.fault(*fault.split(), "ON", command)
    assert lane.call(f"BLOB.{command}", *words) == Error(text)
    works(lane)


def test_any_error_text(server, lane):
    server.fault("error", "CODE something else", "ON", "RDMA_GET", "COUNT", 2)
    for _ in range(2):
        assert lane.get("v", [lane.region.triple()]) == Error("CODE something else")
    works(lane)
    assert server.admin.call("LARGEOBJ.FAULT", "SET", "error", "a\r\nb").startswith("ERR usage")


def test_a_length_that_is_announced_too_small(server, lane):
    server.fault("info-len", 100)
    assert lane.call("BLOB.INFO", "v", "LEN") == 100
    assert lane.get("v", [lane.region.triple(0, 100)]) == Error("ERR client address space smaller than object length")
    assert lane.call("BLOB.INFO", "v", "LEN") == SIZE


@pytest.mark.parametrize("command", ["RDMA_HELLO", "RDMA_GET", "RDMA_SET", "TCP_GET", "TCP_SET", "INFO"])
@pytest.mark.parametrize("fault", ["never-run", "never-answer", "drop"])
def test_a_command_without_an_answer(server, lane, fault, command):
    target = server.resp() if command == "RDMA_HELLO" else lane
    words = {"RDMA_HELLO": [LOOPBACK], "RDMA_GET": ["v", *lane.region.triple()], "RDMA_SET": ["s", SIZE, *lane.region.triple()], "TCP_GET": ["v"],
             "TCP_SET": ["s", "x"], "INFO": ["v"]}[command]
    sessions = server.info()["largeobj_rdma_sessions"]
    server.fault(fault, "ON", command)
    target.send(f"BLOB.{command}", *words)
    if fault == "drop":
        with pytest.raises(ConnectionError):
            target.read()
    else:
        wait_until(lambda: server.info()["largeobj_faults_armed"] == 0, "the command to arrive")
    ran = fault != "never-run"
    if command == "RDMA_HELLO" and fault == "never-answer":
        assert server.info()["largeobj_rdma_sessions"] == sessions + 1
    if command == "RDMA_GET" and ran:
        wait_until(lambda: pieces_landed(lane) == SIZE // CHUNK, "the bytes")
    if command.endswith("SET") and ran:
        wait_until(lambda: server.admin.call("EXISTS", "s") == 1, "the SET to commit")
    if not ran:
        assert pieces_landed(lane) == 0 and server.admin.call("EXISTS", "s") == 0
    blocked = server.admin.info("clients")["blocked_clients"]
    assert blocked == (0 if fault == "drop" else 1)
    target.close()
    wait_until(lambda: server.admin.info("clients")["blocked_clients"] == 0, "the blocked client to be released")


def test_a_spoilt_address_vector_refuses_everybody_for_good(make_server):
    server = make_server()
    text = "ERR session create: service 1: fabric error: fi_av_insert inserted -22 of 1 addresses"
    server.fault("spoil-av", 1)
    for _ in range(3):
        assert server.resp().call("BLOB.RDMA_HELLO", LOOPBACK) == Error(text)
    assert server.info()["largeobj_rdma_sessions"] == 0


def test_faults_are_for_one_key_one_command_and_a_number_of_times(server, lane):
    call = server.admin.call
    call("BLOB.TCP_SET", "w", DATA)
    server.fault("error", "ERR only w", "KEY", "w", "COUNT", 0)
    server.fault("wrong-crc", 1, "COUNT", 2)
    assert call("LARGEOBJ.FAULT", "LIST") == [
        b"error ERR only w ON BLOB.RDMA_HELLO,BLOB.RDMA_GET,BLOB.RDMA_SET,BLOB.TCP_GET,BLOB.TCP_SET,BLOB.INFO KEY w COUNT 0",
        b"wrong-crc 1 ON BLOB.RDMA_GET COUNT 2"]
    for _ in range(2):
        assert call("BLOB.TCP_GET", "w") == Error("ERR only w")
        assert lane.get("v", [lane.region.triple()]) == [SIZE, 1]
    works(lane)
    assert call("LARGEOBJ.FAULT", "CLEAR", "error") == 1
    assert call("BLOB.TCP_GET", "w") == DATA
    assert call("LARGEOBJ.FAULT", "CLEAR") == 0


def test_two_faults_can_meet_in_one_command(server, lane):
    server.fault("delay-before-reply", 50)
    server.fault("wrong-crc", 9)
    assert lane.get("v", [lane.region.triple()]) == [SIZE, 9]
    works(lane)


@pytest.mark.parametrize("words, text", [
    (("SET", "nonsense"), "ERR unknown fault 'nonsense'; see LARGEOBJ.FAULT HELP"),
    (("SET", "fail-after"), "ERR usage: fail-after pieces"),
    (("SET", "fail-after", "x"), "ERR usage: fail-after pieces"),
    (("SET", "oom", "ON", "RDMA_GET"), "ERR fault oom cannot be ON RDMA_GET"),
    (("SET", "oom", "COUNT", "x"), "ERR COUNT must be a number; 0 means until it is cleared"),
    (("SET", "oom", "COUNT"), "ERR options are ON command, KEY key and COUNT n"),
    (("DANCE",), "ERR usage: LARGEOBJ.FAULT SET fault [argument ...] [ON command] [KEY key] [COUNT n] | CLEAR [fault] | LIST | HELP"),
])
def test_a_fault_that_cannot_be_is_refused(server, words, text):
    assert server.admin.call("LARGEOBJ.FAULT", *words) == Error(text)
    assert server.admin.call("LARGEOBJ.FAULT", "LIST") == []


def test_an_unknown_shape_names_those_there_are(server):
    assert "shapes: null, integer, one-element" in server.admin.call("LARGEOBJ.FAULT", "SET", "reply", "round")


def test_the_readme_lists_every_fault_setting_and_shape(server):
    text = (HERE.parent / "README.md").read_text()
    for line in server.admin.call("LARGEOBJ.FAULT", "HELP"):
        assert f"`{re.match('[a-z-]+', line.decode())[0]}" in text, line
    for name in server.admin.call("CONFIG", "GET", "largeobj.*")[::2]:
        assert f"`{name.decode().removeprefix('largeobj.')}`" in text, name
    shapes = server.admin.call("LARGEOBJ.FAULT", "SET", "reply", "round").partition("shapes: ")[2].split(", ")
    assert all(f"`{shape}`" in text for shape in shapes)
    for field in server.info():
        if not re.search(r"_\d+$", field):
            assert field.removeprefix("largeobj_") in text, field
