"""A client of the BLOB commands in small: RESP over a socket, and the fabric's passive side by way of fabric_client.cpp."""

import ctypes
import os
import pathlib
import socket

PATIENCE = float(os.environ.get("KEYFERRY_TEST_PATIENCE", "60"))
HERE = pathlib.Path(__file__).resolve().parent


def build_folder():
    """Where large_object.so and fabric_client.so are: $LARGE_OBJECT_BUILD, or the release build of the tree."""
    given = os.environ.get("LARGE_OBJECT_BUILD")
    return pathlib.Path(given) if given else HERE.parents[3] / "build/release/tests/support/large_object"


class Error(str):
    """An error reply."""


class Status(str):
    """A simple string."""


class Resp:
    """One connection; replies as they are on the wire: int, bytes, None, list, Status, Error."""

    def __init__(self, port, protocol=2):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")
        if protocol == 3:
            self.call("HELLO", 3)

    def send(self, *words):
        parts = [word if isinstance(word, (bytes, bytearray, memoryview)) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts))

    def read(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return Status(rest.decode())
        if kind == b"-":
            return Error(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"_" or rest == b"-1":
            return None
        if kind in (b"$", b"="):
            return self.stream.read(int(rest) + 2)[:-2]
        if kind in (b"*", b"~"):
            return [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        raise ValueError(f"not RESP: {line!r}")

    def call(self, *words):
        self.send(*words)
        return self.read()

    def info(self, section="largeobj"):
        lines = self.call("INFO", section).decode().splitlines()
        return {name: int(value) if value.isdigit() else value for name, _, value in (line.partition(":") for line in lines if ":" in line)}

    def close(self):
        self.stream.close()  # holds the socket too
        self.socket.close()


def _library():
    library = ctypes.CDLL(str(build_folder() / "fabric_client.so"))
    library.fabric_client_open.restype = ctypes.c_void_p
    library.fabric_client_open.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.fabric_client_address.restype = ctypes.c_size_t
    library.fabric_client_address.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    library.fabric_client_insert.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.fabric_client_register.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint64),
                                               ctypes.POINTER(ctypes.c_uint64)]
    library.fabric_client_poll.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.fabric_client_close_endpoint.argtypes = [ctypes.c_void_p]
    library.fabric_client_close.argtypes = [ctypes.c_void_p]
    library.fabric_client_crc32c.restype = ctypes.c_uint32
    library.fabric_client_crc32c.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


class Region:
    """Registered memory: `view` is the bytes, triple() a window of it in the command's form."""

    def __init__(self, size):
        self.memory = (ctypes.c_ubyte * size)()
        self.view = memoryview(self.memory).cast("B")
        self.key = ctypes.c_uint64()
        self.base = ctypes.c_uint64()

    def triple(self, offset=0, length=None):
        return [self.key.value, self.base.value + offset, len(self.view) - offset if length is None else length]


class Endpoint:
    """A fabric endpoint that polls unless told otherwise."""

    library = None

    def __init__(self, libfabric="", polling=True):
        Endpoint.library = Endpoint.library or _library()
        problem = ctypes.create_string_buffer(500)
        self.handle = self.library.fabric_client_open(libfabric.encode(), b"127.0.0.1", problem, len(problem))
        if not self.handle:
            raise RuntimeError(problem.value.decode())
        self.regions = []
        if polling:
            self.poll(True)

    @property
    def address(self):
        out = ctypes.create_string_buffer(64)
        length = self.library.fabric_client_address(self.handle, out, len(out))
        return out.raw[:length]

    def insert(self, address):
        assert len(address) == len(self.address) and address[:2] == self.address[:2]
        assert self.library.fabric_client_insert(self.handle, address) == 1

    def register(self, size):
        region = Region(size)
        code = self.library.fabric_client_register(self.handle, region.memory, size, ctypes.byref(region.key), ctypes.byref(region.base))
        assert code == 0, code
        self.regions.append(region)
        return region

    def poll(self, on):
        self.library.fabric_client_poll(self.handle, on)

    def close_endpoint(self):
        self.library.fabric_client_close_endpoint(self.handle)

    def close(self):
        if self.handle:
            self.library.fabric_client_close(self.handle)
        self.handle = None


def crc32c(data):
    Endpoint.library = Endpoint.library or _library()
    data = bytes(data)
    return Endpoint.library.fabric_client_crc32c(data, len(data))


class Lane(Resp):
    """A connection that has done BLOB.RDMA_HELLO, with an endpoint of its own."""

    def __init__(self, port, protocol=2, libfabric="", polling=True):
        super().__init__(port, protocol)
        self.endpoint = Endpoint(libfabric, polling)
        self.services = self.hello()

    def hello(self):
        reply = self.call("BLOB.RDMA_HELLO", self.endpoint.address.hex())
        assert isinstance(reply, list), reply
        addresses = [bytes.fromhex(text.decode()) for text in reply]
        for address in addresses:
            self.endpoint.insert(address)
        return addresses

    def register(self, size):
        return self.endpoint.register(size)

    def set(self, key, triples, length, crc=None):
        self.send_set(key, triples, length, crc)
        return self.read()

    def send_set(self, key, triples, length, crc=None):
        self.send("BLOB.RDMA_SET", key, length, *([] if crc is None else ["CRC", crc]), *(word for triple in triples for word in triple))

    def get(self, key, triples):
        self.send_get(key, triples)
        return self.read()

    def send_get(self, key, triples):
        self.send("BLOB.RDMA_GET", key, *(word for triple in triples for word in triple))

    def close(self):
        super().close()
        self.endpoint.close()
