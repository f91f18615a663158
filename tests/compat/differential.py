"""Can a client tell keyferryd from the server? The same random commands go straight to one server, and through keyferryd to another one of the same options;
every reply must be the same, byte for byte, and so must what is stored in the end.

    "$(tests/support/python)" tests/compat/differential.py 1 200 [--steps 60] [--dedicated] [--families identity,pubsub]

runs the seeds 1 to 200 and prints each difference as the shortest sequence that shows it. The commands, and what is known to differ, are in
differential_commands.py. A step is sent to the server first; when it has nothing more to say, keyferryd gets the same step, and time to say as much.
"""

import argparse
import dataclasses
import pathlib
import random
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from differential_commands import CLIENT_WORDS, Maker  # noqa: E402
from running_stack import Stack, StackOptions, wait_until  # noqa: E402
from wire import Wire  # noqa: E402

WAIT = 0.05  # seconds, longer than the commands that wait for a while
PATIENCE = 10  # seconds for keyferryd to say what the server said
TO_LEAVE = 10  # seconds for a client that is gone to be gone at the server: keyferryd looks once a second for what it can't read
BLOCKING = (b"BLPOP", b"BRPOP", b"BLMOVE", b"BLMPOP", b"BRPOPLPUSH", b"BZPOPMIN", b"BZPOPMAX", b"BZMPOP", b"WAIT", b"WAITAOF", b"BLOB.TCP_SET", b"BLOB.TCP_GET")
SERVER_OPTIONS = ["--hash-seed", "differential", "--activerehashing", "no"]  # the same order of sets and hashes

# --- what may differ -----------------------------------------------------------------------------------------------------------------


def any_number(one, other):
    return one[0] in (":", ",") and one[0] == other[0]


def near(one, other):
    return any_number(one, other) and abs(float(one[1]) - float(other[1])) <= 60000


def any_text(one, other):
    return one[0] in "$+=,:" and one[0] == other[0]


def any_order(one, other):
    return isinstance(one[1], list) and in_order(one) == in_order(other)


def in_order(frame):
    return (frame[0], sorted(map(in_order, frame[1]), key=repr)) if isinstance(frame[1], list) else frame


def number_or_order(one, other):
    return any_number(one, other) or any_order(one, other)


# Commands (the beginning of their names) whose replies may differ in single values, how, and why.
MAY_DIFFER = {
    "CLIENT ID": (any_number, "ids are the gateway's"),
    "HELLO": (number_or_order, "the client's id, and modules stand in any order"), "MODULE LIST": (any_order, "any order"),
    "FUNCTION LIST": (any_order, "any order"), "FUNCTION DUMP": (any_text, "any order"),
    "COMMAND": (any_order, "any order"), "ACL CAT": (any_order, "any order"),
    "CLIENT GETREDIR": (any_number, "ids are the gateway's"),
    "CLIENT TRACKINGINFO": (any_number, "ids are the gateway's"),
    "CLIENT INFO": (any_text, "ids and addresses"),
    "TTL": (near, "time passes"), "PTTL": (near, "time passes"), "EXPIRETIME": (near, "time"), "PEXPIRETIME": (near, "time"),
    "HTTL": (near, "time passes"), "HPTTL": (near, "time passes"), "HEXPIRETIME": (near, "time"), "HPEXPIRETIME": (near, "time"),
    "OBJECT IDLETIME": (near, "time passes"), "XINFO": (near, "how long consumers have been idle"), "XPENDING": (near, "how long entries have been pending"),
    "TIME": (any_text, "time"), "LASTSAVE": (near, "time"), "ROLE": (near, "offset of replication"),
    "RANDOMKEY": (any_text, "random"), "SRANDMEMBER": (any_text, "random"), "HRANDFIELD": (any_text, "random"), "ZRANDMEMBER": (any_text, "random"),
    "INFO": (any_text, "counts and ids of the server"), "MEMORY STATS": (any_text, "of the server"), "MEMORY MALLOC-STATS": (any_text, "of the server"),
    "MEMORY DOCTOR": (any_text, "of the server"),
    "LATENCY": (any_text, "times"), "SLOWLOG": (any_text, "times"), "COMMANDLOG": (any_text, "times"), "ACL LOG": (any_text, "ids, ages and addresses"),
    "CLUSTER MYID": (any_text, "random"), "CLUSTER INFO": (any_text, "counts"),
}  # fmt: skip


def same(one, other, rules):
    """Of two parsed frames: equal, or different in no more than the rules allow."""
    if one == other or any(rule(one, other) for rule in rules):
        return True
    if one[0] != other[0] or not isinstance(one[1], list) or not isinstance(other[1], list) or len(one[1]) != len(other[1]):
        return False
    return all(same(mine, its, rules) for mine, its in zip(one[1], other[1], strict=True))


# --- frames ------------------------------------------------------------------------------------------------------------------------


class Incomplete(Exception):
    pass


def parse(data, at):
    """The frame of data that begins at `at` as (kind, bytes or list), and where it ends."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise Incomplete
    kind, rest, at = chr(data[at]), bytes(data[at + 1 : end]), end + 2
    if kind in "$=!" and rest != b"-1":
        if len(data) < at + int(rest) + 2:
            raise Incomplete
        return (kind, bytes(data[at : at + int(rest)])), at + int(rest) + 2
    if kind in "*~>%|" and rest != b"-1":
        parts = []
        for _ in range(int(rest) * (2 if kind in "%|" else 1) + (kind == "|")):
            part, at = parse(data, at)
            parts.append(part)
        return (kind, parts), at
    return (kind, rest), at


class Link:
    """One connection of a client."""

    def __init__(self, address):
        with Wire(address, PATIENCE) as wire:
            wire.send("CLIENT", "ID")
            self.id = str(wire.reply()).encode()
            self.socket = wire.socket.dup()
        self.socket.setblocking(False)
        self.data = bytearray()
        self.frames = []  # (raw bytes, parsed) since the last step
        self.ended = False

    def read(self):
        """Takes what there is. FIN or RST: both are the end."""
        try:
            while part := self.socket.recv(1 << 20):
                self.data += part
            self.ended = True
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True
        at = 0
        try:
            while at < len(self.data):
                frame, end = parse(self.data, at)
                self.frames.append((bytes(self.data[at:end]), frame))
                at = end
        except (Incomplete, ValueError):
            pass
        del self.data[:at]

    def write(self, data):
        limit = time.monotonic() + PATIENCE
        while data and not self.ended and time.monotonic() < limit:
            try:
                data = data[self.socket.send(data) :]
            except BlockingIOError:
                select.select([self.socket], [self.socket], [], 0.1)
            except OSError:
                break
            self.read()

    def seen(self):
        return len(self.frames), self.ended, len(self.data)


class Side:
    """A way to a server, with the connections of a sequence; `admin` is a connection past all."""

    def __init__(self, address, server_port):
        self.address = address
        self.admin = Wire(("127.0.0.1", server_port), 30)
        self.links = {}

    def send(self, step):
        """On its connection, which is made if there is none, or none any more."""
        link = self.links.get(step.connection)
        if link is None or link.ended:
            link = self.links[step.connection] = Link(self.address)
        ids = {word: self.links[number].id for number, word in enumerate(CLIENT_WORDS) if number in self.links}
        data = b"".join(one.data(ids) for one in step.requests)
        cut = step.cut % len(data)
        link.write(data[:cut])
        if cut:
            time.sleep(0.002)
        link.write(data[cut:])

    def read(self):
        for link in self.links.values():
            link.read()

    def blocked(self):
        return re.search(rb"\r\nblocked_clients:(\d+)", self.admin.call("INFO", "clients"))[1]

    def settle(self, turns, seconds):
        """Waits until the server itself has nothing more to say to anybody, for the clients that it blocks some seconds."""
        limit = time.monotonic() + seconds
        while turns > 0 or (time.monotonic() < limit and self.blocked() != b"0"):
            self.admin.call("PING")
            self.read()
            turns -= 1

    def match(self, other, patience):
        """Waits until this side has said as much as the other one; what it says beyond that is seen then, or at the next step."""
        limit = time.monotonic() + patience
        while time.monotonic() < limit:
            self.read()
            waiting = [link for number, link in self.links.items() if link.seen() < other.links[number].seen()]
            if not waiting:
                return
            select.select([link.socket for link in waiting if not link.ended], [], [], 0.01)

    def leave(self, patience):
        """Closes all connections. What of them is still at the server after a while."""
        for link in self.links.values():
            link.socket.close()
        self.links = {}
        limit = time.monotonic() + patience
        while True:
            clients = self.admin.call("INFO", "clients").decode()
            kept = [kind for kind in ("pubsub_clients", "tracking_clients", "blocked_clients", "watching_clients") if f"\r\n{kind}:0\r\n" not in clients]
            if not kept or time.monotonic() > limit:
                return kept
            time.sleep(0.005)

    def reset(self):
        """As a fresh server. A client that waits although its own is gone would spoil the next sequence."""
        self.admin.call("CLIENT", "KILL", "FLAGS", "b")
        users = [user for user in self.admin.call("ACL", "USERS") if user != b"default"]
        for words in (
            ["CLIENT", "UNPAUSE"], ["FLUSHALL"], ["FUNCTION", "FLUSH"], ["SCRIPT", "FLUSH"], *([["ACL", "DELUSER", *users]] if users else []),
            ["ACL", "LOG", "RESET"], ["ACL", "SETUSER", "default", "on", "nopass", "~*", "&*", "+@all"], ["CONFIG", "RESETSTAT"], ["LATENCY", "RESET"],
            ["SLOWLOG", "RESET"], ["CONFIG", "SET", "notify-keyspace-events", ""],
        ):  # fmt: skip
            self.admin.call(*words)


# --- a run -------------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Difference:
    """At a step (its number), on a connection, what the server and what keyferryd said."""

    step: int
    connection: int
    server: str
    keyferry: str

    def __str__(self):
        return f"    connection {self.connection}: the server {self.server}\n                  keyferryd {self.keyferry}"


def shown(frame):
    return repr(frame if len(frame) <= 300 else frame[:200] + b"...%d more..." % (len(frame) - 300) + frame[-100:])


def said(link):
    frames = " ".join(shown(raw) for raw, _ in link.frames) or "nothing"
    return f"said {frames}" + (f" and then {shown(bytes(link.data))}" if link.data else "") + (" and closed" if link.ended else "")


class Pair:
    """Both sides, for one sequence after the other."""

    def __init__(self, dedicated=False):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kf-"))
        listen = [{"unix": str(self.folder / "dedicated.sock"), "upstream": "dedicated"}] if dedicated else []
        self.stack = Stack(StackOptions(config={"listen": listen}))
        command = (self.stack.dir / "server.command").read_text().split("\0") + SERVER_OPTIONS
        (self.stack.dir / "server.command").write_text("\0".join(command))
        self.stack.restart_valkey()
        self.stack.wait_ready()
        with socket.create_server(("127.0.0.1", 0)) as free:
            direct = free.getsockname()
        command[command.index("--port") + 1] = str(direct[1])
        self.server = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_until(lambda: reachable(direct), "the server to listen")
        through = listen[0]["unix"] if dedicated else ("127.0.0.1", self.stack.port)
        self.sides = self.direct, self.through = Side(direct, direct[1]), Side(through, self.stack.valkey_port)
        self.docs = documentation(direct)
        self.patience = PATIENCE

    def close(self):
        for side in self.sides:
            side.leave(0)
            side.reset()
            side.admin.close()
        self.server.terminate()
        self.server.wait()
        self.stack.close()
        shutil.rmtree(self.stack.dir, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def first_difference(self, steps):
        """Runs the steps on fresh connections. None: there was no difference."""
        for side in self.sides:
            side.leave(0)
            side.reset()
        may_wait = False
        names = {}  # of each connection
        for number, step in enumerate(steps):
            mine = names[step.connection] = Names(names.get(step.connection), step)
            may_wait = may_wait or mine.waits  # and may be followed by others, which wait later
            try:
                for side in self.sides:
                    side.send(step)
                    if side is self.direct:
                        side.settle(4 + len(step.requests) + mine.bytes // 8192, WAIT if may_wait else 0)
                    else:
                        side.match(self.direct, self.patience)
            except OSError as error:
                return Difference(number, step.connection, "", f"{type(error).__name__}: {error}")
            if may_wait:
                limit = time.monotonic() + WAIT
                while self.through.blocked() != self.direct.blocked() and time.monotonic() < limit:
                    time.sleep(0.001)
            if len(self.direct.links[step.connection].frames) < len(step.requests):
                time.sleep(0.01)  # there was no reply to wait for, so the next step might overtake
            difference = self.compare(number, names)
            if difference:
                return difference
        time.sleep(0.02)
        for side in self.sides:
            side.read()
        difference = self.compare(len(steps) - 1, names)
        if difference:
            return difference
        stored = [side.admin.call("DEBUG", "DIGEST") for side in self.sides]
        if stored[0] != stored[1]:
            return Difference(len(steps) - 1, -1, f"stores {stored[0]}", f"stores {stored[1]}")
        kept = [side.leave(TO_LEAVE) for side in self.sides]
        if kept[0] != kept[1]:
            return Difference(len(steps) - 1, -1, f"keeps {kept[0]} of clients that are gone", f"keeps {kept[1]}")
        return None

    def compare(self, step, names):
        for number, link in self.direct.links.items():
            other = self.through.links[number]
            rules = [rule for prefix, (rule, _) in MAY_DIFFER.items() if any(name.startswith(prefix) for name in names[number].all)]
            equal = len(link.frames) == len(other.frames) and link.ended == other.ended and link.data == other.data
            if not equal or not all(raw == its or same(frame, its_frame, rules)
                                    for (raw, frame), (its, its_frame) in zip(link.frames, other.frames, strict=True)):  # fmt: skip
                return Difference(step, number, said(link), said(other))
            link.frames, other.frames = [], []
        return None


class Names:
    """The commands whose replies may come to a connection now: those of its last two steps, of its transaction, and what stands behind one that waits."""

    def __init__(self, before, step):
        self.last = {one.name for one in step.requests}
        first_words = {name.split(" ")[0] for name in self.last}
        self.bytes = sum(len(one.data({})) for one in step.requests)
        self.waits = any(b"BLOCK" in one.words or one.words[:1] and one.words[0].upper() in BLOCKING for one in step.requests)
        self.open = before.open if before else set()
        if self.open or self.waits or "MULTI" in first_words:
            self.open = self.open | self.last
        self.all = self.last | self.open | (before.last if before else set())
        if first_words & {"EXEC", "DISCARD", "RESET"}:
            self.open = set()


def reachable(address):
    try:
        socket.create_connection(address).close()
        return True
    except OSError:
        return False


def documentation(address):
    """COMMAND DOCS of all commands that have no subcommands, and of the subcommands."""
    with Wire(address, PATIENCE) as wire:
        wire.call("HELLO", 3)
        docs = wire.call("COMMAND", "DOCS")
    flat = {name: its for name, its in docs.items() if b"subcommands" not in its}
    for its in docs.values():
        flat.update(its.get(b"subcommands", {}))
    return {name.decode(): its for name, its in flat.items()}


def steps_of(seed, docs, count, families=()):
    maker = Maker(random.Random(seed), docs)
    if families:
        maker.weights = {name: int(name in families) for name in maker.weights}
    return list(maker.steps(count))


# --- the shortest sequence -----------------------------------------------------------------------------------------------------------


def shortest(steps, still):
    """Fewer steps and fewer commands with which still(steps) is true, without searching for the least of all."""
    size = max(1, len(steps) // 2)
    while True:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if fewer and still(fewer):
                steps = fewer
            else:
                at += size
        if size == 1:
            break
        size //= 2
    for at in range(len(steps)):
        for request_at in reversed(range(len(steps[at].requests))):
            fewer = steps[at].requests[:request_at] + steps[at].requests[request_at + 1 :]
            changed = steps[:at] + [dataclasses.replace(steps[at], requests=fewer)] + steps[at + 1 :]
            if fewer and still(changed):
                steps = changed
        changed = steps[:at] + [dataclasses.replace(steps[at], cut=0)] + steps[at + 1 :]
        if steps[at].cut and still(changed):
            steps = changed
    return steps


def described(step):
    lines = [" ".join(shown(word)[1:] for word in one.words) or shown(one.raw) for one in step.requests]
    return f"    {step.connection}> " + f"\n       ".join(lines) + (f"\n       (in two writes, cut at {step.cut})" if step.cut else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--dedicated", action="store_true", help="a listener with `upstream: dedicated`")
    parser.add_argument("--families", default="", help="only these families of commands, e.g. identity,pubsub")
    options = parser.parse_args()
    pair = Pair(options.dedicated)
    found = 0
    try:
        for seed in range(options.first, options.last + 1):
            steps = steps_of(seed, pair.docs, options.steps, [name for name in options.families.split(",") if name])
            difference = pair.first_difference(steps)
            if difference is None:
                continue
            steps = steps[: difference.step + 1]
            again = pair.first_difference(steps)
            if again:
                pair.patience = PATIENCE / 5
                steps = shortest(steps, pair.first_difference)
                pair.patience = PATIENCE
                again = pair.first_difference(steps) or again
            else:
                steps = steps[-3:]
            found += 1
            print(f"seed {seed}{'' if again else ', once (the end of it)'}", *map(described, steps), again or difference, sep="\n", flush=True)
    finally:
        pair.close()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
