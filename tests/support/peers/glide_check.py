"""Proves that a GLIDE build works: opens it on the tcp provider against a minimal RESP server and registers a region."""

import socket
import threading

from glide_sync import GlideClient, GlideClientConfiguration, NodeAddress, RdmaConfiguration, RdmaProvider

CRC32C_OF_123456789 = 0xE3069283
REPLIES = {b"HELLO": b"%1\r\n+proto\r\n:3\r\n", b"INFO": b"$13\r\nrole:master\r\n\r\n"}


def serve(listener):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection):
    stream = connection.makefile("rb")
    while line := stream.readline():
        words = [stream.read(int(stream.readline()[1:]) + 2)[:-2].upper() for _ in range(int(line[1:]))]
        connection.sendall(REPLIES.get(words[0], b"+OK\r\n"))


def main():
    if not GlideClient.rdma_available():
        raise SystemExit("glide_check: the native library was built without RDMA")
    if not GlideClient.rdma_usable():
        raise SystemExit("glide_check: libfabric could not be loaded; is GLIDE_LIBFABRIC_PATH set?")
    if GlideClient.rdma_checksum(b"123456789") != CRC32C_OF_123456789:
        raise SystemExit("glide_check: wrong CRC-32C")

    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    client = GlideClient.create(
        GlideClientConfiguration(
            [NodeAddress("127.0.0.1", listener.getsockname()[1])],
            rdma=RdmaConfiguration(provider=RdmaProvider.Tcp(bind="127.0.0.1")),
        )
    )
    region = client.register_rdma_region(bytearray(1 << 20))
    region.close()
    client.close()
    if not region.memory_released:
        raise SystemExit("glide_check: the region's memory was not released")


main()
