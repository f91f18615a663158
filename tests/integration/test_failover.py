"""The server of a name becomes another one: what stays read-only is left (R46), and a primary that sentinels name is followed."""

import contextlib
import json
import pathlib
import random
import socket
import subprocess

import pytest
import redis
from running_stack import PATIENCE, wait_until

VALUE = random.Random(7).randbytes(1 << 20)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def stacks_command(stack):
    return (stack.dir / "server.command").read_text().split("\0")


def certificate(stack):
    """(authority, certificate, key) of a stack with TLS."""
    return [stack.dir / "tls" / name for name in ("ca.crt", "server.crt", "server.key")]


@contextlib.contextmanager
def running(command, log):
    """A program of the test's own; ended by its pid."""
    with open(log, "ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def second_server(stack, port, *more, tls_port=None):
    """Like the stack's, on other ports, in a folder of its own."""
    folder = stack.dir / "second"
    folder.mkdir()
    command = stacks_command(stack)
    command[command.index("--port") + 1] = str(port)
    if tls_port:
        command[command.index("--tls-port") + 1] = str(tls_port)
    command[command.index("--dir") + 1] = str(folder)
    with running([*command, *more], stack.dir / "second.log"), redis.Redis(port=port, socket_timeout=PATIENCE) as client:
        wait_until(lambda: answers(client), "the second server to answer")
        yield client


def answers(client):
    try:
        return client.ping()
    except redis.ConnectionError:
        return False


def test_R46_a_server_that_became_a_replica_is_left_for_the_one_that_has_its_address_now(make_stack):
    stack = make_stack(module=False, config={"workers": 1})
    address, other, spare = stack.valkey_port, free_port(), free_port()
    with stack.wire() as one, second_server(stack, other) as second:
        first = stack.direct()
        assert one.call("SET", "k", 1) == b"OK"
        assert one.call("EVAL", "return redis.error_reply('READONLY as a script says it')", 0).startswith("READONLY")
        assert one.call("SET", "big", b"-READONLY" * 50_000) == b"OK" and one.call("GET", "big") == b"-READONLY" * 50_000
        assert stack.metrics().total("upstream_moves_total", reason="readonly") == 0, "neither speaks of the server"
        made = first.info("stats")["total_connections_received"]
        first.execute_command("REPLICAOF", "127.0.0.1", other)
        replies = []

        def refused():
            replies.append(one.call("SET", "k", 2))
            return isinstance(replies[-1], str)

        # Read-only for good: it is dialled again once, not for each such answer.
        wait_until(refused, "the server to be a replica", lambda: replies)
        assert replies[-1].startswith("READONLY")
        for _ in range(50):
            assert one.call("SET", "k", 2).startswith("READONLY")
        rounds = stack.metrics().total("upstream_moves_total", reason="readonly")
        assert rounds < 10, "each of fifty answers made new connections"
        assert made < first.info("stats")["total_connections_received"] <= made + 8 * rounds
        first.config_set("port", spare)
        second.config_set("port", address)
        # The second one stays a primary, and the connections to the first stand.
        wait_until(lambda: one.call("SET", "k", 3) == b"OK", "the one that has the address now to be written to")
        with redis.Redis(port=address) as now:
            assert now.get("k") == b"3"
        assert stack.metrics().total("upstream_moves_total", reason="readonly") >= 1
        assert "answered READONLY" in stack.log()


@contextlib.contextmanager
def sentinel(stack, port, password, primary, tls):
    """One that listens by TLS alone if `tls`, and reaches the servers so."""
    folder = stack.dir / "sentinel"
    folder.mkdir()
    config = folder / "sentinel.conf"
    lines = [f"port {port}"]
    options = {"port": port, "password": password, "socket_timeout": PATIENCE}
    if tls:
        authority, own, key = certificate(stack)
        lines = ["port 0", f"tls-port {port}", "tls-replication yes", "tls-auth-clients no", f"tls-ca-cert-file {authority}", f"tls-cert-file {own}", f"tls-key-file {key}"]
        options |= {"ssl": True, "ssl_ca_certs": str(authority)}
    lines += ["bind 127.0.0.1", f"dir {folder}", f"requirepass {password}", f"sentinel monitor main 127.0.0.1 {primary} 1",
              "sentinel down-after-milliseconds main 60000", "sentinel failover-timeout main 3000"]
    config.write_text("\n".join(lines) + "\n")
    program = pathlib.Path(stacks_command(stack)[0])
    with running([program, config, "--sentinel"], stack.dir / "sentinel.log"), redis.Redis(**options) as client:
        wait_until(lambda: answers(client), "the sentinel to answer")
        client.execute_command("SENTINEL", "DEBUG", "info-period", 200, "ping-period", 200)
        yield client


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_the_primary_that_sentinels_name_is_found_and_followed_by_all_connections(make_stack, tls):
    """By TLS there is no other way to the sentinel, and the servers tell it their ports for TLS."""
    stack = make_stack(tls=tls, config={"workers": 1, "pool": {"size": "64MiB"}})
    other, port = free_port(), free_port()
    if tls:
        command = stacks_command(stack)
        primary, successor = int(command[command.index("--tls-port") + 1]), free_port()
        stack.direct_info_client.config_set("tls-replication", "yes")
        more, ports = ["--tls-replication", "yes"], {"tls_port": successor}
    else:
        primary, successor, more, ports = stack.valkey_port, other, [], {}
    with second_server(stack, other, "--replicaof", "127.0.0.1", str(primary), "--repl-diskless-sync-delay", "0", *more, **ports) as second:
        wait_until(lambda: second.info("replication")["master_link_status"] == "up", "the replica to be in step")
        with sentinel(stack, port, "watch", primary, tls) as asked:
            password = stack.dir / "sentinel.password"
            password.write_text("watch\n")
            upstream = {
                "mode": "sentinel", "master": "main", "sentinels": [f"127.0.0.1:{free_port()}", f"127.0.0.1:{port}"], "sentinel_password_file": str(password),
            }
            config, given = stack.dir / "keyferry.yaml", f"upstream:\n  nodes:\n  - 127.0.0.1:{primary}\n"
            if tls:
                authority = str(certificate(stack)[0])
                upstream["tls"] = {"ca": authority}
                given += f"  tls:\n    ca: {authority}\n"
            assert given in config.read_text()
            config.write_text(config.read_text().replace(given, f"upstream: {json.dumps(upstream)}\n"))
            stack.stop_keyferry()
            stack.start_keyferry()
            page = json.loads(stack.http("/status.json")[1])
            assert (page["node"], page["primary"]) == ("main", f"127.0.0.1:{primary}")
            with stack.wire() as one, stack.wire(protocol=3) as three:
                assert one.call("SET", "k", 1) == three.call("SET", "l", 1) == b"OK"
                assert (one.call("MULTI"), one.call("INCR", "k"), one.call("EXEC")) == (b"OK", b"QUEUED", [2])
                wait_until(lambda: second.get("k") == b"2", "the replica to have it")

                def begun():
                    with contextlib.suppress(redis.ResponseError):  # the sentinel has not asked the replica yet
                        return asked.execute_command("SENTINEL", "FAILOVER", "main")

                wait_until(begun, "the failover to begin")
                wait_until(lambda: second.info("replication")["role"] == "master", "the replica to be the primary")
                replies = []
                for client in (one, three):

                    def written(client=client):
                        replies.append(client.call("SET", "k", 7))
                        return replies[-1] == b"OK" and second.get("k") == b"7"

                    wait_until(written, "the new primary to be written to", lambda: replies[-5:])
                    second.delete("k")
                assert (one.call("MULTI"), one.call("SET", "pinned", 1), one.call("EXEC")) == (b"OK", b"QUEUED", [b"OK"])
                assert one.call("SET", "bulk", VALUE) == b"OK"
                assert (second.get("pinned"), second.get("bulk")) == (b"1", VALUE)
                before = stack.metrics().total("transfers_total", path="rdma", outcome="ok")

                def by_a_lane():
                    assert one.call("BLOB.TCP_SET", "large", VALUE) == b"OK"
                    return stack.metrics().total("transfers_total", path="rdma", outcome="ok") > before

                wait_until(by_a_lane, "a lane to the new primary", stack.log)
                assert one.call("BLOB.TCP_GET", "large") == VALUE
                assert second.exists("large") == 1
            assert json.loads(stack.http("/status.json")[1])["primary"] == f"127.0.0.1:{successor}"
            assert stack.metrics().total("upstream_moves_total", reason="sentinel") >= 1
            assert f"the primary of main is 127.0.0.1:{successor}" in stack.log()
