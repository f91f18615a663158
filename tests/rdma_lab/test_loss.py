"""What happens to commands over RDMA when a connection or the server goes, and how RDMA comes and goes in `auto`."""

import signal

from running_stack import wait_until
from wire import ErrorReply, request

COUNT = 3000


def increments(client, count):
    """Sends that many INCRs of one key; each reply, or what stands for it."""
    client.raw(b"".join(request("INCR", "counter") for _ in range(count)))
    return [client.reply() for _ in range(count)]


def check_increments(replies, stored):
    """No reply lost, doubled or crossed: what was answered is in order, the rest is an error that says it may have run."""
    answered = [reply for reply in replies if isinstance(reply, int)]
    errors = [reply for reply in replies if isinstance(reply, ErrorReply)]
    assert len(answered) + len(errors) == len(replies)
    assert answered == sorted(set(answered))
    assert len(answered) <= stored <= len(replies)
    return errors


def open_channels(lab):
    """(by TCP, by RDMA), as they were at the worker's last look: both or neither say how it is since then."""
    metrics = lab.metrics()
    return tuple(metrics.total("upstream_connections", transport=transport, state="open") for transport in ("tcp", "rdma"))


def check_nothing_is_left(lab):
    """What there is belongs to the shared channels that stand: a queue pair, a completion queue and two registrations each."""
    def own():
        return [lab.own(kind) for kind in ("qp", "cq", "mr")]

    wait_until(lambda: own() in ([1, 1, 2], [2, 2, 4]), "the dead connections' objects to go", own)


def test_R66_auto_falls_to_tcp_and_returns_by_itself(lab):
    lab.start_server()
    lab.start_gateway(transport="auto")
    assert lab.transport() == ("rdma", "configured")
    client = lab.client()
    assert increments(client, 10) == list(range(1, 11))

    lab.server.end(signal.SIGKILL)
    lab.start_server(rdma=False)
    wait_until(lambda: lab.client().call("PING") == b"PONG", "the gateway to reach the server again")
    wait_until(lambda: lab.transport()[0] == "tcp", "transport_info to say tcp", lab.transport)
    # A dial that was in the dying server's queue is turned away; the probe after it finds nobody.
    wait_until(lambda: "nobody listens for RDMA on this port" in lab.transport()[1], "the reason to be that nobody listens", lab.transport)
    assert lab.metrics().total("fallback_total", **{"from": "ordinary-rdma", "to": "ordinary-tcp"}) == 1
    wait_until(lambda: lab.crossed("tcp") > 0, "bytes to be counted for TCP")
    assert lab.gateway.log().count("travel without rdma") == 1

    lab.server.end(signal.SIGKILL)
    lab.start_server()
    wait_until(lambda: lab.transport() == ("rdma", "configured"), "the gateway to come back to RDMA", lab.transport)
    client = lab.client()
    assert increments(client, 10) == list(range(1, 11))
    wait_until(lambda: open_channels(lab) == (0, 1), "the TCP channels to be retired", lambda: open_channels(lab))
    before = lab.crossed("tcp"), lab.crossed("rdma")
    assert increments(client, 100) == list(range(11, 111))
    wait_until(lambda: lab.crossed("rdma") > before[1], "the bytes to be counted for RDMA")
    assert lab.crossed("tcp") == before[0]


def test_R59_R60_a_server_version_with_known_faults_gets_tcp_for_everything_until_it_is_upgraded(lab):
    lab.start_server(version="9.0.2")
    lab.start_gateway(transport="auto")
    wait_until(lambda: lab.transport()[0] == "tcp", "the version to be seen", lab.transport)
    assert "Valkey 9.0.2 hangs or crashes over RDMA with I/O threads" in lab.transport()[1]
    assert lab.gateway.log().count("travel without rdma: Valkey 9.0.2") == 1
    client = lab.client()
    assert increments(client, 10) == list(range(1, 11))
    wait_until(lambda: open_channels(lab)[0] > 0 and open_channels(lab)[1] == 0, "the channels over RDMA to be retired", lambda: open_channels(lab))
    before = lab.crossed("rdma")
    assert increments(client, 100) == list(range(11, 111))
    # A transaction has a connection of its own.
    assert [client.call("MULTI"), client.call("INCR", "counter"), client.call("EXEC")] == [b"OK", b"QUEUED", [111]]
    wait_until(lambda: lab.crossed("tcp") > 1000, "the bytes to be counted for TCP")
    assert lab.crossed("rdma") == before

    lab.server.end(signal.SIGKILL)
    lab.start_server()
    wait_until(lambda: lab.transport() == ("rdma", "configured"), "the newer server to be found", lab.transport)


def test_client_kill_loses_doubles_and_crosses_no_reply(lab):
    lab.start_server()
    lab.start_gateway(transport="rdma", require=True)
    client, direct = lab.client(), lab.direct()
    for _ in range(3):
        direct.call("DEL", "counter")
        client.raw(b"".join(request("INCR", "counter") for _ in range(COUNT)))
        assert direct.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") >= 1
        replies = [client.reply() for _ in range(COUNT)]
        check_increments(replies, int(direct.call("GET", "counter") or 0))
    wait_until(lambda: client.call("PING") == b"PONG", "the gateway to reach the server again")
    assert lab.transport()[0] == "rdma"


def test_a_server_killed_and_restarted_under_load(lab):
    lab.start_server()
    lab.start_gateway(transport="rdma", require=True)
    client, busy = lab.client(), lab.client()
    assert increments(client, COUNT) == list(range(1, COUNT + 1))
    busy.send("DEBUG", "SLEEP", 600)
    client.raw(b"".join(request("INCR", "counter") for _ in range(COUNT)))
    wait_until(lambda: lab.metrics().total("oldest_request_seconds") > 1, "commands to wait")
    lab.server.end(signal.SIGKILL)
    replies = [client.reply() for _ in range(COUNT)]
    assert check_increments(replies, COUNT) == replies
    assert isinstance(busy.reply(), ErrorReply)
    lab.start_server()
    wait_until(lambda: lab.client().call("PING") == b"PONG", "the gateway to reach the server again")
    wait_until(lambda: lab.transport() == ("rdma", "configured"), "transport_info to say so", lab.transport)
    # The dead connections' queue pairs are gone, the new ones are those of the shared channels.
    check_nothing_is_left(lab)


def test_R67_required_rdma_that_nobody_offers_fails_the_start_and_says_why(lab):
    lab.start_server(rdma=False)
    gateway = lab.start_gateway(wait=False, transport="rdma", require=True)
    assert gateway.end(0) != 0
    assert "upstream.require is true, but" in gateway.log()
    assert "nobody listens for RDMA on this port" in gateway.log()


def test_a_refusal_without_a_text_is_named_by_its_signs(lab):
    lab.start_server("--maxclients", 1)
    # The connection that found the server listening may still count.
    wait_until(lambda: lab.direct().call("PING") == b"PONG", "to be the only client")
    gateway = lab.start_gateway(wait=False, transport="rdma", require=True)
    assert gateway.process.wait(120) != 0
    assert "maxclients" in gateway.log()


def test_R64_an_idle_channel_is_asked_PING_and_a_server_too_busy_to_answer_keeps_it(lab):
    lab.start_server()
    lab.start_gateway(transport="rdma", require=True, connections=1, limits={"upstream_wait": "5s"})
    client, direct = lab.client(), lab.direct()

    def channel():
        """Of the connection that the value came by."""
        return [line.split()[0] for line in direct.call("CLIENT", "LIST").splitlines() if b" cmd=set " in line]

    assert client.call("SET", "key", "value") == b"OK"
    before = channel()
    assert len(before) == 1
    direct.call("CONFIG", "RESETSTAT")
    # PING comes after 5 s or 6, and has no answer for longer than a connection may take to come about.
    assert direct.call("DEBUG", "SLEEP", 14) == b"OK"
    wait_until(lambda: b"cmdstat_ping" in direct.call("INFO", "commandstats"), "the idle channel's PING")
    assert before[0] in [line.split()[0] for line in direct.call("CLIENT", "LIST").splitlines()]
    assert client.call("SET", "key", "value") == b"OK"
    assert channel() == before
