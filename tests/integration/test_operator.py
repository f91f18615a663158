"""What an operator sees and may do: stat clients, channels and slow, kill; and reads that are asked once more where that is configured."""

import json
import os
import pathlib
import subprocess
import time

import pytest
from running_stack import wait_until
from wire import Pattern, request

BUILD = pathlib.Path(os.environ.get("KEYFERRY_BUILD", pathlib.Path(__file__).resolve().parent.parent.parent / "build/release"))

pytestmark = pytest.mark.stack(
    module=False,
    config={"workers": 1, "upstream": {"retry_reads": True, "connections": 1}, "limits": {"pinned_short": 1, "pin_wait": "1m"}},
)


def tool(stack, *arguments):
    return subprocess.run([BUILD / "bin/keyferry", *map(str, arguments), "--admin", stack.admin], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def stat(stack, what):
    return json.loads(tool(stack, "stat", what, "--json").stdout)[what]


def test_each_client_and_the_connection_that_it_is_on_are_shown_and_one_can_be_ended(stack):
    with stack.wire() as plain, stack.wire(protocol=3) as held:
        ids = {client: client.call("CLIENT", "ID") for client in (plain, held)}
        assert (held.call("CLIENT", "SETNAME", "holder"), held.call("SELECT", 3), held.call("MULTI")) == (b"OK", b"OK", b"OK")
        assert plain.call("SET", "k", "v") == b"OK"
        clients = {row["id"]: row for row in stat(stack, "clients")}
        shown = clients[ids[held]]
        assert (shown["name"], shown["database"], shown["protocol"], shown["command"], shown["connection"]) == ("holder", 3, 3, "MULTI", "own")
        assert (clients[ids[plain]]["connection"], clients[ids[plain]]["command"], clients[ids[plain]]["owed"]) == ("shared", "SET", 0)
        channels = {row["server_id"]: row for row in stat(stack, "channels")}
        own, shared = channels[shown["server_id"]], channels[clients[ids[plain]]["server_id"]]
        assert (own["kind"], own["clients"], own["database"]) == ("own", [ids[held]], 3)
        assert (shared["kind"], shared["state"], shared["transport"], shared["user"]) == ("shared", "open", "tcp", "default")
        assert ids[plain] in shared["clients"]
        assert {own["server_id"], shared["server_id"]} <= {int(entry["id"]) for entry in stack.direct_info_client.client_list()}
        assert "holder" in tool(stack, "stat", "clients").stdout
        ended = tool(stack, "kill", f"id={ids[held]}")
        assert (ended.returncode, ended.stdout) == (0, f"client {ids[held]} has ended\n")
        with pytest.raises(EOFError):
            held.reply()
        assert tool(stack, "kill", f"id={ids[held]}").returncode == 1
        assert plain.call("GET", "k") == b"v"


def test_many_clients_come_by_pages_of_which_each_names_the_next(stack):
    wires = [stack.wire() for _ in range(7)]
    ids = [wire.call("CLIENT", "ID") for wire in wires]
    page, seen, pages = json.loads(stack.http(f"/clients.json?after={ids[0] - 1}&limit=3")[1]), [], 1
    while "after" in page:
        assert len(page["clients"]) == 3
        seen += page["clients"]
        page, pages = json.loads(stack.http(f"/clients.json?after={page['after']}&limit=3")[1]), pages + 1
    assert ([row["id"] for row in seen + page["clients"]], pages) == (ids, 3)
    assert stack.http("/clients.json?limit=0")[0] == 400
    assert stack.http(f"/channels.json?after={2**60}")[1] == '{"channels":[]}'
    for wire in wires:
        wire.close()


def test_a_lane_is_shown_with_the_client_that_it_serves(make_stack):
    stack = make_stack(config={"workers": 1, "pool": {"size": "64MiB"}})
    with stack.wire() as one:
        number = one.call("CLIENT", "ID")
        value = Pattern(4 << 20, seed=5)
        one.send_value("BLOB.TCP_SET", "large", value)
        assert one.reply() == b"OK"
        stack.fault("SET", "delay-before-rma", "3000", "ON", "BLOB.RDMA_GET", "KEY", "large", "COUNT", 1)
        one.send("BLOB.TCP_GET", "large")

        def lanes():
            return [row for row in stat(stack, "channels") if row["kind"] == "lane"]

        (lane,) = wait_until(lambda: [row for row in lanes() if row["clients"]], "a lane to be busy", lanes)
        assert (lane["clients"], lane["owed"], lane["user"]) == ([number], 1, "default")
        assert lane["server_id"] in {int(entry["id"]) for entry in stack.direct_info_client.client_list()}
        assert one.expect_value(value) is None
        wait_until(lambda: not any(row["clients"] for row in lanes()), "the lane to be idle", lanes)
    stack.wait_quiet()


def test_the_slow_log_tells_apart_what_a_command_waited_for(stack):
    def latest(client, command):
        return [row for row in stat(stack, "slow") if (row["client"], row["command"]) == (client, command)]

    with stack.wire() as one, stack.wire() as lazy:
        number, sleeper = one.call("CLIENT", "ID"), lazy.call("CLIENT", "ID")
        # The script waits for all that came before.
        one.raw(request("DEBUG", "SLEEP", "0.2") + request("EVAL", "return 1", 0))
        assert [one.reply(), one.reply()] == [b"OK", 1]
        (slept,), (waited,) = (wait_until(lambda command=command: latest(number, command), "the command to be shown") for command in ("DEBUG", "EVAL"))
        assert slept["upstream_ms"] >= 150 and slept["upstream_ms"] > slept["queue_ms"], slept
        assert waited["queue_ms"] >= 150 and waited["queue_ms"] > waited["upstream_ms"], waited
        assert one.call("SETRANGE", "big", 32 << 20, "x") == (32 << 20) + 1
        lazy.send("GET", "big")
        wait_until(lambda: any(row["id"] == sleeper and row["out_bytes"] > 100_000 for row in stat(stack, "clients")), "the reply to come")
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() - begun > 0.3, "some time to pass")
        assert len(lazy.reply()) == (32 << 20) + 1
        (row,) = wait_until(lambda: latest(sleeper, "GET"), "the reply to be taken")
        assert row["total_ms"] >= 250, row
        assert tool(stack, "stat", "slow").stdout.startswith("keyferryd\n\nslow\n  when")


def test_what_comes_together_with_the_end_of_a_large_value_waits_from_then_on(make_stack):
    stack = make_stack(config={"workers": 1, "pool": {"size": "64MiB"}})
    with stack.wire() as wire:
        number = wire.call("CLIENT", "ID")
        stack.fault("SET", "delay-before-rma", "400", "ON", "BLOB.RDMA_SET", "KEY", "behind", "COUNT", 1)
        value = Pattern(1 << 20, seed=1)
        wire.raw(b"*3\r\n" + request("BLOB.TCP_SET", "behind").removeprefix(b"*2\r\n") + b"$%d\r\n" % value.length)
        wire.raw(value.bytes() + b"\r\n" + request("EVAL", "return 1", 0))
        assert [wire.reply(), wire.reply()] == [b"OK", 1]
        rows = wait_until(lambda: [row for row in stat(stack, "slow") if row["client"] == number and row["command"] == "EVAL"], "the script to be shown", lambda: stat(stack, "slow"))
        assert rows[0]["queue_ms"] >= 200, rows
        # And the value goes by its own name, not by that of the command before.
        assert [row["command"] for row in stat(stack, "slow") if row["client"] == number] == ["EVAL", "BLOB.TCP_SET"], stat(stack, "slow")
    stack.wait_quiet()


def test_reads_in_flight_on_a_lost_connection_are_asked_once_more_if_no_write_is_behind_them(stack):
    admin = stack.direct_info_client
    with stack.wire() as one:
        assert one.call("SET", "k", "v") == b"OK"
        before = stack.metrics().total("read_retries_total")
        (channel,) = [row["server_id"] for row in stat(stack, "channels") if row["kind"] == "shared" and row["protocol"] == 2]
        admin.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            # The server holds the first, and so does not get to what follows on this connection.
            one.raw(request("INCR", "n") + request("GET", "k") + request("APPEND", "k", "x") + request("MGET", "k", "no") + request("GET", "k"))
            wait_until(lambda: any(int(entry["id"]) == channel and "b" in entry["flags"] for entry in admin.client_list()), "the write to be held")
            assert admin.client_kill_filter(_id=channel) == 1
            assert one.reply().endswith("the command may have run")
            assert one.reply().endswith("the command may have run"), "the APPEND behind it may have run"
            assert one.reply().endswith("the command may have run")
            assert (one.reply(), one.reply()) == ([b"v", None], b"v")
        finally:
            admin.execute_command("CLIENT", "UNPAUSE")
        assert one.call("GET", "n") is None and one.call("GET", "k") == b"v"
        assert stack.metrics().total("read_retries_total") == before + 2


def test_R134_a_request_that_waits_for_a_connection_is_the_oldest_one(stack):
    def oldest():
        return stack.metrics().total("oldest_request_seconds")

    with stack.wire() as holder, stack.wire() as waits:
        assert holder.call("MULTI") == b"OK"
        wait_until(lambda: oldest() == 0, "nothing to be waited for", oldest)
        waits.send("MULTI")
        wait_until(lambda: oldest() > 0, "the request that waits to be seen", oldest)
        assert holder.call("DISCARD") == b"OK"
        assert waits.reply() == b"OK"
        wait_until(lambda: oldest() == 0, "nothing to be waited for any more", oldest)
