"""Users and databases: large values travel by lanes of their own, and nothing of one identity reaches another (R54)."""

import json

import pytest
from ways import KIB, MIB, Travelled, reasons
from wire import Pattern, request

pytestmark = pytest.mark.stack(config={"transfer": {"lanes": 3, "offload": ["off:"]}, "pool": {"size": "64MiB", "region": "1MiB"}, "limits": {"value_max": "32MiB"}})

LARGE = 5 * MIB + 3


@pytest.fixture(scope="module", autouse=True)
def users(stack):
    admin = stack.direct_info_client
    admin.execute_command("ACL", "SETUSER", "ann", "on", ">secret", "~ann:*", "~both:*", "~off:ann:*", "+@all")
    admin.execute_command("ACL", "SETUSER", "bob", "on", ">hidden", "~bob:*", "~both:*", "+@all", "-blob.rdma_hello")


def lanes(stack):
    return json.loads(stack.http("/status.json")[1])["lanes"]


def signed_in(stack, user, password, **options):
    wire = stack.wire(**options)
    assert wire.call("AUTH", user, password) == b"OK"
    return wire


def stored(wire, key, value, command="BLOB.TCP_SET"):
    wire.send_value(command, key, value)
    return wire.reply()


def test_R54_a_users_large_values_travel_by_its_own_lanes_and_with_its_own_rights(stack):
    travelled, value = Travelled(stack), Pattern(LARGE, 1)
    with signed_in(stack, "ann", "secret") as ann, stack.wire() as other:
        assert stored(ann, "ann:k", value) == b"OK"
        ann.send("BLOB.TCP_GET", "ann:k")
        assert ann.expect_value(value) is None
        since = travelled.since()
        assert (since["set", "rdma"], since["get", "rdma"], since["get", "tcp"]) == (1, 1, 0)
        assert "ann" in {lane["user"] for lane in lanes(stack)}
        # The server's own words, whichever way they came.
        assert stored(other, "elsewhere", value) == b"OK"
        with stack.wire(direct=True) as direct:
            assert direct.call("AUTH", "ann", "secret") == b"OK"
            refusal = direct.call("BLOB.TCP_GET", "elsewhere")
            assert refusal.startswith("NOPERM")
        for _ in range(2):
            assert ann.call("BLOB.TCP_GET", "elsewhere") == refusal
        assert stored(ann, "elsewhere", value).startswith("NOPERM")
        other.send("BLOB.TCP_GET", "elsewhere")
        assert other.expect_value(value) is None
    stack.wait_quiet()


def test_R54_a_reset_behind_a_large_command_makes_nobody_else_of_it(stack):
    with stack.wire() as other, signed_in(stack, "ann", "secret") as ann:
        assert stored(other, "not:hers", Pattern(LARGE, 4)) == b"OK"
        ann.raw(request("BLOB.TCP_GET", "not:hers") + request("RESET"))
        assert ann.reply().startswith("NOPERM")
        assert ann.reply() == b"RESET"
    stack.wait_quiet()


def test_R27_one_key_holds_another_large_value_in_each_database(stack):
    travelled, values = Travelled(stack), {database: Pattern(LARGE + database * 100 * KIB, database + 10) for database in (0, 3, 5)}
    wires = {database: stack.wire() for database in values}
    for database, wire in wires.items():
        assert wire.call("SELECT", database) == b"OK"
        assert stored(wire, "same", values[database]) == stored(wire, "off:same", values[database], "SET") == b"OK"
    # Each reads both again, all at a time.
    for _ in range(2):
        for wire in wires.values():
            wire.send("BLOB.TCP_GET", "same")
            wire.send("GET", "off:same")
        for database, wire in wires.items():
            assert wire.expect_value(values[database]) is None
            assert wire.expect_value(values[database]) is None
    since = travelled.since()
    assert (since["set", "tcp"], since["get", "tcp"]) == (0, 0)
    assert since["set", "rdma"] == 6
    assert len(lanes(stack)) <= 6  # three, and those that are being closed
    stack.wait_quiet()


def test_a_user_who_may_not_open_a_session_goes_by_tcp_and_nobody_else_does(stack):
    value = Pattern(LARGE, 2)
    with signed_in(stack, "bob", "hidden", unix=True) as bob, stack.wire() as other:
        before = reasons(stack).get(("rdma", "tcp", "noperm"), 0)
        assert stored(bob, "both:k", value) == b"OK"
        assert reasons(stack)["rdma", "tcp", "noperm"] == before + 1
        travelled = Travelled(stack)
        other.send("BLOB.TCP_GET", "both:k")
        assert other.expect_value(value) is None
        assert travelled.since()["get", "rdma"] == 1
    stack.wait_quiet()
