"""Ordinary commands through keyferryd: the frames that the server would send, in order, to the client that asked (promise 1)."""

import socket

import pytest
from running_stack import wait_until
from ways import MIB, every_way
from wire import ErrorReply, Pattern, request

# Each is sent through keyferryd and, on keys of another name, straight to the server: the bytes must be the same.
SCRIPT = [
    ("SET", "{k}:s", "text"), ("GET", "{k}:s"), ("GET", "{k}:none"), ("APPEND", "{k}:s", "\r\n$3\r\n"), ("GET", "{k}:s"), ("STRLEN", "{k}:s"),
    ("SET", "{k}:empty", ""), ("GET", "{k}:empty"), ("MGET", "{k}:s", "{k}:none", "{k}:empty"), ("INCRBYFLOAT", "{k}:f", "2.5"),
    ("RPUSH", "{k}:l", "a", "b", "c"), ("LRANGE", "{k}:l", "0", "-1"), ("LRANGE", "{k}:none", "0", "-1"), ("LPOP", "{k}:none", "3"), ("LPOP", "{k}:l"),
    ("SADD", "{k}:set", "m"), ("SMEMBERS", "{k}:set"), ("SISMEMBER", "{k}:set", "m"), ("HSET", "{k}:h", "f", "v"), ("HGETALL", "{k}:h"),
    ("ZADD", "{k}:z", "1.5", "m"), ("ZSCORE", "{k}:z", "m"), ("ZRANGE", "{k}:z", "0", "-1", "WITHSCORES"), ("ZSCORE", "{k}:z", "none"),
    ("GET", "{k}:l"), ("INCR", "{k}:s"), ("GET",), ("NOSUCHCOMMAND", "a"), ("SET", "{k}:s", "x", "NOSUCHOPTION"), ("EVAL", "return {{1,'two',{{3}},false}}", "0"),
    ("EVAL", "return redis.error_reply('MY text')", "0"), ("ECHO", "hello"), ("TYPE", "{k}:z"), ("OBJECT", "ENCODING", "{k}:s"), ("COMMAND", "COUNT"),
    ("EXISTS", "{k}:s", "{k}:l"), ("LMPOP", "1", "{k}:none", "LEFT"), ("DEL", "{k}:s", "{k}:empty", "{k}:l", "{k}:set", "{k}:h", "{k}:z", "{k}:f"),
]  # fmt: skip


def replies_as_sent(wire, commands):
    """The raw bytes that answer these commands, sent as one pipeline with an ECHO behind them to know the end."""
    wire.raw(b"".join(request(*words) for words in commands) + request("ECHO", "the-end-of-it"))
    answer = b""
    while not answer.endswith(b"$13\r\nthe-end-of-it\r\n"):
        part = wire.socket.recv(65536)
        assert part, f"closed after {answer!r}"
        answer += part
    return answer


@every_way
def test_R20_every_reply_is_byte_for_byte_the_servers_own(stack, unix, protocol):
    def commands(key):
        return [tuple(word.format(k=key) for word in words) for words in SCRIPT]

    with stack.wire(unix=unix, protocol=protocol) as through, stack.wire(direct=True) as direct:
        if protocol == 3:
            direct.call("HELLO", 3)
        assert replies_as_sent(through, commands("aa")) == replies_as_sent(direct, commands("bb"))


@every_way
def test_a_pipeline_of_thousands_is_answered_in_order(stack, unix, protocol):
    count = 20000
    with stack.wire(unix=unix, protocol=protocol) as wire:
        wire.send("DEL", "counter")
        wire.reply()
        wire.raw(b"".join(request("INCR", "counter") + request("ECHO", str(number)) for number in range(1, count + 1)))
        for number in range(1, count + 1):
            assert wire.reply() == number
            assert wire.reply() == str(number).encode()


def test_the_handshake_of_a_client_keeps_its_place_in_a_pipeline(stack):
    with stack.wire() as wire:
        wire.raw(
            request("SET", "place", "1") + request("PING") + request("CLIENT", "SETINFO", "LIB-NAME", "by-hand") + request("GET", "place")
            + request("HELLO", "3") + request("HGETALL", "no-such-hash") + request("ECHO", "x") + request("PING", "y") + request("SELECT", "0")
            + request("CLIENT", "SETNAME", "me") + request("INCR", "place") + request("HELLO", "2") + request("HGETALL", "no-such-hash")
        )  # fmt: skip
        assert [wire.reply() for _ in range(4)] == [b"OK", b"PONG", b"OK", b"1"]
        hello = wire.reply()
        assert isinstance(hello, dict) and hello[b"proto"] == 3
        assert [wire.reply() for _ in range(6)] == [{}, b"x", b"y", b"OK", b"OK", 2]
        hello = wire.reply()
        assert isinstance(hello, list) and hello[hello.index(b"proto") + 1] == 2
        assert wire.reply() == []


def test_R7_a_refused_command_gets_one_error_that_says_why_and_the_connection_lives(stack):
    refused = [
        ("BLOB.RDMA_HELLO", "00"), ("BLOB.RDMA_GET", "k", "1", "0", "5"), ("BLOB.RDMA_SET", "k", "5", "1", "0", "5"),
    ]  # fmt: skip
    with stack.wire() as wire:
        wire.raw(b"".join(request(*words) + request("ECHO", " ".join(words)) for words in refused))
        for words in refused:
            answer = wire.reply()
            assert isinstance(answer, ErrorReply), f"{words} was answered with {answer!r}"
            assert "keyferry" in answer, f"{words}: whose error is {answer!r}?"
            assert wire.reply() == " ".join(words).encode()
    # Nothing that was refused has reached a connection that others share.
    with stack.wire() as wire:
        assert wire.call("SET", "after", "1") == b"OK"


def test_R1_a_null_inside_a_command_is_a_protocol_error_and_closes_that_client_only(stack):
    with stack.wire() as bystander, stack.wire() as wire:
        assert bystander.call("PING") == b"PONG"
        wire.raw(b"*2\r\n$3\r\nGET\r\n$-1\r\n")
        answer = wire.reply()
        assert isinstance(answer, ErrorReply) and answer.startswith("ERR Protocol error: invalid bulk length")
        wire.expect_end()
        assert bystander.call("SET", "bystander", "1") == b"OK"


def test_R2_empty_commands_are_consumed_without_a_reply(stack):
    with stack.wire() as wire:
        wire.raw(b"*0\r\n*-1\r\n\r\n" + request("PING") + b"*0\r\n" + request("ECHO", "x"))
        assert wire.reply() == b"PONG"
        assert wire.reply() == b"x"


def test_R3_inline_commands_are_understood_with_their_quoting(stack):
    with stack.wire() as wire:
        wire.raw(b"PING\r\n  ECHO   \"a b\\x41\\n\"  \r\nSET inline 'it\\'s'\nGET inline\r\n" + request("PING"))
        assert [wire.reply() for _ in range(5)] == [b"PONG", b"a bA\n", b"OK", b"it's", b"PONG"]
        wire.raw(b'ECHO "never closed\r\n')
        assert wire.reply().startswith("ERR Protocol error: unbalanced quotes in request")
        wire.expect_end()


@pytest.mark.parametrize(
    "sent",
    [b"*1\r\n:5\r\n", b"*x\r\n", b"*99999999999\r\n", b"*1\r\n$-5\r\n", b"*1\r\n$x\r\n", b"*1\r\n$600000000\r\n", b"A" * 70000],
    ids=["no-bulk", "count", "huge-count", "negative", "length", "over-the-limit", "line-too-long"],
)
def test_malformed_requests_get_the_servers_own_protocol_error_and_are_closed(stack, sent):
    def answer(direct):
        with stack.wire(direct=direct) as wire:
            wire.raw(request("PING") + sent)
            assert wire.reply() == b"PONG"
            said = wire.reply()
            wire.expect_end()
            return said

    said = answer(direct=False)
    assert isinstance(said, ErrorReply) and said == answer(direct=True)


@every_way
@pytest.mark.parametrize("size", [MIB, 10 * MIB, 100 * MIB], ids=["1MiB", "10MiB", "100MiB"])
def test_plain_values_of_any_size_pass_through(stack, unix, protocol, size):
    value = Pattern(size, seed=size + protocol)
    with stack.wire(unix=unix, protocol=protocol) as wire:
        wire.send_value("SET", "plain", value)
        assert wire.reply() == b"OK"
        wire.send("GET", "plain")
        assert wire.expect_value(value) is None
        assert wire.call("DEL", "plain") == 1


def test_a_slow_reader_gets_everything_and_delays_nobody(stack):
    size, count = 4 * MIB, 24  # more than client_buffer holds
    value = Pattern(size, seed=5)
    with stack.wire() as slow, stack.wire() as other:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.send_value("SET", "slow", value)
        assert slow.reply() == b"OK"
        for _ in range(count):
            slow.send("GET", "slow")
        # The slow one has not read a byte of its 96 MiB; the other is served meanwhile.
        for number in range(200):
            assert other.call("ECHO", str(number)) == str(number).encode()
        for _ in range(count):
            assert slow.expect_value(value) is None
        assert slow.call("DEL", "slow") == 1


def test_quit_is_answered_and_then_closed(stack):
    with stack.wire() as wire:
        wire.raw(request("SET", "quit", "1") + request("QUIT"))
        assert [wire.reply(), wire.reply()] == [b"OK", b"OK"]
        wire.expect_end()


def test_R9_a_command_in_single_bytes_is_the_same_command(stack):
    with stack.wire() as wire:
        for byte in request("SET", "bytewise", "a\r\nb") + request("GET", "bytewise"):
            wire.raw(bytes([byte]))
        assert [wire.reply(), wire.reply()] == [b"OK", b"a\r\nb"]


def test_R134_a_client_whose_upload_lost_its_server_while_it_paused_is_served_on(stack):
    """Somebody waited for its next bytes when another took over what is done with them."""
    value = Pattern(8 << 20)
    with stack.wire() as client:
        sent = stack.metrics().total("bytes_total", direction="out", side="server")
        client.send_value("SET", "upload", value, upto=value.length // 2)
        wait_until(lambda: stack.metrics().total("bytes_total", direction="out", side="server") - sent >= value.length // 2, "half of it to be at the server")
        stack.direct_info_client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        assert isinstance(client.reply(), ErrorReply)
        for piece in value.pieces(value.length // 2):
            client.raw(piece)
        client.raw(b"\r\n" + request("PING"))
        assert client.reply() == b"PONG"
    wait_until(lambda: stack.metrics().total("clients") == 0, "its place to be free")
