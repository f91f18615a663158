"""The ways into the gateway in the words of each client, and values whose loss or mix-up would show."""

import hashlib
import random

MIB = 1 << 20


def bytes_of(length, seed):
    """Bytes that no compression, repetition or shifted copy could fake; the same for the same seed."""
    return random.Random(seed).randbytes(length)


def digest(value):
    return hashlib.sha256(value).hexdigest()


class Way:
    """One listener of the gateway."""

    def __init__(self, name, stack):
        self.unix = name == "unix"
        self.path = stack.unix
        self.port = stack.port

    def javascript(self):
        return {"path": self.path} if self.unix else {"host": "127.0.0.1", "port": self.port}

    def benchmark(self):
        return ["-s", self.path] if self.unix else ["-h", "127.0.0.1", "-p", str(self.port)]
