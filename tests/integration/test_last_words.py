"""What ends a client, an error of its protocol or a line of HTTP, comes behind everything that it has asked for before, as at the server itself."""

import pathlib
import tempfile

import pytest
from running_stack import PATIENCE, wait_until
from wire import Wire, ended, request

DEDICATED = str(pathlib.Path(tempfile.mkdtemp(prefix="kf-last-words-")) / "dedicated.sock")
WRONG = b"*01\r\n$4\r\nPING\r\n"
LENGTH = "ERR Protocol error: invalid multibulk length"

pytestmark = pytest.mark.stack(config={"workers": 1, "listen": [{"unix": DEDICATED, "upstream": "dedicated"}]})


@pytest.fixture(params=["shared", "dedicated", "the server"])
def clients(stack, request):
    made = []

    def make():
        made.append({"shared": stack.wire, "dedicated": lambda: Wire(DEDICATED, PATIENCE), "the server": lambda: Wire(("127.0.0.1", stack.valkey_port), PATIENCE)}[request.param]())
        return made[-1]

    yield make
    for client in made:
        client.close()


def test_a_push_that_was_asked_for_comes_before_the_error(clients):
    one = clients()
    assert one.call("HELLO", 3)[b"proto"] == 3
    one.raw(request("PSUBSCRIBE", "c*") + request("PING") + WRONG)
    assert [one.reply() for _ in range(3)] == [[b"psubscribe", b"c*", 1], b"PONG", LENGTH] and ended(one)


def test_a_blocked_client_that_sent_an_error_can_still_be_unblocked(clients):
    one, other = clients(), clients()
    number = one.call("CLIENT", "ID")
    one.raw(request("BLPOP", "nothing", 0) + WRONG)
    wait_until(lambda: other.call("CLIENT", "UNBLOCK", number, "ERROR") == 1, "a client that is blocked")
    assert one.reply().startswith("UNBLOCKED") and one.reply() == LENGTH and ended(one)


@pytest.mark.parametrize("last", [WRONG, b"POST /\r\n"], ids=["an error", "HTTP"])
@pytest.mark.parametrize("first", [("BLOB.TCP_SET", "last-words", "v"), ("SET", "last-words", "v"), ("EVAL", "return server.call('SET', KEYS[1], 'v')", 1, "last-words")], ids=lambda words: words[0])
def test_what_was_sent_before_has_run(clients, stack, first, last):
    stack.direct_info_client.delete("last-words")
    one = clients()
    one.raw(request(*first) + last)
    if last is WRONG:
        assert (one.reply() in (b"OK", b"v"), one.reply()) == (True, LENGTH)
    else:
        with pytest.raises((EOFError, ConnectionError)):
            while True:
                one.reply()
    assert stack.direct_info_client.exists("last-words") == 1


@pytest.mark.parametrize("version, error", [("4294967297", "NOPROTO unsupported protocol version"), ("-1", "NOPROTO unsupported protocol version"),
                                            ("03", "ERR Protocol version is not an integer or out of range"), ("+3", "ERR Protocol version is not an integer or out of range"),
                                            ("9223372036854775808", "ERR Protocol version is not an integer or out of range"), ("", "ERR Protocol version is not an integer or out of range")])  # fmt: skip
def test_R6_a_protocol_that_is_none_is_refused_in_the_servers_words(clients, version, error):
    assert clients().call("HELLO", version) == error


def test_a_client_that_leaves_with_much_unread_behind_its_blocking_command_blocks_no_longer(clients, stack):
    def blocked():
        return stack.direct_info_client.info("clients")["blocked_clients"]

    one = clients()
    one.raw(request("BLPOP", "nothing", 0) + 700 * request("SET", "behind", "x" * 100))
    wait_until(lambda: blocked() == 1, "a client that is blocked", blocked)
    one.close()
    wait_until(lambda: blocked() == 0, "nobody blocked any more", blocked)


@pytest.mark.parametrize("before", [[], [("MULTI",)], [("WATCH", "k")], [("CLIENT", "CAPA", "redirect")]], ids=lambda before: " ".join(before[0]) if before else "nothing")
def test_tracking_that_was_asked_for_behind_a_reset_is_on(clients, stack, before):
    one = clients()
    for words in before:
        assert one.call(*words) == b"OK"
    one.raw(request("RESET") + request("CLIENT", "TRACKING", "ON", "OPTIN"))
    assert [one.reply() for _ in range(2)] == [b"RESET", b"OK"]
    assert one.call("CLIENT", "CACHING", "YES") == b"OK"
    assert set(one.call("CLIENT", "TRACKINGINFO")[1]) >= {b"on", b"optin"}


@pytest.mark.parametrize("name", ["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"])
def test_a_client_without_subscriptions_that_ends_them_stays_what_it_was(clients, name):
    one = clients()
    number = one.call("CLIENT", "ID")
    one.raw(request(name) + request("PING") + request(name, "c") + request("MULTI") + request("DISCARD") + request("CLIENT", "ID"))
    kind = name.lower().encode()
    assert [one.reply() for _ in range(6)] == [[kind, None, 0], b"PONG", [kind, b"c", 0], b"OK", b"OK", number]


BEFORE_QUIT = {
    "a transaction": [("MULTI",), ("SET", "quit", "v"), ("EXEC",)],
    "a script": [("EVAL", "return 1", 0)],
    "SELECT": [("SELECT", 1)],
    "CLIENT LIST": [("CLIENT", "LIST")],
    "BLPOP": [("RPUSH", "quit-list", "v"), ("BLPOP", "quit-list", 0)],
    "WATCH": [("WATCH", "quit")],
    "an open transaction": [("MULTI",), ("PING",)],
    "tracking": [("CLIENT", "TRACKING", "ON")],
}


@pytest.mark.parametrize("before", BEFORE_QUIT.values(), ids=BEFORE_QUIT)
def test_R13_quit_ends_the_client_and_nobody_else_behind_a_connection_of_its_own(clients, before):
    for _ in range(3):
        one, other = clients(), clients()
        one.raw(b"".join(request(*words) for words in before) + request("QUIT"))
        for _ in before:
            assert not isinstance(one.reply(), Exception)
        assert one.reply() == b"OK" and ended(one)
        assert (other.call("MULTI"), other.call("PING"), other.call("EXEC")) == (b"OK", b"QUEUED", [b"PONG"])
