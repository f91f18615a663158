"""Whoever connects behind a command that changes logins meets the change at once, and CLIENT's commands that are answered by the gateway have the server's leave."""

import contextlib
import pathlib
import tempfile

import pytest
from running_stack import PATIENCE, wait_until
from wire import Wire, request

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="kf-login-changes-"))
# Behind SUBSCRIBE commands of the second one are looked at, and RESET ends what carries them byte for byte.
DEDICATED, GUARDED = str(FOLDER / "dedicated.sock"), str(FOLDER / "guarded.sock")
NOAUTH = "NOAUTH Authentication required."

pytestmark = pytest.mark.stack(module=False, config={"workers": 2, "listen": [{"unix": DEDICATED, "upstream": "dedicated"}, {"unix": GUARDED, "deny_commands": ["FLUSHALL"]}]})


@pytest.fixture(params=["shared", "dedicated", "guarded"])
def clients(stack, request):
    made = []

    def make():
        made.append(stack.wire() if request.param == "shared" else Wire({"dedicated": DEDICATED, "guarded": GUARDED}[request.param], PATIENCE))
        return made[-1]

    make.dedicated = request.param == "dedicated"
    yield make
    stack.direct_info_client.config_set("requirepass", "")
    stack.direct_info_client.execute_command("ACL", "SETUSER", "default", "on", "nopass", "+@all")
    for client in made:
        client.close()

    def all_let_in():
        # One for each worker.
        with contextlib.ExitStack() as opened:
            return [opened.enter_context(stack.wire()).call("PING") for _ in range(4)] == [b"PONG"] * 4

    wait_until(all_let_in, "what was changed past the gateway to be noticed")


@pytest.mark.parametrize("way", ["CONFIG SET", "ACL SETUSER", "MULTI", "behind SUBSCRIBE"])
def test_whoever_comes_after_a_password_was_set_needs_it_and_after_it_was_taken_away_needs_none(clients, way):
    def change(password):
        if way == "ACL SETUSER":
            return one.call("ACL", "SETUSER", "default", *([f">{password}"] if password else ["resetpass", "nopass"])) == b"OK"
        if way != "MULTI":
            return one.call("CONFIG", "SET", "requirepass", password) == b"OK"
        queued = (one.call("MULTI"), one.call("CONFIG", "SET", "requirepass", password), one.call("ECHO", "x"))
        return queued == (b"OK", b"QUEUED", b"QUEUED") and one.call("EXEC") == [b"OK", b"x"]

    one = clients()
    if way == "behind SUBSCRIBE":
        assert (one.call("SUBSCRIBE", "c"), one.call("UNSUBSCRIBE", "c")) == ([b"subscribe", b"c", 1], [b"unsubscribe", b"c", 0])
    for turn in range(4):
        password = f"later{turn}"
        assert change(password)
        # One for each worker.
        new = [clients() for _ in range(4)]
        assert [each.call("PING") for each in new] == [NOAUTH] * 4
        assert [each.call("AUTH", password) for each in new] == [b"OK"] * 4
        assert [each.call("PING") for each in new] == [b"PONG"] * 4
        assert change("")
        assert [clients().call("PING") for _ in range(4)] == [b"PONG"] * 4
        assert new[0].call("PING") == b"PONG"


@pytest.mark.parametrize("change", [[("CONFIG", "SET", "requirepass", "x")], [("MULTI",), ("CONFIG", "SET", "requirepass", "x"), ("EXEC",)],
                                    [("SUBSCRIBE", "c"), ("UNSUBSCRIBE", "c"), ("CONFIG", "SET", "requirepass", "x")]], ids=["plainly", "MULTI", "behind SUBSCRIBE"])  # fmt: skip
def test_a_reset_in_the_same_write_as_a_new_password_meets_it(clients, change):
    one = clients()
    one.raw(b"".join(request(*words) for words in change) + request("RESET") + request("GET", "k"))
    replies = [one.reply() for _ in range(len(change) + 2)]
    assert replies[-2:] == [b"RESET", NOAUTH]
    assert (one.call("AUTH", "x"), one.call("GET", "k")) == (b"OK", None)


def test_what_was_refused_here_changes_no_logins(clients, stack):
    one = clients()
    assert one.call("CONFIG", "SET", "requirepass", "x") == b"OK"
    stranger = clients()
    assert stranger.call("CONFIG", "SET", "maxmemory", "0") == NOAUTH
    stranger.raw(100 * request("CONFIG", "SET", "maxmemory", "0") + request("RESET") + request("AUTH", "x") + request("GET", "k"))
    assert [stranger.reply() for _ in range(103)] == 100 * [NOAUTH] + [b"RESET", b"OK", None]


def test_a_name_that_is_too_long_for_a_shared_connection_is_refused(clients):
    one = clients()
    assert one.call("CLIENT", "SETNAME", "x" * 300_000) == (b"OK" if clients.dedicated else "ERR keyferry: an argument of this command is too long")
    assert one.call("PING") == b"PONG"


CLIENT_COMMANDS = [("SETNAME", "me"), ("SETINFO", "LIB-NAME", "mine"), ("SETINFO", "lib-ver", "1.0"), ("GETNAME",), ("ID",)]


@pytest.mark.parametrize("words", CLIENT_COMMANDS, ids=" ".join)
def test_R54_a_user_who_may_not_use_a_client_command_hears_so_and_nothing_changes(clients, stack, words):
    name = words[0].lower()
    stack.direct_info_client.execute_command("ACL", "SETUSER", "bob", "reset", "on", ">pw", "~*", "+@all", f"-client|{name}")
    one = clients()
    refused = f"NOPERM User bob has no permissions to run the 'client|{name}' command"
    assert one.call("AUTH", "bob", "pw") == b"OK"
    one.raw(request("PING") + request("CLIENT", *words) + request("ECHO", "behind"))
    assert [one.reply() for _ in range(3)] == [b"PONG", refused, b"behind"]
    assert (one.call("MULTI"), one.call("CLIENT", *words), one.call("DISCARD"))[1] == refused
    assert (one.call("WATCH", "k"), one.call("CLIENT", *words), one.call("UNWATCH")) == (b"OK", refused, b"OK")
    line = dict(field.split("=", 1) for field in one.call("CLIENT", "INFO").decode().split())
    assert (line["name"], line["lib-name"], line["lib-ver"]) == ("", "", "")


def test_what_a_client_says_of_itself_keeps_its_place_among_its_other_commands(clients):
    one = clients()
    one.raw(
        request("CLIENT", "SETNAME", "first") + request("INCR", "place") + request("CLIENT", "GETNAME") + request("CLIENT", "SETNAME", "not clean") + request("CLIENT", "SETNAME")
        + request("CLIENT", "SETINFO", "Lib-Name", "a b") + request("CLIENT", "SETINFO", "LIB-COLOUR", "red") + request("CLIENT", "SETNAME", "second") + request("RESET")
        + request("CLIENT", "GETNAME") + request("CLIENT", "SETNAME", "third") + request("CLIENT", "GETNAME") + request("CLIENT", "ID")
    )  # fmt: skip
    replies = [one.reply() for _ in range(13)]
    dirty = "cannot contain spaces, newlines or special characters."
    assert replies[:9] == [b"OK", replies[1], b"first", f"ERR Client names {dirty}", "ERR wrong number of arguments for 'client|setname' command", f"ERR Lib-Name {dirty}",
                           "ERR Unrecognized option 'LIB-COLOUR'", b"OK", b"RESET"]  # fmt: skip
    assert (replies[9:12], replies[12]) == ([None, b"OK", b"third"], one.call("CLIENT", "ID"))
