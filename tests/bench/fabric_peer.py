"""The server's fabric without keyferryd: clients in one process that move values into memory of their own, with nothing behind it. Prints what bench_load does.

    fabric_peer.py PORT CLIENTS BYTES get|set SECONDS PACE      as `bench_load bulk`
    fabric_peer.py PORT 1 BYTES get|set COUNT ops               as `bench_load ops`
"""

import json
import pathlib
import resource
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/large_object/tests"))

from large_object_client import Endpoint, Resp  # noqa: E402


class Client:
    def __init__(self, port, length, op, number):
        self.link = Resp(port)
        self.endpoint = Endpoint()
        addresses = self.link.call("BLOB.RDMA_HELLO", self.endpoint.address.hex())
        for address in addresses:
            self.endpoint.insert(bytes.fromhex(address.decode()))
        triple = self.endpoint.register(length).triple()
        key = f"bench:{length}:{number}"
        self.store = ("BLOB.RDMA_SET", key, length, *triple)
        self.command = ("BLOB.RDMA_GET", key, *triple) if op == "get" else self.store
        self.expect(self.store)

    def expect(self, command):
        answer = self.link.call(*command)
        if answer != "OK" and not (isinstance(answer, list) and answer[0] > 0):
            sys.exit(f"{command[0]} was answered {answer!r}")

    def once(self):
        self.expect(self.command)


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def one_by_one(client, length, count):
    client.once()
    began, each = cpu(), []
    for _ in range(count):
        begin = time.perf_counter()
        client.once()
        each.append(time.perf_counter() - begin)
    return {"bytes": length * count, "cpu": cpu() - began, "each": each}


def at_a_pace(clients, length, seconds, pace):
    print("ready", flush=True)
    moved = [0] * len(clients)
    begin, began = time.perf_counter(), cpu()

    def work(number):
        turn = 0
        while True:
            at = (turn * len(clients) + number) * length / pace if pace else 0
            if at >= seconds or time.perf_counter() - begin >= seconds:
                return
            time.sleep(max(0, begin + at - time.perf_counter()))
            clients[number].once()
            moved[number] += length
            turn += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(len(clients))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {"bytes": sum(moved), "seconds": time.perf_counter() - begin, "cpu": cpu() - began}


def main():
    port, count, length, op, amount, pace = sys.argv[1:]
    clients = [Client(int(port), int(length), op, number) for number in range(int(count))]
    if pace == "ops":
        print(json.dumps(one_by_one(clients[0], int(length), int(amount))))
    else:
        print(json.dumps(at_a_pace(clients, int(length), float(amount), float(pace))))


main()
