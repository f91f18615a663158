"""What each command answers: replies, error texts, categories, settings. Transfers are in test_large_object_transfers.py."""

import pytest
from large_object_client import Endpoint, Error, Status, crc32c
from large_object_server import wait_until

LOOPBACK = "020000017f0000010000000000000000"  # well-formed; nobody listens there
NO_SESSION = "ERR no RDMA session (call BLOB.RDMA_HELLO first)"
WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"

VECTORS = [
    (b"123456789", 3808858755), (b"a", 3251651376), (bytes(32), 2324772522), (b"\xff" * 32, 1655221059), (bytes(range(32)), 1188919630),
    (bytes(range(31, -1, -1)), 289397596), (bytes(1 << 20), 338267154), (bytes((7 * i + 3) % 256 for i in range(1 << 20)), 1383381522),
]


@pytest.mark.parametrize("data, crc", VECTORS)
def test_checksums_are_crc32c(server, data, crc):
    assert crc32c(data) == crc
    assert server.admin.call("BLOB.TCP_SET", "v", data) == "OK"
    assert server.admin.call("BLOB.INFO", "v", "CRC") == crc


@pytest.mark.parametrize("protocol", [2, 3])
def test_info_has_name_value_pairs_and_single_fields(server, protocol):
    resp = server.resp(protocol)
    resp.call("BLOB.TCP_SET", "v", "123456789")
    assert resp.call("BLOB.INFO", "v") == [b"len", 9, b"crc", 3808858755, b"tier", "dram"]
    assert resp.call("BLOB.INFO", "v", "len") == 9
    assert resp.call("blob.info", "v", "TIER") == Status("dram")
    assert resp.call("BLOB.INFO", "v", "SIZE") == Error("ERR invalid information field")
    assert resp.call("BLOB.INFO", "missing") is None
    assert resp.call("BLOB.TCP_GET", "missing") is None


@pytest.mark.parametrize("size", [1, 100, 70_000, 5_000_000])
def test_tcp_commands_carry_any_bytes(server, size):
    data = bytes(i * 31 % 256 for i in range(size))
    resp = server.resp(3)
    assert resp.call("BLOB.TCP_SET", b"k\r\n\0", data) == "OK"
    assert resp.call("BLOB.TCP_GET", b"k\r\n\0") == data


def test_a_long_tcp_get_lets_the_server_answer_others(server):
    reader, other = server.resp(), server.resp()
    data = bytes(200 << 20)
    assert reader.call("BLOB.TCP_SET", "v", data) == "OK"
    reader.send("BLOB.TCP_GET", "v")
    assert other.call("PING") == "PONG"
    assert len(reader.read()) == len(data)


def test_core_commands_treat_it_as_a_key_of_its_own_type(server):
    call = server.admin.call
    call("BLOB.TCP_SET", "v", "123456789")
    assert call("TYPE", "v") == "largeob-k"
    assert call("EXISTS", "v") == 1
    assert call("SCAN", 0, "TYPE", "largeob-k")[1] == [b"v"]
    for command in (("GET", "v"), ("STRLEN", "v"), ("APPEND", "v", "x"), ("INCR", "v"), ("LPUSH", "v", "x")):
        assert call(*command) == WRONGTYPE
    assert call("MGET", "v") == [None]
    assert call("SET", "v", "x", "NX") is None
    assert call("EXPIRE", "v", 100) == 1 and call("TTL", "v") == 100
    assert call("BLOB.TCP_SET", "v", "again") == "OK" and call("TTL", "v") == -1
    assert call("MEMORY", "USAGE", "v") >= 5
    assert call("RENAME", "v", "w") == "OK" and call("BLOB.TCP_GET", "w") == b"again"
    assert call("COPY", "w", "copy") == 1 and call("DEL", "w") == 1
    assert call("BLOB.TCP_GET", "copy") == b"again"
    assert len(call("DEBUG", "DIGEST-VALUE", "copy")[0]) == 40
    assert call("SET", "copy", "plain") == "OK" and call("GET", "copy") == b"plain"
    assert call("PEXPIRE", "copy", 1) == 1
    wait_until(lambda: call("EXISTS", "copy") == 0, "the key to expire")
    wait_until(lambda: server.info()["largeobj_allocated_bytes"] == 0, "the memory to be given back")


def test_a_key_of_another_type_is_refused_and_left_alone(server):
    resp = server.resp()
    resp.call("BLOB.RDMA_HELLO", LOOPBACK)
    resp.call("SET", "s", "text")
    for command in (("BLOB.TCP_GET", "s"), ("BLOB.TCP_SET", "s", "x"), ("BLOB.INFO", "s"), ("BLOB.RDMA_GET", "s", 1, 0, 4),
                    ("BLOB.RDMA_SET", "s", 4, 1, 0, 4)):
        assert resp.call(*command) == Error(WRONGTYPE)
    assert resp.call("GET", "s") == b"text"


def test_databases_are_kept_apart(server):
    resp = server.resp()
    resp.call("SELECT", 3)
    resp.call("BLOB.TCP_SET", "v", "three")
    assert server.admin.call("BLOB.TCP_GET", "v") is None
    assert resp.call("BLOB.TCP_GET", "v") == b"three"


def test_wrong_arity_is_the_servers_own_text(server):
    for command in (("BLOB.RDMA_HELLO",), ("BLOB.RDMA_HELLO", "a", "b"), ("BLOB.RDMA_GET", "k"), ("BLOB.RDMA_SET", "k", 1), ("BLOB.TCP_GET",),
                    ("BLOB.TCP_SET", "k"), ("BLOB.INFO", "k", "LEN", "CRC"), ("LARGEOBJ.FAULT",)):
        assert server.admin.call(*command) == Error(f"ERR wrong number of arguments for '{command[0].lower()}' command"), command


@pytest.mark.parametrize("address, text", [
    ("0200", "ERR rdma address must be 16 or 28 bytes"),
    ("020", "ERR invalid rdma address hex"),
    ("zz" * 16, "ERR invalid rdma address hex"),
    ("", "ERR rdma address must not be empty"),
    ("ff" * 16, "ERR session create: service 0: fabric error: fi_av_insert inserted -22 of 1 addresses"),
    ("0a" + "00" * 27, "ERR session create: service 0: fabric error: fi_av_insert inserted -22 of 1 addresses"),
])
def test_a_bad_address_is_refused_and_spoils_nothing(server, address, text):
    resp = server.resp()
    assert resp.call("BLOB.RDMA_HELLO", address) == Error(text)
    reply = resp.call("BLOB.RDMA_HELLO", LOOPBACK.upper())
    assert len(reply) == 2 and all(text == text.lower() and bytes.fromhex(text.decode())[:2] == b"\x02\x00" for text in reply)


def test_one_hello_per_connection(server):
    resp = server.resp()
    sessions = server.info()["largeobj_efa_sessions"]
    resp.call("BLOB.RDMA_HELLO", LOOPBACK)
    assert resp.call("BLOB.RDMA_HELLO", LOOPBACK) == Error("ERR RDMA session already established")
    assert server.info()["largeobj_efa_sessions"] == server.info()["largeobj_rdma_sessions"] == sessions + 1
    assert resp.call("RESET") == "RESET"
    assert resp.call("BLOB.RDMA_HELLO", LOOPBACK) == Error("ERR RDMA session already established")
    resp.close()
    wait_until(lambda: server.info()["largeobj_efa_sessions"] == sessions, "the session to end with the connection")


TRIPLE_ERRORS = [
    ((1, 0), "ERR memory address args must be rkey, addr, len triples"),
    ((1, 0, 9, 1), "ERR memory address args must be rkey, addr, len triples"),
    ((1, 0, 9) * 257, "ERR too many memory addresses (max 256)"),
    (("x", 0, 9), "ERR invalid rkey"),
    (("-1", 0, 9), "ERR invalid rkey"),
    (("18446744073709551616", 0, 9), "ERR invalid rkey"),
    ((1, "0x0", 9), "ERR invalid memory address"),
    ((1, "", 9), "ERR invalid memory address"),
    ((1, 0, "9 "), "ERR invalid memory address len"),
    ((1, 0, 0), "ERR invalid memory address len"),
]


@pytest.mark.parametrize("words, text", TRIPLE_ERRORS)
def test_malformed_triples_have_the_documented_texts(server, words, text):
    resp = server.resp()
    resp.call("BLOB.RDMA_HELLO", LOOPBACK)
    resp.call("BLOB.TCP_SET", "v", "123456789")
    assert resp.call("BLOB.RDMA_GET", "v", *words) == Error(text)
    assert resp.call("BLOB.RDMA_SET", "v", 9, *words) == Error(text)
    assert resp.call("BLOB.RDMA_SET", "v", 9, "CRC", 1, *words) == Error(text)


@pytest.mark.parametrize("words, text", [
    (("x", 1, 0, 9), "ERR invalid len"),
    ((0, 1, 0, 9), "ERR object length must be > 0"),
    ((512 * 1024 * 1024 + 1, 1, 0, 1 << 40), "ERR max object size exceeded"),
    ((10, 1, 0, 9), "ERR client address space smaller than object length"),
    ((9, "CRC", "x", 1, 0, 9), "ERR invalid crc32c"),
    ((9, "crc", 1 << 32, 1, 0, 9), "ERR invalid crc32c"),
    ((9, "CRC", 1), "ERR memory address args must be rkey, addr, len triples"),
])
def test_set_errors(server, words, text):
    resp = server.resp()
    resp.call("BLOB.RDMA_HELLO", LOOPBACK)
    assert resp.call("BLOB.RDMA_SET", "v", *words) == Error(text)


def test_transfers_need_a_session_and_the_order_of_checks_can_be_changed(server):
    call = server.admin.call
    assert call("BLOB.RDMA_GET", "missing", 1, 0, 9) == Error(NO_SESSION)
    assert call("BLOB.RDMA_SET", "missing", 9, 1, 0, 9) == Error(NO_SESSION)
    assert call("CONFIG", "SET", "largeobj.check-order", "lookup-first") == "OK"
    assert call("BLOB.RDMA_GET", "missing", "x") is None
    call("BLOB.TCP_SET", "v", "123")
    assert call("BLOB.RDMA_GET", "v", "x", 1, 2) == Error("ERR invalid rkey")
    assert call("BLOB.RDMA_GET", "v", 1, 1, 2) == Error(NO_SESSION)
    assert call("CONFIG", "SET", "largeobj.check-order", "arguments-first") == "OK"
    assert call("BLOB.RDMA_GET", "missing", "x", 0, 9) == Error("ERR invalid rkey")


def test_an_older_dialect_without_crc_can_be_had(server):
    assert server.admin.call("CONFIG", "SET", "largeobj.accept-crc", "no") == "OK"
    assert server.admin.call("BLOB.RDMA_SET", "v", 9, "CRC", 1, 1, 0, 9) == Error("ERR memory address args must be rkey, addr, len triples")
    assert server.admin.call("CONFIG", "SET", "largeobj.accept-crc", "yes") == "OK"


def test_numbers_may_have_a_plus_and_leading_zeros(server):
    lane = server.lane()
    region = lane.register(9)
    key, address, length = region.triple()
    region.view[:] = b"123456789"
    assert lane.set("v", [[f"+{key:05}", f"{address:020}", "+9"]], "009", "03808858755") == "OK"


def test_limits_hold_for_both_ways(server):
    call = server.admin.call
    try:
        assert call("CONFIG", "SET", "largeobj.max-object-size", "1mb") == "OK"
        assert call("BLOB.TCP_SET", "v", bytes((1 << 20) + 1)) == Error("ERR max object size exceeded")
        assert call("BLOB.TCP_SET", "v", b"") == Error("ERR object length must be > 0")
        assert call("BLOB.TCP_SET", "v", bytes(1 << 20)) == "OK"
        assert call("CONFIG", "SET", "largeobj.dram-maxmemory", "1500kb") == "OK"
        oom = Error("OOM command not allowed when used memory > 'maxmemory'.")
        assert call("BLOB.TCP_SET", "w", bytes(1 << 20)) == oom
        lane = server.lane()
        region = lane.register(1 << 20)
        assert lane.set("w", [region.triple()], 1 << 20) == oom
        assert call("EXISTS", "w") == 0
        assert server.info()["largeobj_dram_pool_exhausted"] >= 2
    finally:
        call("CONFIG", "SET", "largeobj.max-object-size", "512mb", "largeobj.dram-maxmemory", "0")


def test_the_servers_own_memory_limit_refuses_sets(server):
    call = server.admin.call
    try:
        call("CONFIG", "SET", "maxmemory", 1)
        oom = Error("OOM command not allowed when used memory > 'maxmemory'.")
        assert call("BLOB.TCP_SET", "v", "x") == oom
        assert call("BLOB.RDMA_SET", "v", 9, 1, 0, 9) == oom
    finally:
        call("CONFIG", "SET", "maxmemory", 0)


def test_blocking_commands_are_denied_in_transactions_and_scripts(server):
    call = server.resp().call
    call("BLOB.RDMA_HELLO", LOOPBACK)
    call("BLOB.TCP_SET", "v", "123")
    commands = [("BLOB.RDMA_GET", "v", "1", "0", "9"), ("BLOB.RDMA_SET", "v", "9", "1", "0", "9"), ("BLOB.TCP_GET", "v"), ("BLOB.TCP_SET", "v", "x")]
    call("MULTI")
    for command in commands:
        assert call(*command) == "QUEUED"
    assert call("BLOB.INFO", "v", "LEN") == "QUEUED"
    assert call("EXEC") == [Error("ERR Blocking module command called from transaction")] * 4 + [3]
    for command in commands:
        reply = call("EVAL", "return server.call(unpack(ARGV))", 1, "v", *command)
        assert reply.startswith("ERR Blocking module command called from Lua script"), reply
    assert call("EVAL", "return server.call('BLOB.INFO', KEYS[1], 'LEN')", 1, "v") == 3
    assert call("BLOB.TCP_GET", "v") == b"123"


def test_watch_sees_a_store(server):
    first, second = server.resp(), server.resp()
    first.call("WATCH", "v")
    second.call("BLOB.TCP_SET", "v", "x")
    first.call("MULTI")
    first.call("PING")
    assert first.call("EXEC") is None


def test_acl_categories(server):
    call = server.admin.call
    expected = {"BLOB.RDMA_HELLO": {"connection"}, "BLOB.RDMA_GET": {"read"}, "BLOB.RDMA_SET": {"write"}, "BLOB.TCP_GET": {"read"},
                "BLOB.TCP_SET": {"write"}, "BLOB.INFO": {"read"}}
    assert {name.decode().upper() for name in call("ACL", "CAT", "largeobj")} == set(expected)
    for name, categories in expected.items():
        row = call("COMMAND", "INFO", name)[0]
        assert {category.lstrip("@") for category in row[6]} == categories | {"fast", "largeobj"}, name
        assert row[3:6] == ([0, 0, 0] if name == "BLOB.RDMA_HELLO" else [1, 1, 1])
    call("ACL", "SETUSER", "reader", "on", "nopass", "~mine*", "+@largeobj", "-@write")
    resp = server.resp()
    assert resp.call("AUTH", "reader", "x") == "OK"
    assert len(resp.call("BLOB.RDMA_HELLO", LOOPBACK)) == 2
    assert resp.call("BLOB.TCP_GET", "mine") is None
    assert resp.call("BLOB.TCP_GET", "other").startswith("NOPERM")
    assert resp.call("BLOB.TCP_SET", "mine", "x") == Error("NOPERM User reader has no permissions to run the 'blob.tcp_set' command")
    assert resp.call("LARGEOBJ.FAULT", "LIST").startswith("NOPERM")


def test_commands_are_counted_as_they_arrive(server):
    names = {"hello": "RDMA_HELLO", "rdma_get": "RDMA_GET", "rdma_set": "RDMA_SET", "tcp_get": "TCP_GET", "tcp_set": "TCP_SET", "info": "INFO"}
    fields = {"hello": "largeobj_cmd_rdma_hello", **{name: f"largeobj_cmd_{name}" for name in names if name != "hello"}}
    before = server.info()
    for name in names.values():
        server.admin.call(f"BLOB.{name}", "a", "b", "c")
    after = server.info()
    assert {name: after[field] - before[field] for name, field in fields.items()} == dict.fromkeys(names, 1)


def test_objects_survive_save_dump_and_a_rewritten_append_only_file(make_server):
    server = make_server(directives=["--appendonly", "yes", "--aof-use-rdb-preamble", "no"])
    call = server.admin.call
    data = bytes(range(256)) * 1000
    call("BLOB.TCP_SET", "v", data)
    assert call("SAVE") == "OK"
    dump = call("DUMP", "v")
    assert call("RESTORE", "restored", 0, dump) == "OK" and call("BLOB.TCP_GET", "restored") == data
    call("BGREWRITEAOF")
    wait_until(lambda: server.admin.info("persistence")["aof_rewrite_in_progress"] == 0, "the rewrite to end")
    assert server.admin.info("persistence")["aof_last_bgrewrite_status"] == "ok"
    assert call("DEBUG", "LOADAOF") == "OK"
    assert call("BLOB.TCP_GET", "v") == data and call("BLOB.INFO", "restored", "CRC") == crc32c(data)
    call("CONFIG", "SET", "appendonly", "no")
    assert call("DEBUG", "RELOAD") == "OK"
    assert call("BLOB.TCP_GET", "v") == data


@pytest.mark.parametrize("settings, reason", [
    ({"fabric-provider": "Off"}, "switched off"),
    ({"libfabric-path": "/nonexistent/libfabric.so.1"}, "cannot load libfabric: /nonexistent/libfabric.so.1"),
    ({"libfabric-path": "libc.so.6"}, "is not a libfabric"),
    ({"fabric-bind": "192.0.2.1"}, "fi_"),
    ({"fabric-interfaces": "nowhere0"}, 'no fabric domain named "nowhere0"; this host has '),
    ({"fabric-provider": "EfaDirect"}, "EfaDirect needs libfabric 2.x"),
])
def test_without_a_fabric_tcp_still_works(make_server, settings, reason):
    server = make_server(settings)
    assert reason in server.info()["largeobj_fabric_problem"]
    assert reason in server.log()
    call = server.admin.call
    assert call("BLOB.RDMA_HELLO", LOOPBACK) == Error("ERR RDMA provider unavailable on this instance")
    assert call("BLOB.RDMA_GET", "v", 1, 0, 9) == Error(NO_SESSION)
    assert call("BLOB.TCP_SET", "v", "x") == "OK" and call("BLOB.TCP_GET", "v") == b"x"


def test_the_library_may_come_from_the_environment(make_server):
    server = make_server(environment={"LARGEOBJ_LIBFABRIC": "/nonexistent/of/environment"})
    assert "/nonexistent/of/environment" in server.info()["largeobj_fabric_problem"]


@pytest.mark.parametrize("settings, services, family", [
    ({"fabric-services": "1"}, 1, 2),
    ({"fabric-services": "5"}, 5, 2),
    ({"fabric-interfaces": "lo"}, 2, 2),
    ({"fabric-interfaces": "lo", "fabric-services": "0"}, 1, 2),
    ({"fabric-bind": "::1"}, 2, 10),
])
def test_services_are_as_many_and_where_they_are_wanted(make_server, settings, services, family):
    server = make_server(settings)
    addresses = {server.info()[f"largeobj_fabric_address_{index}"] for index in range(services)}
    assert len(addresses) == services == server.info()["largeobj_fabric_services"]
    assert all(bytes.fromhex(address)[0] == family and len(address) == (32 if family == 2 else 56) for address in addresses)


@pytest.mark.parametrize("settings, complaint", [
    ({"chunk-size": "4095"}, "largeobj.chunk-size cannot be '4095': allowed are 4096 to 268435456"),
    ({"chunk-size": "much"}, "largeobj.chunk-size cannot be 'much'"),
    ({"fabric-provider": "Psm"}, "largeobj.fabric-provider cannot be 'Psm': allowed are Emulated, EfaDirect, Off, Verbs"),
    ({"shuffle": "maybe"}, "largeobj.shuffle cannot be 'maybe': allowed are yes and no"),
    ({"colour": "blue"}, "unknown setting 'colour'"),
])
def test_a_bad_setting_stops_the_server_with_one_message(make_server, settings, complaint):
    server = make_server(settings, must_start=False)
    assert not server.running
    assert complaint in server.log()


def test_directives_win_over_arguments(make_server):
    server = make_server({"chunk-size": "1mb"}, directives=["--largeobj.chunk-size", "2mb"])
    assert server.admin.call("CONFIG", "GET", "largeobj.chunk-size")[1] == b"2097152"
    assert server.admin.call("CONFIG", "SET", "largeobj.fabric-services", "3").startswith("ERR CONFIG SET failed")


def test_addresses_of_services_change_with_a_restart_and_objects_are_gone(make_server):
    server = make_server()
    endpoint = Endpoint()
    before = server.admin.call("BLOB.RDMA_HELLO", endpoint.address.hex())
    server.admin.call("BLOB.TCP_SET", "v", "x")
    assert server.stop() == 0
    server.start()
    assert server.admin.call("BLOB.RDMA_HELLO", endpoint.address.hex()) != before
    assert server.admin.call("EXISTS", "v") == 0
    endpoint.close()


def test_memory_of_removed_objects_is_kept_for_the_next_up_to_a_limit(make_server):
    server = make_server({"dram-reserve": "3mb"})
    call = server.admin.call
    for number in range(4):
        call("BLOB.TCP_SET", number, bytes([number]) * (1 << 20))
    assert server.info()["largeobj_reserved_bytes"] == 0
    call("FLUSHALL")
    wait_until(lambda: server.info()["largeobj_reserved_bytes"] == 3 << 20, "three of the four to be kept")
    data = bytes(range(256)) * 2560
    assert call("BLOB.TCP_SET", "smaller", data) == "OK"
    info = server.info()
    assert (info["largeobj_reserved_bytes"], info["largeobj_allocated_bytes"]) == (2 << 20, len(data))
    assert call("BLOB.TCP_GET", "smaller") == data
