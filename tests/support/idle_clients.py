"""Many clients that have done something and are idle since, and what they cost keyferryd: for tests and benchmarks of that."""

import pathlib
import resource
import socket

KIB = 1024
LARGE = 256 * KIB
AT_ONCE = 100  # clients that do the same at the same time


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def bulk(value):
    return b"$%d\r\n%b\r\n" % (len(value), value)


STEPS = [  # what each client does, and the bytes it gets for it; None: one reply of unknown length
    ("PING", command(b"PING"), b"+PONG\r\n"),
    ("HELLO 3", command(b"HELLO", b"3"), None),
    ("GET of 10 bytes", command(b"GET", b"idle:small"), bulk(b"s" * 10)),
    ("200 GETs at once", command(b"GET", b"idle:small") * 200, bulk(b"s" * 10) * 200),
    ("GET of 256 KiB", command(b"GET", b"idle:large"), bulk(b"l" * LARGE)),
    ("SET of 256 KiB", command(b"SET", b"idle:large", b"l" * LARGE), b"+OK\r\n"),
]


def prepare(server):
    """`server`: a redis-py client straight to it. What the steps read is there, and so many clients may be open in this process and what it starts: returned."""
    server.set("idle:small", b"s" * 10)
    server.set("idle:large", b"l" * LARGE)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def resident(pid):
    """Bytes of memory that the process alone has, what malloc keeps for itself among them. Not the pages of programs and libraries: what falls to one process of them changes as others come and go."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:")) * KIB


def connect(address):
    """`address`: a port of 127.0.0.1, or the path of a Unix socket."""
    link = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    link.connect(address if isinstance(address, str) else ("127.0.0.1", address))
    link.settimeout(60)  # not before: a Unix socket whose queue is full would not be waited for
    return link


def read_all(link, wanted):
    if wanted is None:
        assert link.recv(1 << 16).startswith(b"%")
        return
    got = bytearray()
    while len(got) < len(wanted):
        piece = link.recv(1 << 20)
        assert piece, "closed"
        got += piece
    assert got == wanted, bytes(got[:80])


def do(links, sent, wanted):
    """All of them do it, AT_ONCE at a time."""
    for at in range(0, len(links), AT_ONCE):
        for link in links[at : at + AT_ONCE]:
            link.sendall(sent)
        for link in links[at : at + AT_ONCE]:
            read_all(link, wanted)


def warm_up(connect_one):
    """What the first clients need once is there."""
    links = [connect_one() for _ in range(8)]
    for _, sent, wanted in STEPS:
        do(links, sent, wanted)
    for link in links:
        link.close()
