"""What keyferryd does without RDMA: no module, a server without fabric, no fabric here, no libfabric. Never silent (promise 7, R67)."""

import pytest
from running_stack import wait_until
from ways import MIB, Travelled, every_way, reasons
from wire import ErrorReply, Pattern

VALUE = Pattern(5 * MIB + 1, seed=4)


def round_trip_by_tcp(stack, wire):
    travelled = Travelled(stack)
    wire.send_value("BLOB.TCP_SET", "key", VALUE)
    assert wire.reply() == b"OK"
    wire.send("BLOB.TCP_GET", "key")
    assert wire.expect_value(VALUE) is None
    wait_until(lambda: travelled.since()["set", "tcp"] == travelled.since()["get", "tcp"] == 1, "one transfer each way by TCP", travelled.since)
    assert travelled.since()["bytes", "set"] == travelled.since()["bytes", "get"] == 0


@pytest.mark.parametrize("stack", [{"module": False}], indirect=True, ids=["no-module"])
class TestServerWithoutTheModule:
    def test_large_object_commands_get_the_servers_own_error(self, stack):
        with stack.wire() as wire, stack.wire(direct=True) as direct:
            assert wire.call("BLOB.TCP_GET", "key") == direct.call("BLOB.TCP_GET", "key")
            for link in (wire, direct):
                link.send_value("BLOB.TCP_SET", "key", Pattern(1000))
            assert wire.reply() == direct.reply()

    def test_a_large_value_gets_one_error_and_the_connection_lives(self, stack):
        with stack.wire() as wire:
            wire.send_value("BLOB.TCP_SET", "key", VALUE)
            answer = wire.reply()
            assert isinstance(answer, ErrorReply) and "unknown command" in answer
            assert wire.call("ECHO", "x") == b"x"
        stack.wait_quiet()

    @every_way
    def test_ordinary_commands_pass(self, stack, unix, protocol):
        with stack.wire(unix=unix, protocol=protocol) as wire:
            assert wire.call("SET", "a", "1") == b"OK"
            assert wire.call("GET", "a") == b"1"


@pytest.mark.parametrize("stack", [{"module_args": "fabric-provider Off"}], indirect=True, ids=["server-off"])
def test_a_server_without_fabric_is_served_by_tcp_and_that_is_counted(stack):
    with stack.wire() as wire:
        round_trip_by_tcp(stack, wire)
    assert any(to == "tcp" for _, to, _ in reasons(stack)), reasons(stack)
    assert stack.metrics().total("transport_info", have="tcp", reason="server_no_fabric") == 1
    assert stack.http("/readyz")[0] == 200


@pytest.mark.parametrize(
    "stack",
    [{"config": {"fabric": {"provider": "off"}}}, {"config": {"fabric": {"provider": "auto", "library": "/nonexistent/libfabric.so.1"}}}],
    indirect=True,
    ids=["provider-off", "no-libfabric"],
)
def test_keyferryd_without_fabric_runs_on_tcp_and_says_so(stack):
    with stack.wire() as wire:
        round_trip_by_tcp(stack, wire)
    assert any(to == "tcp" for _, to, _ in reasons(stack)), reasons(stack)
    provider = stack.options.config["fabric"]["provider"]
    assert stack.metrics().total("transport_info", want=f"fabric-{provider}", have="tcp") == 1
