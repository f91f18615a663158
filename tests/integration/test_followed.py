"""Subscribers, monitors and clients that get no replies are followed like all others, and what is carried byte for byte ends nobody that it may not (R7, R10, R13, R15, R22)."""

import os
import tempfile

import pytest
from running_stack import Clients, wait_until
from wire import ended, request

DEDICATED = f"{tempfile.gettempdir()}/keyferry-followed-{os.getpid()}.sock"

pytestmark = pytest.mark.stack(module=False, config={"workers": 2, "listen": [{"unix": DEDICATED, "upstream": "dedicated"}]})


@pytest.fixture
def clients(stack):
    stack.direct_info_client.flushall()
    made = Clients(stack)
    yield made
    made.close()
    wait_until(lambda: not named(stack), "no connection to be left with a client", lambda: named(stack))


def named(stack):
    """Connections that clients of these tests have for themselves."""
    return {entry["id"] for entry in stack.direct_info_client.client_list() if entry["name"].startswith("mine")}


def replies(wire, count):
    return [wire.reply() for _ in range(count)]


def shared(stack):
    """The server's ids of connections that nobody has for himself. Those that were not used for long keyferryd closes by itself, but never the last one."""
    return {entry["id"] for entry in stack.direct_info_client.client_list() if entry["lib-name"] == "keyferry"}


def is_one_of_the_gateways(client, stack, number):
    """Its ids are the gateway's, its list is that of local clients, and it ends none but these."""
    assert client.call("CLIENT", "ID") == number
    listed = client.call("CLIENT", "LIST").decode()
    assert f"id={number} " in listed and "lib-name=keyferry" not in listed
    before = shared(stack)
    assert client.call("CLIENT", "KILL", "TYPE", "normal", "NAME", "keyferry") == 0
    assert before & shared(stack)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("kind", ["", "p", "s"])
def test_R22_one_that_has_subscribed_goes_on_as_it_was(clients, stack, protocol, kind):
    one, other = clients(protocol), clients()
    number = one.call("CLIENT", "ID")
    subscribe, unsubscribe, message = (f"{kind}{name}" for name in ("subscribe", "unsubscribe", "message"))
    publish = "SPUBLISH" if kind == "s" else "PUBLISH"
    one.raw(request(subscribe, "a", "b") + request(subscribe, "c") + request("PING") + request(subscribe, "a"))
    pong = [b"pong", b""] if protocol == 2 else b"PONG"
    confirmed = [[subscribe.encode(), b"a", 1], [subscribe.encode(), b"b", 2], [subscribe.encode(), b"c", 3]]
    assert replies(one, 5) == [*confirmed, pong, [subscribe.encode(), b"a", 3]]
    large = os.urandom(3 << 20)
    for value in (b"x", b"*3\r\n$7\r\nmessage\r\n", large):
        assert other.call(publish, "b", value) == 1
        assert one.reply() == [message.encode(), *([b"b"] if kind == "p" else []), b"b", value]
    if protocol == 2:
        assert one.call("CLIENT", "ID").startswith("ERR Can't execute 'client|id'")
        assert one.call("CLIENT", "KILL", "TYPE", "normal").startswith("ERR Can't execute 'client|kill'")
        assert one.call("WAIT", 0, 0).startswith("ERR Can't execute 'wait'")
    # In the same write as the end of the subscriptions what looks like a message is a reply.
    other.call("RPUSH", "list", message, "b", "x")
    one.raw(request(unsubscribe) + request(unsubscribe, "zz") + request("LRANGE", "list", 0, -1) + request(unsubscribe))
    gone = replies(one, 3)
    assert sorted(frame[1] for frame in gone) == [b"a", b"b", b"c"] and gone[-1][2] == 0
    assert replies(one, 3) == [[unsubscribe.encode(), b"zz", 0], [message.encode(), b"b", b"x"], [unsubscribe.encode(), None, 0]]
    is_one_of_the_gateways(one, stack, number)
    assert (one.call("MULTI"), one.call("INCR", "n"), one.call("EXEC")) == (b"OK", b"QUEUED", [1])


def test_R22_who_has_quit_is_subscribed_to_nothing_when_it_is_told_so(clients):
    other = clients()
    for protocol in (2, 3):
        for _ in range(100):
            one = clients(protocol)
            one.raw(request("SUBSCRIBE", "c") + request("QUIT") + request("PUBLISH", "c", "x"))
            assert (one.reply(), one.reply()) == ([b"subscribe", b"c", 1], b"OK")
            assert other.call("PUBSUB", "NUMSUB", "c") == [b"c", 0]
            assert ended(one)


BEFORE = [("EVAL", "return 7", 0), ("SELECT", 0), ("BLPOP", "nothing", "0.01"), ("CLIENT", "LIST")]


@pytest.mark.parametrize("before", BEFORE, ids=" ".join(str(words[0]) for words in BEFORE).split())
@pytest.mark.parametrize("command", [("SUBSCRIBE", "a"), ("MONITOR",)], ids=["SUBSCRIBE", "MONITOR"])
def test_R13_a_connection_that_is_listened_on_goes_back_to_nobody(clients, stack, before, command):
    one, other = clients(), clients()
    one.call("CLIENT", "SETNAME", "mine")
    one.raw(request(*before) + request("UNSUBSCRIBE", "c") + request(*command))
    assert replies(one, 3)[1:] == [[b"unsubscribe", b"c", 0], [b"subscribe", b"a", 1] if command[0] == "SUBSCRIBE" else b"OK"]
    for _ in range(4):  # each may get a connection that was given back
        assert clients().call("EVAL", "return 1", 0) == 1
    assert len(named(stack)) == 1
    assert other.call("PUBLISH", "a", "to-one") == (1 if command[0] == "SUBSCRIBE" else 0)
    frame = one.reply()
    while b"to-one" not in (frame[-1] if isinstance(frame, list) else frame):
        frame = one.reply()


def test_one_that_subscribed_gives_its_connection_back_by_reset(clients, stack):
    one = clients()
    one.call("CLIENT", "SETNAME", "mine")
    for command in (("SUBSCRIBE", "c"), ("MONITOR",), ("CLIENT", "REPLY", "OFF")):
        one.call("CLIENT", "SETNAME", "mine")
        one.send(*command)
        if command[0] != "CLIENT":
            one.reply()
        wait_until(lambda: named(stack), "it to have a connection")
        one.send("RESET")
        while one.reply() != b"RESET":
            pass
        wait_until(lambda: not named(stack), "it to have none")
        assert one.call("CLIENT", "GETNAME") is None


def test_a_monitors_replies_stand_between_its_lines(clients, stack):
    for protocol in (2, 3):
        one, other = clients(protocol), clients()
        number = one.call("CLIENT", "ID")
        assert one.call("MONITOR") == b"OK"
        assert other.call("SET", f"seen{protocol}", "1") == b"OK"
        line = one.reply()
        while b"seen" not in line:
            line = one.reply()
        assert b'"SET" "seen%d" "1"' % protocol in line
        one.raw(request("GET", f"seen{protocol}") + request("ECHO", "+1.5 [0 x]") + request("PING"))
        seen = []
        while not seen or seen[-1] != b"PONG":
            seen.append(one.reply())
        own = [frame for frame in seen if isinstance(frame, str) or b'"' not in frame]
        assert own == ["ERR Replica can't interact with the keyspace", b"+1.5 [0 x]", b"PONG"]
        assert [frame.split(b'"')[1] for frame in seen if frame not in own][:1] == [b"ECHO"]
        one.send("CLIENT", "ID")
        frame = one.reply()
        while frame != number:
            assert b'"' in frame
            frame = one.reply()


def test_a_second_monitor_has_no_reply_and_a_monitor_may_wait(clients, stack):
    # Each script as the server itself answers it.
    for words in (
        [("MONITOR",), ("MONITOR",), ("CLIENT", "KILL", "TYPE", "pubsub"), ("RESET",), ("ECHO", "end")],
        [("MONITOR",), ("MONITOR",), ("CLIENT", "REPLY", "ON"), ("WAIT", 0, 1), ("ECHO", "end")],
        [("MONITOR",), ("SUBSCRIBE", "c"), ("MONITOR",), ("PING",), ("UNSUBSCRIBE", "c"), ("MONITOR",), ("ECHO", "end")],
        [("HELLO", 3), ("MONITOR",), ("SUBSCRIBE", "c"), ("MONITOR",), ("PING",), ("ECHO", "end")],
        [("MONITOR",), ("WAIT", 0, 1), ("ECHO", "end")],
    ):
        seen = []
        for client in (clients(), stack.wire(direct=True)):
            client.raw(b"".join(request(*one) for one in words))
            seen.append([])
            while not seen[-1] or seen[-1][-1] != b"end":
                seen[-1].append(client.reply())
            client.close()
        mine, direct = ([frame for frame in frames if not (isinstance(frame, bytes) and b'"' in frame) and not isinstance(frame, dict)] for frames in seen)
        assert mine == direct


SKIPPED = [("CLIENT", "REPLY", "LOUD"), ("CLIENT", "REPLY"), ("CLIENT", "REPLY", "OFF", "x"), ("NOSUCH",), ("CLIENT", "ID"), ("CLIENT", "KILL", "1.2.3.4:5"), ("CLIENT", "UNBLOCK", 1), ("MULTI",),
           ("BLPOP", "nothing", "0.01"), ("SELECT", 0), ("SUBSCRIBE", "c"), ("MONITOR",), ("CLIENT", "REPLY", "SKIP"), ("CLIENT", "REPLY", "OFF"), ("CLIENT", "REPLY", "ON")]  # fmt: skip


@pytest.mark.parametrize("words", SKIPPED, ids=lambda words: " ".join(map(str, words)))
@pytest.mark.parametrize("how", ["SKIP", "OFF"])
def test_R10_each_command_behind_client_reply_is_answered_as_the_server_does(clients, stack, how, words):
    seen = []
    for client in (clients(), stack.wire(direct=True)):
        client.raw(request("CLIENT", "REPLY", how) + request(*words) + request("PING") + request("INCR", "n") + request("CLIENT", "REPLY", "ON") + request("ECHO", "x") + request("RESET"))
        seen.append([])
        while not seen[-1] or seen[-1][-1] != b"RESET":  # which is answered in every state
            seen[-1].append(client.reply())
        client.close()
        stack.direct_info_client.delete("n")
    mine, direct = ([frame for frame in frames if not (isinstance(frame, bytes) and b'"' in frame)] for frames in seen)
    assert mine == direct


@pytest.mark.parametrize("command", [("MONITOR",), ("CLIENT", "CAPA", "redirect")], ids=" ".join)
def test_R15_what_reset_does_not_take_back_is_lent_to_nobody_else(clients, stack, command):
    one = clients()
    one.call("CLIENT", "SETNAME", "mine")
    assert one.call(*command) == b"OK"
    number = named(stack)
    assert len(number) == 1
    one.send("RESET")
    while one.reply() != b"RESET":
        pass
    wait_until(lambda: number.isdisjoint(entry["id"] for entry in stack.direct_info_client.client_list()), "that connection to be closed")


def test_R10_one_that_gets_no_replies_is_still_one_of_the_gateways(clients, stack):
    one, victim, blocked = clients(), clients(), clients()
    number, victim_id, blocked_id = (client.call("CLIENT", "ID") for client in (one, victim, blocked))
    blocked.send("BLPOP", "nothing", 0)
    wait_until(lambda: stack.info("clients")["blocked_clients"] == 1, "the client to be blocked")
    value = os.urandom(3 << 20)
    one.raw(b"".join(request(*words) for words in (
        ("CLIENT", "REPLY", "OFF"), ("SET", "k", "1"), ("SET", "large", value), ("INCR", "k"), ("NOSUCH",), ("EVAL", "return redis.call('incr', 'k')", 0),
        ("CLIENT", "REPLY", "SKIP"), ("CLIENT", "UNBLOCK", blocked_id), ("CLIENT", "KILL", "ID", victim_id), ("CLIENT", "LIST"), ("CLIENT", "ID"),
        ("CLIENT", "REPLY", "ON"), ("GET", "k"), ("CLIENT", "REPLY", "SKIP"), ("SET", "large2", value), ("GET", "k"), ("CLIENT", "REPLY", "ON"))))  # fmt: skip
    assert replies(one, 4) == [b"OK", b"3", b"3", b"OK"]
    assert blocked.reply() is None
    assert ended(victim)
    assert one.call("GET", "large") == one.call("GET", "large2") == value
    is_one_of_the_gateways(one, stack, number)


def test_R10_what_was_sent_without_a_reply_is_done_though_its_client_has_left(clients, stack):
    for last in ((), ("QUIT",)):
        one = clients()
        one.raw(request("CLIENT", "REPLY", "OFF") + b"".join(request("INCR", "left") for _ in range(2000)) + (request(*last) if last else b""))
        if last:
            assert ended(one)
        one.close()
    other = clients()
    wait_until(lambda: other.call("GET", "left") == b"4000", "all to be done", lambda: other.call("GET", "left"))


@pytest.mark.parametrize("how", ["OFF", "SKIP"])
def test_R10_a_user_who_may_not_silence_replies_hears_so_and_gets_all_of_them(clients, stack, how):
    stack.direct_info_client.execute_command("ACL", "SETUSER", "loud", "reset", "on", ">pw", "~*", "+@all", "-client|reply")
    one = clients()
    assert one.call("AUTH", "loud", "pw") == b"OK"
    one.raw(request("CLIENT", "REPLY", how) + request("INCR", "n") + request("CLIENT", "REPLY", "ON"))
    refused = "NOPERM User loud has no permissions to run the 'client|reply' command"
    assert replies(one, 3) == [refused, 1, refused]
    assert clients().call("CLIENT", "REPLY", "LOUD").startswith("ERR syntax")


STATEFUL = {"transaction": [("MULTI",), ("SUBSCRIBE", "c"), ("EXEC",)], "replication": [("REPLCONF", "listening-port", "1")],
            "unseen": [("CLIENT", "REPLY", "OFF"), ("SELECT", "0"), ("CLIENT", "REPLY", "ON")], "dedicated": [("SUBSCRIBE", "c")]}  # fmt: skip


@pytest.mark.parametrize("name", STATEFUL)
def test_R7_what_is_carried_byte_for_byte_ends_no_connection_that_clients_share(clients, stack, name):
    one, victim, plain = clients(address=DEDICATED if name == "dedicated" else None), clients(), clients()
    assert victim.call("CLIENT", "SETNAME", "mine-too") == b"OK"
    victim_id = victim.call("CLIENT", "ID")
    assert (victim.call("SUBSCRIBE", "v"), plain.call("GET", "k")) == ([b"subscribe", b"v", 1], None)
    for words in STATEFUL[name]:
        one.send(*words)
    one.send("UNSUBSCRIBE", "c")
    frame = one.reply()
    while not (isinstance(frame, list) and frame[0] == b"unsubscribe"):
        frame = one.reply()
    before = shared(stack)
    address = next(entry["addr"] for entry in stack.direct_info_client.client_list() if entry["id"] in before)
    for kill in (("TYPE", "normal"), ("SKIPME", "yes", "LIB-NAME", "keyferry"), ("ADDR", address), *(() if name != "dedicated" else [("ID", *before)])):
        assert one.call("CLIENT", "KILL", *kill) == 0, kill
    assert one.call("CLIENT", "KILL", address) == (0 if name == "dedicated" else "ERR No such client")
    if name != "dedicated":
        assert one.call("CLIENT", "KILL", "ID", victim_id) == 1
    else:
        assert one.call("CLIENT", "KILL", "TYPE", "pubsub") == 1
    assert ended(victim)
    assert before & shared(stack)
    assert plain.call("GET", "k") is None
    if name != "dedicated":
        number = plain.call("CLIENT", "ID")
        one.raw(request("RESET") + request("GET", "k"))
        assert replies(one, 2) == [b"RESET", None]
        assert f"id={number} " in one.call("CLIENT", "LIST").decode()
        return
    one.raw(request("CLIENT", "KILL", "ID", "x" * 100_000))
    assert one.reply() == "ERR keyferry: an argument of this command is too long"
    with pytest.raises((EOFError, ConnectionError)):
        one.reply()


def test_who_listens_is_not_idle(make_stack):
    stack = make_stack(config={"limits": {"client_idle": "2s"}}, module=False)
    two, three = stack.wire(), stack.wire(protocol=3)
    assert [client.call("SUBSCRIBE", "c") for client in (two, three)] == [[b"subscribe", b"c", 1]] * 2
    monitor = stack.wire()
    assert monitor.call("MONITOR") == b"OK"
    for _ in range(2):  # each of them comes after those above
        other = stack.wire()
        assert other.call("PING") == b"PONG"
        assert ended(other)
    assert stack.direct_info_client.publish("c", "x") == 2
    assert two.reply() == three.reply() == [b"message", b"c", b"x"]
    while b'"c" "x"' not in monitor.reply():
        pass
