"""Runs in the Python of tests/support/peers/glide: one GLIDE client that moves one value again and again by its own RDMA path. Prints what `bench_load ops` does.

    glide_peer.py PORT NUMBER BYTES get|set COUNT       begins at the first line on stdin, so that several begin together
"""

import json
import resource
import sys
import time

from glide_sync import GlideClient, GlideClientConfiguration, NodeAddress, RdmaConfiguration, RdmaProvider, RdmaSetChecksum


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    port, number, length, op, count = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    client = GlideClient.create(
        GlideClientConfiguration([NodeAddress("127.0.0.1", port)], request_timeout=30000, rdma=RdmaConfiguration(provider=RdmaProvider.Tcp(bind="127.0.0.1")))
    )
    key = f"bench:{length}:{number}"
    with client.register_rdma_region(bytearray(length)) as region:
        window = region.window(0, length)

        def store():
            # keyferryd sends a checksum with every SET, so GLIDE is asked for the same.
            client.rdma_set(key, window, RdmaSetChecksum.Compute())

        def once():
            if op == "set":
                store()
            elif client.rdma_get(key, window).bytes_written != length:
                sys.exit("a GET gave another length")

        store()
        once()
        print("ready", flush=True)
        sys.stdin.readline()
        began, each = cpu(), []
        for _ in range(count):
            begin = time.perf_counter()
            once()
            each.append(time.perf_counter() - begin)
        print(json.dumps({"bytes": length * count, "cpu": cpu() - began, "each": each}))
    client.close()


main()
