"""Who may use a listener and as whom: require_auth, peers of Unix sockets, mapped users, denied commands, passwords that change (R54, R58)."""

import os
import pathlib
import signal
import tempfile

import pytest
from running_stack import PATIENCE, wait_until
from wire import Wire, ended, request

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="kf-logins-"))
LOCKED, MAPPED, OTHERS, OURS = (str(FOLDER / f"{name}.sock") for name in ("locked", "mapped", "others", "ours"))
PASSWORD = FOLDER / "password"
PASSWORD.write_text("secret\n")

pytestmark = pytest.mark.stack(
    module=False,
    config={
        "workers": 1,
        "listen": [
            {"unix": LOCKED, "require_auth": True},
            {"unix": MAPPED, "user": "ann", "password_file": str(PASSWORD), "deny_commands": ["flushall", "CONFIG SET"]},
            {"unix": OTHERS, "allow_uids": [os.getuid() + 1]},
            {"unix": OURS, "allow_gids": [os.getgid()], "user_by_uid": [f"{os.getuid()} ann {PASSWORD}"]},
        ],
    },
)


@pytest.fixture
def clients(stack):
    stack.direct_info_client.execute_command("ACL", "SETUSER", "ann", "reset", "on", ">secret", "~*", "&*", "+@all")
    made = []

    def make(address=None):
        made.append(Wire(address, PATIENCE) if address else stack.wire())
        return made[-1]

    yield make
    for client in made:
        client.close()


def test_R134_a_login_that_the_server_does_not_answer_ends_in_an_error(clients, stack):
    one = clients(LOCKED)
    os.kill(stack.valkey_pid, signal.SIGSTOP)
    try:
        assert "limits.upstream_wait" in one.call("AUTH", "ann", "secret")
    finally:
        os.kill(stack.valkey_pid, signal.SIGCONT)
    assert (one.call("AUTH", "ann", "secret"), one.call("GET", "k")) == (b"OK", None)


def test_R54_a_locked_listener_takes_nothing_before_the_server_has_agreed_to_a_login(clients):
    one = clients(LOCKED)
    assert one.call("GET", "k") == one.call("NOSUCH") == "NOAUTH Authentication required."
    assert one.call("HELLO", 3).startswith("NOAUTH HELLO must be called")
    assert one.call("SET", "k", "x" * 16384).startswith("NOAUTH")
    assert one.call("AUTH", "ann", "wrong").startswith("WRONGPASS")
    assert one.call("GET", "k").startswith("NOAUTH")
    assert one.call("HELLO", 3, "AUTH", "ann", "secret")[b"proto"] == 3
    assert (one.call("ACL", "WHOAMI"), one.call("GET", "k")) == (b"ann", None)
    assert (one.call("MULTI"), one.call("ACL", "WHOAMI"), one.call("EXEC")) == (b"OK", b"QUEUED", [b"ann"])
    assert one.call("RESET") == b"RESET"
    assert one.call("GET", "k").startswith("NOAUTH")
    assert one.call("AUTH", "ann", "secret") == one.call("QUIT") == b"OK"


def test_a_listeners_clients_act_as_its_user_and_do_not_get_what_it_denies(clients, stack):
    one = clients(MAPPED)
    assert one.call("ACL", "WHOAMI") == b"ann"
    assert one.call("FlushAll").startswith("NOPERM keyferry: this listener does not carry 'FlushAll'")
    assert one.call("CONFIG", "SET", "maxmemory", "0").startswith("NOPERM keyferry")
    assert one.call("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"0"]
    assert (one.call("MULTI"), one.call("SET", "k", 1)) == (b"OK", b"QUEUED")
    assert one.call("FLUSHALL").startswith("NOPERM keyferry")
    assert one.call("EXEC").startswith("EXECABORT")
    assert (one.call("RESET"), one.call("ACL", "WHOAMI")) == (b"RESET", b"ann")
    subscribed = clients(MAPPED)
    assert subscribed.call("SUBSCRIBE", "c") == [b"subscribe", b"c", 1]
    subscribed.send("PING")
    assert subscribed.reply() == [b"pong", b""]
    subscribed.send("FLUSHALL")
    assert subscribed.reply().startswith("NOPERM keyferry")
    silent = clients(MAPPED)
    assert silent.call("SET", "k", 5) == b"OK"
    silent.raw(b"".join(request("CLIENT", "REPLY", how) + request("FLUSHALL") + request("BLOB.RDMA_GET", "k") + request("INCR", "k") for how in ("SKIP", "OFF")))
    assert silent.reply().startswith("ERR keyferry: BLOB.RDMA_* names memory of the caller")
    assert (silent.reply(), silent.call("CLIENT", "REPLY", "ON"), silent.call("GET", "k")) == (6, b"OK", b"7")
    carried = clients(MAPPED)
    carried.raw(request("MULTI") + request("SUBSCRIBE", "c") + request("EXEC"))
    assert [carried.reply() for _ in range(3)] == [b"OK", b"QUEUED", [[b"subscribe", b"c", 1]]]
    carried.raw(request("SET", "kept", 1) + request("FLUSHALL"))
    assert carried.reply().startswith("NOPERM keyferry")
    assert ended(carried)
    assert clients().call("ACL", "WHOAMI") == b"default"


BY_BYTES = {"subscribed": [("SUBSCRIBE", "c")], "monitor": [("MONITOR",)], "silent": [("CLIENT", "REPLY", "OFF"), ("SET", "silent", "x" * 3_000_000)]}


def reset_behind(client, name):
    """RESET behind commands that made the client's connection byte for byte, with what follows in the same write."""
    client.raw(b"".join(request(*words) for words in [*BY_BYTES[name], ("RESET",), ("ACL", "WHOAMI"), ("CLIENT", "ID")]))
    seen = []
    while not seen or seen[-1] != b"RESET":
        seen.append(client.reply())
    return client.reply(), client.reply()


@pytest.mark.parametrize("name", BY_BYTES)
def test_R54_a_reset_behind_what_made_a_client_byte_for_byte_gives_it_the_user_that_it_came_as(clients, stack, name):
    mapped = clients(MAPPED)
    number = mapped.call("CLIENT", "ID")
    if name != "silent":  # a listener with rules looks at no command of more than 1 MiB
        assert reset_behind(mapped, name) == (b"ann", number)
        assert (mapped.call("SET", "k", 1), mapped.call("FLUSHALL")[:6]) == (b"OK", "NOPERM")
    password = stack.dir / "bob.password"
    password.write_text("builder\n")
    stack.direct_info_client.execute_command("ACL", "SETUSER", "bob", "reset", "on", ">builder", "~*", "&*", "+@all")
    config = stack.dir / "keyferry.yaml"
    before = config.read_text()
    config.write_text(before.replace("upstream:\n", f"upstream:\n  user: bob\n  password_file: {password}\n"))
    stack.stop_keyferry()
    stack.start_keyferry()
    try:
        one = clients()
        number = one.call("CLIENT", "ID")
        for _ in range(2):
            assert reset_behind(one, name) == (b"bob", number)
        assert (one.call("MULTI"), one.call("ACL", "WHOAMI"), one.call("EXEC")) == (b"OK", b"QUEUED", [b"bob"])
    finally:
        config.write_text(before)
        stack.stop_keyferry()
        stack.start_keyferry()


def test_the_kernel_says_who_is_at_the_other_end_of_a_unix_socket(clients, stack):
    before = stack.metrics().total("clients_refused_total", reason="peer")
    stranger = clients(OTHERS)
    assert stranger.reply() == "NOPERM keyferry: your user may not use this socket"
    assert ended(stranger)
    assert stack.metrics().total("clients_refused_total", reason="peer") == before + 1
    assert clients(OURS).call("ACL", "WHOAMI") == b"ann"


def test_R54_a_user_that_can_no_longer_log_in_ends_and_R58_a_changed_password_file_is_used(clients, stack):
    admin = stack.direct_info_client
    one, mapped = clients(LOCKED), clients(MAPPED)
    assert one.call("AUTH", "ann", "secret") == b"OK"
    assert one.call("ACL", "WHOAMI") == mapped.call("ACL", "WHOAMI") == b"ann"
    admin.execute_command("ACL", "SETUSER", "ann", "resetpass", ">changed")
    admin.execute_command("CLIENT", "KILL", "USER", "ann")
    for client in (one, mapped):

        def turned_away(client=client):
            reply = client.call("GET", "k")  # what was under way is lost first
            return isinstance(reply, str) and "WRONGPASS" in reply

        wait_until(turned_away, "the new login to be refused")
        assert ended(client)
    try:
        PASSWORD.write_text("changed\n")
        wait_until(lambda: clients(MAPPED).call("ACL", "WHOAMI") == b"ann", "the new password to be used")
    finally:
        PASSWORD.write_text("secret\n")


def test_R58_a_listeners_changed_password_reaches_clients_that_are_connected(clients, stack):
    admin = stack.direct_info_client
    one = clients(MAPPED)

    def of_protocol_3():
        client = clients(MAPPED)
        return client if isinstance(client.call("HELLO", 3), dict) else None

    keeper = wait_until(of_protocol_3, "the password as the test before left it to be used")
    assert (one.call("SET", "k", "v"), keeper.call("CLIENT", "TRACKING", "ON")) == (b"OK", b"OK")

    def last_commands():
        return [entry["cmd"] for entry in admin.client_list() if entry["user"] == "ann"]

    try:
        admin.execute_command("ACL", "SETUSER", "ann", "resetpass", ">newer")
        PASSWORD.write_text("newer\n")
        # Its shared channel and the one of its client's own; what lies idle goes.
        wait_until(lambda: len(last_commands()) >= 2 and set(last_commands()) == {"auth"}, "what lives to log in again", last_commands)
        assert keeper.call("GET", "k") == b"v"
        admin.execute_command("CLIENT", "KILL", "USER", "ann")
        replies = []

        def served():
            replies.append(one.call("GET", "k"))
            return replies[-1] == b"v"

        wait_until(served, "a new connection with the new password", lambda: replies)
        assert not any("WRONGPASS" in str(reply) for reply in replies), replies
        assert (one.call("MULTI"), one.call("ACL", "WHOAMI"), one.call("EXEC")) == (b"OK", b"QUEUED", [b"ann"])
    finally:
        PASSWORD.write_text("secret\n")


def test_a_password_that_the_server_wants_later_holds_for_clients_that_come_then(clients, stack):
    admin = stack.direct_info_client
    before = clients()
    assert before.call("SET", "k", "v") == b"OK"
    admin.config_set("requirepass", "later")
    try:

        def wanted():
            with stack.wire() as new:
                return str(new.call("GET", "k")).startswith("NOAUTH")

        wait_until(wanted, "a client that comes to be asked for a password")
        assert before.call("GET", "k") == b"v", "as on a connection to the server"
        new = clients()
        assert new.call("AUTH", "wrong").startswith("WRONGPASS")
        assert new.call("AUTH", "later") == b"OK"
        assert new.call("GET", "k") == b"v"
    finally:
        admin.config_set("requirepass", "")
    wait_until(lambda: clients().call("GET", "k") == b"v", "no password to be asked for any more")


@pytest.mark.parametrize("header, what", [(b"*11\r\n", "multibulk"), (b"*1\r\n$16385\r\n", "bulk")])
def test_a_stranger_may_not_announce_much(clients, header, what):
    one = clients(LOCKED)
    one.raw(header)
    assert one.reply() == f"ERR Protocol error: unauthenticated {what} length"
    assert ended(one)


def test_what_comes_behind_a_login_is_measured_as_its_users(clients):
    one = clients(LOCKED)
    one.raw(request("AUTH", "ann", "secret") + request("MGET", *["none"] * 20) + request("ECHO", "x" * 20000))
    assert [one.reply() for _ in range(3)] == [b"OK", [None] * 20, b"x" * 20000]


def test_a_login_outlives_the_password_of_a_user_that_needs_none_any_more(clients, stack):
    server = stack.direct_info_client
    server.execute_command("ACL", "SETUSER", "default", "resetpass", ">first")
    try:
        one = clients()
        assert one.call("AUTH", "first") == b"OK"
    finally:
        server.execute_command("ACL", "SETUSER", "default", "resetpass", "nopass")
    # By a connection that is made now, with a password that is none.
    assert one.call("SELECT", 7) == one.call("SET", "k", 1) == b"OK"
