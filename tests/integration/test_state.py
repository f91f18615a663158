"""Commands whose state lives in their connection: transactions, blocking, subscriptions, databases, users (R13-R17, R21-R23, R27, R54)."""

import json
import os
import re
import socket
import tempfile
import threading

import pytest
from running_stack import Clients, wait_until
from wire import request

DEDICATED = f"{tempfile.gettempdir()}/keyferry-state-{os.getpid()}.sock"

pytestmark = pytest.mark.stack(
    module=False,
    config={
        "workers": 1,
        "limits": {"pinned_long": 4, "pinned_short": 2, "pin_wait": "300ms"},
        "listen": [{"unix": DEDICATED, "upstream": "dedicated"}],
    },
)


def pinned(stack):
    """As it is now when a client has just left, else up to a second old."""
    return stack.metrics().total("upstream_connections", state="pinned")


def own(stack):
    """Clients that have a connection of their own, as it is now."""
    return [client for client in json.loads(stack.http("/clients.json")[1])["clients"] if client["connection"] == "own"]


def received(stack):
    return stack.metrics().total("bytes_total", direction="in", side="client")


def replies(wire, count):
    return [wire.reply() for _ in range(count)]


@pytest.fixture
def clients(stack):
    """Makes clients, and takes them away; then no connection of the server's may be left with one of them."""
    stack.direct_info_client.flushall()
    made = Clients(stack)
    yield made
    made.close()
    stack.wait_left()
    wait_until(lambda: pinned(stack) == 0, "no connection to be pinned", lambda: pinned(stack))


def test_R14_transactions_of_two_clients_do_not_mix_and_what_follows_keeps_its_order(clients):
    one, two = clients(), clients(3)
    assert one.call("MULTI") == two.call("MULTI") == b"OK"
    assert one.call("SET", "k", "one") == two.call("SET", "k", "two") == b"QUEUED"
    assert one.call("PING") == b"QUEUED"  # R16
    assert two.call("EXEC") == [b"OK"]
    assert one.call("GET", "k") == b"QUEUED"
    assert one.call("EXEC") == [b"OK", b"PONG", b"one"]
    script = "return redis.call('incr', KEYS[1])"
    one.raw(b"".join(request(*words) for words in (
        ("SET", "a", 1), ("MULTI",), ("INCR", "a"), ("EXEC",), ("GET", "a"), ("EVAL", script, 1, "a"), ("GET", "a"), ("EVAL", script, 1, "a"))))
    assert replies(one, 8) == [b"OK", b"OK", b"QUEUED", [2], b"2", 3, b"3", 4]


def test_R17_a_watch_holds_until_the_transaction_ends(clients):
    one, other = clients(), clients()
    assert one.call("WATCH", "k") == other.call("SET", "k", "x") == one.call("MULTI") == b"OK"
    assert one.call("SET", "k", "mine") == b"QUEUED"
    assert one.call("EXEC") is None
    assert one.call("WATCH", "k") == one.call("UNWATCH") == b"OK"
    assert one.call("GET", "k") == b"x"
    assert one.call("EXEC") == "ERR EXEC without MULTI"


def test_R23_consumers_that_block_starve_neither_their_producer_nor_others(clients):
    consumers = [clients(), clients(3)]
    for consumer in consumers:
        consumer.send("BLPOP", "q", 0)
        consumer.send("GET", "behind")
    producer = clients()
    assert producer.call("MULTI") == b"OK"
    assert producer.call("RPUSH", "q", "a", "b") == b"QUEUED"
    assert producer.call("EXEC") == [2]
    assert sorted(consumer.reply()[1] for consumer in consumers) == [b"a", b"b"]
    assert [consumer.reply() for consumer in consumers] == [None, None]
    assert consumers[0].call("BLPOP", "q", "0.05") is None
    assert consumers[0].call("WAIT", 0, 10) == 0


def test_subscribers_of_both_protocols_get_bytes_in_the_servers_order(clients, stack):
    two, three = clients(2), clients(3)
    two.send("SUBSCRIBE", "c", "d")
    assert replies(two, 2) == [[b"subscribe", b"c", 1], [b"subscribe", b"d", 2]]
    assert two.call("PING") == [b"pong", b""]
    assert str(two.call("GET", "k")).startswith("ERR Can't execute 'get'")
    # The same bytes through keyferryd as from the server: its own PUBLISH gives the reply and the push as the server orders them.
    script = b"".join(request(*words) for words in (("SUBSCRIBE", "e"), ("PUBLISH", "e", "m"), ("GET", "k"), ("UNSUBSCRIBE",), ("PING",), ("QUIT",)))
    answers = []
    for link in (three, stack.wire(direct=True, protocol=3)):
        link.raw(script)
        answers.append(b"".join(iter(lambda: link.socket.recv(65536), b"")))  # noqa: B023
    assert answers[0] == answers[1] != b""
    assert stack.direct_info_client.publish("c", "x") == 1
    assert two.reply() == [b"message", b"c", b"x"]


def test_R10_replies_are_silenced_at_their_exact_place(clients):
    one = clients()
    one.raw(request("SET", "k", 1) + request("CLIENT", "REPLY", "SKIP") + request("INCR", "k") + request("CLIENT", "REPLY", "OFF")
            + request("INCR", "k") + request("CLIENT", "REPLY", "ON") + request("GET", "k"))
    assert replies(one, 3) == [b"OK", b"OK", b"3"]


def test_nothing_of_the_gateways_own_is_queued_in_a_pipelined_transaction(clients):
    one = clients()
    assert one.call("CLIENT", "SETNAME", "named") == b"OK"
    one.raw(request("MULTI") + request("SET", "a", 1) + request("WAIT", 0, 0) + request("EXEC"))
    assert replies(one, 4) == [b"OK", b"QUEUED", b"QUEUED", [b"OK", 0]]
    one.raw(request("MULTI") + request("CLIENT", "TRACKING", "ON") + request("EXEC"))
    assert replies(one, 3) == [b"OK", b"QUEUED", [b"OK"]]


def test_a_client_that_closes_its_side_behind_a_blocking_command_gets_what_came_before(clients, stack):
    for _ in range(3):
        one = clients()
        # It has its connection already, so that both are sent at once and the end is read while the script runs.
        assert one.call("WATCH", "k") == b"OK"
        one.raw(request("EVAL", "local n = 0 for i = 1, 10000000 do n = n + i end return 7", 0) + request("BLPOP", "nothing", 0))
        one.socket.shutdown(socket.SHUT_WR)
        assert one.reply() == 7
        one.expect_end()
    wait_until(lambda: stack.info("clients")["blocked_clients"] == 0, "nobody to be blocked")


def test_R13_clients_that_vanish_in_any_state_leave_nothing_behind(clients, stack):
    for begin in ([("MULTI",), ("SET", "k", "half")], [("BLPOP", "q", 0)], [("SUBSCRIBE", "c")], [("WATCH", "k")], [("MONITOR",)],
                  [("CLIENT", "TRACKING", "ON")]):
        gone = clients(3)
        for words in begin:
            gone.send(*words)
        if begin[0][0] == "BLPOP":
            wait_until(lambda: stack.info("clients")["blocked_clients"] == 1, "the client to be blocked")
        else:
            for _ in begin:
                gone.reply()
        gone.close()
    stack.wait_left()
    assert pinned(stack) == 0
    # Nobody takes an element for one that is gone, and nobody gets another's reply.
    one = clients()
    assert one.call("RPUSH", "q", "x") == 1
    assert one.call("LPOP", "q") == b"x"
    assert one.call("GET", "k") is None
    assert stack.info("clients")["blocked_clients"] == 0


def test_R13_one_that_blocks_and_is_gone_in_the_same_breath_leaves_nothing_behind(clients, stack):
    words, before = request("EVAL", "return 1", 0) + request("BLPOP", "q", 0), received(stack)
    for _ in range(20):
        gone = clients()
        gone.raw(words)
        gone.close()
    wait_until(lambda: received(stack) == before + 20 * len(words), "all of them to have come", lambda: received(stack) - before)
    stack.wait_left()
    assert pinned(stack) == 0


def test_a_quota_that_is_used_up_gives_one_error_after_pin_wait_and_the_client_lives(clients):
    held = [clients(), clients()]
    for holder in held:
        assert holder.call("MULTI") == b"OK"
    late = clients()
    late.raw(request("EVAL", "return 1", 0) + request("PING"))
    assert "limits.pinned_short" in late.reply()
    assert late.reply() == b"PONG"
    assert held[0].call("DISCARD") == b"OK"
    assert late.call("EVAL", "return 1", 0) == 1


def test_what_ends_or_wakes_others_waits_for_no_quota(clients, stack):
    blocked = [clients() for _ in range(4)]
    ids = [client.call("CLIENT", "ID") for client in blocked]
    for client in blocked:
        client.send("BLPOP", "q", 0)
    wait_until(lambda: stack.info("clients")["blocked_clients"] == 4, "the long quota to be used up")
    held = [clients(), clients()]
    for holder in held:
        assert holder.call("MULTI") == b"OK"
    one = clients()
    one.call("SELECT", 9)  # refused: the quotas are used up
    assert "limits.pinned_short" in one.call("EVAL", "return 1", 0)
    assert one.call("SCRIPT", "KILL").startswith("NOTBUSY")
    assert one.call("FUNCTION", "KILL").startswith("NOTBUSY")
    assert one.call("CLIENT", "UNPAUSE") == b"OK"
    assert one.call("CLIENT", "UNBLOCK", ids[0]) == 1
    assert blocked[0].reply() is None
    one.raw(request("CLIENT", "KILL", "ID", ids[1]) + request("GET", "k") + request("CLIENT", "LIST"))
    assert replies(one, 2) == [1, None]
    assert "limits.pinned_short" in one.reply()  # it wakes nobody, so it waits like others
    with pytest.raises(EOFError):
        blocked[1].reply()


def test_R27_each_client_has_its_own_database(clients, stack):
    one, two = clients(), clients()
    assert one.call("SELECT", 3) == b"OK"
    assert one.call("SET", "k", "three") == two.call("SET", "k", "zero") == b"OK"
    assert (one.call("GET", "k"), two.call("GET", "k")) == (b"three", b"zero")
    assert one.call("MULTI") == b"OK"
    assert (one.call("GET", "k"), one.call("SELECT", 4), one.call("EXEC")) == (b"QUEUED", b"QUEUED", [b"three", b"OK"])
    assert (one.call("GET", "k"), one.call("EVAL", "return redis.call('dbsize')", 0)) == (None, 0)
    assert one.call("SELECT", 99999) == stack.wire(direct=True).call("SELECT", 99999)
    assert (one.call("RESET"), one.call("GET", "k")) == (b"RESET", b"zero")


def test_R54_users_do_not_mix_and_passwords_are_judged_by_the_server(clients, stack):
    admin = stack.direct_info_client
    admin.execute_command("ACL", "SETUSER", "ann", "on", ">secret", "~ann:*", "+@all")
    admin.execute_command("ACL", "SETUSER", "bob", "on", "nopass", "~bob:*", "+@all")
    ann, bob, both = clients(), clients(3), clients()
    assert ann.call("AUTH", "ann", "wrong").startswith("WRONGPASS")
    assert ann.call("AUTH", "ann", "secret") == b"OK"
    assert bob.call("HELLO", 3, "AUTH", "bob", "", "SETNAME", "bobs")[b"proto"] == 3
    assert (ann.call("ACL", "WHOAMI"), bob.call("ACL", "WHOAMI"), both.call("ACL", "WHOAMI")) == (b"ann", b"bob", b"default")
    assert (bob.call("CLIENT", "GETNAME"), ann.call("CLIENT", "GETNAME")) == (b"bobs", None)
    assert ann.call("SET", "ann:k", 1) == b"OK"
    assert bob.call("GET", "ann:k").startswith("NOPERM")
    assert (ann.call("MULTI"), ann.call("ACL", "WHOAMI"), ann.call("EXEC")) == (b"OK", b"QUEUED", [b"ann"])
    assert (ann.call("RESET"), ann.call("ACL", "WHOAMI")) == (b"RESET", b"default")


def test_a_dedicated_listener_gives_each_client_a_connection_for_life(clients, stack):
    one, two = clients(address=DEDICATED), clients(3, address=DEDICATED)
    ids = [client.call("CLIENT", "ID") for client in (one, two)]
    assert set(ids) <= {int(entry["id"]) for entry in stack.direct_info_client.client_list()}
    assert one.call("CLIENT", "LIST", "ID", ids[1]).startswith(b"id=%d " % ids[1])
    assert one.call("SELECT", 5) == one.call("SET", "k", "five") == b"OK"
    assert two.call("GET", "k") is None
    two.send("SUBSCRIBE", "c")
    assert two.reply() == [b"subscribe", b"c", 1]
    assert one.call("PUBLISH", "c", "x") == 1
    assert one.call("CLIENT", "KILL", "ID", ids[1]) == 1
    assert two.reply() == [b"message", b"c", b"x"]
    with pytest.raises(EOFError):
        two.reply()
    assert one.call("QUIT") == b"OK"
    with pytest.raises(EOFError):
        one.reply()


def test_a_large_argument_inside_a_transaction_goes_by_its_connection(clients):
    one = clients()
    value = os.urandom(3 << 20)
    assert one.call("MULTI") == b"OK"
    writer = threading.Thread(target=one.raw, args=(request("SET", "big", value) + request("STRLEN", "big") + request("EXEC"),))
    writer.start()
    assert replies(one, 3) == [b"QUEUED", b"QUEUED", [b"OK", len(value)]]
    writer.join()
    assert one.call("GET", "big") == value


def test_a_subscriber_that_takes_nothing_is_judged_by_the_server_and_then_on_no_list(clients, stack):
    publisher, slow = clients(), clients()
    slow.call("CLIENT", "SETNAME", "slow")
    slow.send("SUBSCRIBE", "c")
    slow.reply()

    def waiting():  # None: it is not in the list
        listed = re.search(r" name=slow .* omem=(\d+) ", publisher.call("CLIENT", "LIST").decode())
        return listed and int(listed[1])

    limit = stack.direct_info_client.config_get("client-output-buffer-limit")
    stack.direct_info_client.config_set("client-output-buffer-limit", "pubsub 200000 0 0")
    try:
        seen = {waiting()}
        while publisher.call("PUBLISH", "c", b"x" * 5000):
            seen.add(waiting())
    finally:
        stack.direct_info_client.config_set("client-output-buffer-limit", limit["client-output-buffer-limit"])
    assert waiting() is None
    # What lies here and what lies at the server: little more than the server allows.
    assert 100000 < max(seen - {None}) < 350000, seen


def test_ids_of_clients_are_the_gateways_wherever_the_server_speaks_of_them(clients, stack):
    one, blocked, idle, follower = clients(), clients(), clients(3), clients()
    ids = [client.call("CLIENT", "ID") for client in (one, blocked, idle, follower)]
    assert [blocked.call("CLIENT", "SETNAME", "waits"), idle.call("CLIENT", "SETNAME", "idles")] == [b"OK", b"OK"]
    blocked.send("BLPOP", "q", 0)
    wait_until(lambda: stack.info("clients")["blocked_clients"] == 1, "the client to be blocked")
    follower.send("SUBSCRIBE", "c")
    follower.reply()
    listed = {int(line.split()[0].removeprefix("id=")): line for line in one.call("CLIENT", "LIST").decode().splitlines()}
    assert set(ids) <= set(listed)
    assert " cmd=blpop " in listed[ids[1]] and " name=idles " in listed[ids[2]] and " cmd=subscribe " in listed[ids[3]]
    assert "lib-name=keyferry" not in "".join(listed.values())
    assert b"id=%d " % ids[2] in idle.call("CLIENT", "INFO")
    assert b" name=idles " in idle.call("CLIENT", "INFO")
    assert one.call("CLIENT", "LIST", "ID", ids[1]).startswith(b"id=%d " % ids[1])
    assert one.call("CLIENT", "UNBLOCK", ids[2]) == 0
    assert one.call("CLIENT", "UNBLOCK", ids[1], "ERROR") == 1
    assert blocked.reply().startswith("UNBLOCKED")
    third = clients(3)
    number = third.call("CLIENT", "ID")
    third.send("SUBSCRIBE", "z", "y")
    assert [third.reply()[:2], third.reply()[:2]] == [[b"subscribe", b"z"], [b"subscribe", b"y"]]
    assert (third.call("CLIENT", "ID"), third.call("GET", "k")) == (number, None)
    assert third.call("HELLO", 2)[5] == 2 and one.call("PUBLISH", "z", "x") == 1
    assert third.reply() == [b"message", b"z", b"x"]
    third.close()
    for gone in (idle, follower):  # one without a connection of its own, one with
        assert one.call("CLIENT", "KILL", "ID", ids[2 if gone is idle else 3]) == 1
        with pytest.raises(EOFError):
            gone.reply()
    assert one.call("CLIENT", "KILL", "ID", ids[2]) == 0


def test_R7_a_kill_with_filters_ends_local_clients_and_no_connection_that_they_share(clients, stack):
    admin = stack.direct_info_client
    one, named, blocked, tracking, kept = clients(), clients(), clients(), clients(3), clients()
    for client, name in ((named, "goes"), (blocked, "goes"), (tracking, "goes"), (kept, "stays")):
        assert client.call("CLIENT", "SETNAME", name) == b"OK"
    blocked.send("BLPOP", "q", 0)
    assert tracking.call("CLIENT", "TRACKING", "ON") == b"OK"
    wait_until(lambda: stack.info("clients")["blocked_clients"] == 1, "the client to be blocked")
    shared = {entry["id"] for entry in admin.client_list() if entry["lib-name"] == "keyferry"}
    assert one.call("CLIENT", "LIST", "NAME", "goes", "FLAGS", "b").decode().count("name=goes") == 1
    assert one.call("CLIENT", "KILL", "NAME", "goes", "NOT-NAME", "stays", "TYPE", "normal") == 3
    for client in (named, blocked, tracking):
        with pytest.raises(EOFError):
            client.reply()
    assert kept.call("GET", "k") is None
    assert shared <= {entry["id"] for entry in admin.client_list()}
    assert one.call("CLIENT", "KILL", "127.0.0.1:1") == "ERR No such client"
    assert one.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no") >= 2
    for client in (one, kept):
        with pytest.raises(EOFError):
            client.reply()
    assert shared <= {entry["id"] for entry in admin.client_list()}


def test_state_that_is_queued_takes_effect_as_it_was_executed_and_binds_no_connection(clients, stack):
    one = clients(3)
    number = one.call("CLIENT", "ID")
    queued = [("CLIENT", "ID"), ("CLIENT", "SETNAME", "queued"), ("CLIENT", "GETNAME"), ("SELECT", 4), ("HELLO", 2)]
    assert one.call("MULTI") == b"OK"
    assert [one.call(*words) for words in queued] == [b"QUEUED"] * 5
    answers = one.call("EXEC")
    assert answers[:4] == [number, b"OK", b"queued", b"OK"]
    assert dict(zip(answers[4][::2], answers[4][1::2]))[b"id"] == number
    wait_until(lambda: not own(stack), "the connection to go back", lambda: own(stack))
    assert one.call("CLIENT", "GETNAME") == b"queued"
    assert b" db=4 " in one.call("CLIENT", "INFO")


def test_a_large_value_in_a_transaction_is_counted_as_a_fallback_and_a_small_one_is_not(stack, clients):
    one = clients()
    assert one.call("MULTI") == b"OK"
    before = stack.metrics().total("fallback_total", reason="own_connection")
    one.call("BLOB.TCP_SET", "k", "small")
    assert stack.metrics().total("fallback_total", reason="own_connection") == before
    one.call("BLOB.TCP_SET", "k", "x" * (1 << 20))
    assert stack.metrics().total("fallback_total", reason="own_connection") == before + 1


def test_a_wait_waits_for_what_its_client_wrote_by_a_shared_connection(clients, stack):
    server = stack.direct_info_client
    # Nothing is brought to disk by itself, so that WAITAOF for something that was written ends by its time.
    server.config_set("appendfsync", "no")
    server.config_set("appendonly", "yes")
    try:

        def rewritten():
            now = server.info("persistence")
            return not now["aof_rewrite_in_progress"] and not now["aof_rewrite_scheduled"]

        wait_until(rewritten, "the first append-only file", lambda: None)
        one = clients()
        assert one.call("SET", "k", "v") == b"OK"
        assert one.call("WAITAOF", 1, 0, 50) == [0, 0]
        server.config_set("appendfsync", "always")
        assert one.call("SET", "k", "w") == b"OK"
        assert one.call("WAITAOF", 1, 0, 0) == [1, 0]
    finally:
        server.config_set("appendonly", "no")


def test_a_user_who_may_not_mark_its_writes_gets_an_error_from_wait_and_no_false_answer(clients, stack):
    stack.direct_info_client.execute_command("ACL", "SETUSER", "eve", "reset", "on", "nopass", "~*", "+@all", "-swapdb")
    one = clients()
    assert one.call("AUTH", "eve", "x") == one.call("SET", "k", "v") == b"OK"
    assert "needs SWAPDB" in one.call("WAIT", 0, 10)
    stack.direct_info_client.execute_command("ACL", "SETUSER", "unwaiting", "reset", "on", "nopass", "~*", "+@all", "-swapdb", "-wait")
    assert one.call("AUTH", "unwaiting", "x") == b"OK"
    assert one.call("WAIT", 0, 10) == "NOPERM User unwaiting has no permissions to run the 'wait' command"
    assert one.call("GET", "k") == b"v"
