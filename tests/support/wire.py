"""RESP by hand: for what a client library would hide (bytes on the wire, halves of commands) and for values too big to hold twice."""

import hashlib
import random
import socket

BLOCK = random.Random(20240229).randbytes(1048573)  # a prime length: no shift by a page, a chunk or a region looks the same
BUFFER = 1 << 20


class Pattern:
    """`length` bytes that nobody has to hold: the block again and again, from a place that `seed` chooses."""

    def __init__(self, length, seed=0):
        self.length = length
        self.start = (seed * 7919) % len(BLOCK)

    def pieces(self, begin=0, end=None):
        """Views of the bytes from begin to end, in order."""
        end = self.length if end is None else end
        block = memoryview(BLOCK)
        while begin < end:
            at = (self.start + begin) % len(BLOCK)
            piece = block[at : at + min(end - begin, len(BLOCK) - at)]
            yield piece
            begin += len(piece)

    def bytes(self):
        return b"".join(self.pieces())

    def digest(self):
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()


class WireError(AssertionError):
    pass


class ErrorReply(str):
    """An error that the peer sent: its text from the code on."""


def ended(client):
    """That a connection has ended, with nothing more said."""
    try:
        client.reply()
    except EOFError:
        return True
    return False


def request(*words):
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(word), word))
    return b"".join(parts)


class Wire:
    """One connection. Replies come as bytes (simple and bulk strings), int, None, list, dict, bool, float or ErrorReply."""

    def __init__(self, address, timeout):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._store = bytearray(BUFFER)
        self._buffer = memoryview(self._store)
        self._begin = self._end = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # --- writing

    def send(self, *words):
        self.socket.sendall(request(*words))

    def raw(self, data):
        self.socket.sendall(data)

    def send_value(self, command, key, pattern, upto=None):
        """`command key value`; with `upto` only that many bytes of the value, and no end."""
        self.raw(b"*3\r\n" + request(command, key).removeprefix(b"*2\r\n") + b"$%d\r\n" % pattern.length)
        for piece in pattern.pieces(0, upto):
            self.raw(piece)
        if upto is None:
            self.raw(b"\r\n")

    def call(self, *words):
        self.send(*words)
        return self.reply()

    # --- reading

    def _fill(self):
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._end == BUFFER:
            rest = self._buffer[self._begin : self._end].tobytes()
            self._buffer[: len(rest)] = rest
            self._begin, self._end = 0, len(rest)
        count = self.socket.recv_into(self._buffer[self._end :])
        if count == 0:
            raise EOFError("the peer closed the connection")
        self._end += count

    def line(self):
        while True:
            end = self._store.find(b"\r\n", self._begin, self._end)
            if end >= 0:
                text = bytes(self._buffer[self._begin : end])
                self._begin = end + 2
                return text
            if self._end - self._begin > 65536:
                raise WireError(f"a line of more than 64 KiB: {bytes(self._buffer[self._begin : self._begin + 80])!r}")
            self._fill()

    def exactly(self, count):
        parts = []
        for piece in self._views(count):
            parts.append(piece.tobytes())
        return b"".join(parts)

    def _views(self, count):
        """The next `count` bytes as views, each valid until the next is asked for."""
        while count > 0:
            if self._begin == self._end:
                self._fill()
            piece = self._buffer[self._begin : min(self._end, self._begin + count)]
            self._begin += len(piece)
            count -= len(piece)
            yield piece

    def _crlf(self):
        end = self.exactly(2)
        if end != b"\r\n":
            raise WireError(f"a bulk string ends with {end!r}")

    def reply(self):
        header = self.line()
        kind, rest = header[:1], header[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ErrorReply(rest.decode(errors="backslashreplace"))
        if kind == b":":
            return int(rest)
        if kind in b"$=":
            if rest == b"-1":
                return None
            body = self.exactly(int(rest))
            self._crlf()
            return body
        if kind in b"*~>":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        if kind == b"%":
            return dict((self.reply(), self.reply()) for _ in range(int(rest)))
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        if kind == b"(":
            return int(rest)
        if kind == b"!":
            body = self.exactly(int(rest))
            self._crlf()
            return ErrorReply(body.decode(errors="backslashreplace"))
        raise WireError(f"no RESP type begins with {header[:40]!r}")

    def expect_value(self, pattern):
        """The reply must be a bulk string of exactly these bytes; compared as it comes. An error reply is returned, for the caller to judge."""
        header = self.line()
        if header[:1] == b"-":
            return ErrorReply(header[1:].decode(errors="backslashreplace"))
        if header != b"$%d" % pattern.length:
            raise WireError(f"the reply begins with {header[:60]!r}, not with ${pattern.length}")
        self.expect_body(pattern)
        return None

    def expect_body(self, pattern):
        """What follows a bulk string's header: exactly these bytes and CR LF."""
        at = 0
        for piece in self._views(pattern.length):
            for wanted in pattern.pieces(at, at + len(piece)):
                if piece[: len(wanted)] != wanted:
                    first = next(i for i in range(len(wanted)) if piece[i] != wanted[i])
                    raise WireError(f"byte {at + first} of {pattern.length} is wrong")
                piece = piece[len(wanted) :]
                at += len(wanted)
        self._crlf()

    def expect_end(self):
        """The peer closes, and sends nothing before it does."""
        try:
            self._fill()
        except EOFError:
            return
        except ConnectionResetError:
            return
        raise WireError(f"bytes instead of the end: {self._buffer[self._begin : self._end].tobytes()[:200]!r}")
