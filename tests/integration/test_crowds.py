"""What clients cost that are connected and idle, and those that come and go: memory, descriptors, places (limits.clients)."""

import collections
import os
import pathlib
import resource
import threading

import pytest
from idle_clients import STEPS, command, connect, do, prepare, resident, warm_up
from running_stack import wait_until
from ways import FULL

MOST_BYTES = 4096  # of keyferryd's own memory for a client; what the kernel has for its socket is beside that
CLIENTS = 10000
OWN_DESCRIPTORS = 500  # of this process and of keyferryd that are no clients
REFUSED = b"-ERR max number of clients reached\r\n"


def sanitized(stack):
    maps = pathlib.Path(f"/proc/{stack.keyferry_pid}/maps").read_text()
    return "libasan" in maps or "libtsan" in maps  # a sanitizer's own memory is much more


def descriptors(stack):
    return len(os.listdir(f"/proc/{stack.keyferry_pid}/fd"))


def clients(stack):
    return stack.metrics().total("clients")


def close_all(links):
    for link in links:
        link.close()


def begin(make_stack, **limits):
    """A stack, and how many clients may come: CLIENTS if this process may have so many files open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    stack = make_stack(config={"limits": {"clients": CLIENTS + 100, **limits}}, module=False)
    prepare(stack.direct_info_client)
    return stack, min(CLIENTS, most - OWN_DESCRIPTORS)


def address_of(stack, unix):
    return stack.unix if unix else stack.port


def wait_for_memory(stack, base, count):
    if not sanitized(stack):
        wait_until(lambda: resident(stack.keyferry_pid) - base < count * MOST_BYTES, f"{count} idle clients to take under {MOST_BYTES} bytes each",
                   lambda: (resident(stack.keyferry_pid) - base) / count)  # fmt: skip


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_10000_idle_clients_take_under_4_KiB_each_whatever_they_did_before(make_stack, unix):
    stack, count = begin(make_stack)
    address = address_of(stack, unix)
    if not FULL:
        count = min(count, 3000)  # of 10000 the rest is more of the same
    warm_up(lambda: connect(address))
    wait_until(lambda: clients(stack) == 0, "the first clients to be gone")
    base = resident(stack.keyferry_pid)
    links = [connect(address) for _ in range(count)]
    try:
        for _, sent, wanted in STEPS:
            do(links, sent, wanted)
        wait_for_memory(stack, base, count)
        assert clients(stack) == count
        do(links, *STEPS[0][1:])  # and each is still served
    finally:
        close_all(links)
    wait_until(lambda: clients(stack) == 0, "all of them to be gone", lambda: clients(stack))


PIECES = [
    [b"*2\r\n$4\r\nEC", b"HO\r\n$5\r\nhel", b"lo\r\n"],
    [b"*2\r\n$", b"4\r\nECHO\r\n$5\r", b"\nhello\r\n"],
    [b"ECH", b"O hel", b"lo\r\n"],
    [b"*2\r\n$4\r\nECHO\r\n$1505\r\nhello" + b"x" * 800, b"x" * 690, b"x" * 10 + b"\r\n"],
    [b"*2\r\n$4\r\nECHO\r\n$20005\r\nhello" + b"x" * 12000, b"x" * 7990, b"x" * 10 + b"\r\n"],
]


def test_part_of_a_command_survives_while_its_client_is_idle_and_takes_no_more_than_its_bytes(make_stack):
    stack, count = begin(make_stack)
    count = min(count, 2000)
    warm_up(lambda: connect(stack.port))
    base = resident(stack.keyferry_pid)
    links = [connect(stack.port) for _ in range(count)]
    some = [connect(stack.port) for _ in range(200)]  # with a part that takes memory of its own
    few = [connect(stack.port) for _ in range(8)]  # with one so large that many of them would take more for that alone
    try:
        for step in range(2):
            for number, link in enumerate(links):
                link.sendall(PIECES[number % 3][step])
            for link in some:
                link.sendall(PIECES[3][step])
            for link in few:
                link.sendall(PIECES[4][step])
            wait_for_memory(stack, base, count)  # the buffers that they were read into are given back
        for number, link in enumerate(links):
            link.sendall(PIECES[number % 3][2])
        for link in some:
            link.sendall(PIECES[3][2])
        for link in few:
            link.sendall(PIECES[4][2])
        do(links, b"", b"$5\r\nhello\r\n")
        do(some, b"", b"$1505\r\nhello" + b"x" * 1500 + b"\r\n")
        do(few, b"", b"$20005\r\nhello" + b"x" * 20000 + b"\r\n")
        do(links + some + few, *STEPS[0][1:])
    finally:
        close_all(links + some + few)


def test_a_client_that_leaves_in_the_middle_of_a_command_gives_up_its_place(make_stack):
    stack, _ = begin(make_stack)
    links = [connect(stack.port) for _ in range(40)]
    for number, link in enumerate(links):
        link.sendall((b"*2\r\n$4\r\nECHO\r\n$20005\r\n" + b"x" * 20000)[: 10 << number % 11])
    wait_until(lambda: stack.metrics().total("bytes_total", direction="in", side="client") >= sum(10 << number % 11 for number in range(40)), "the pieces to be read")
    close_all(links)
    wait_until(lambda: clients(stack) == 0, "all of them to be gone", lambda: clients(stack))


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_R41_storms_of_clients_that_come_and_go_leave_no_descriptor_no_client_and_no_memory(make_stack, unix):
    stack, _ = begin(make_stack)
    address = address_of(stack, unix)
    warm_up(lambda: connect(address))
    wait_until(lambda: clients(stack) == 0, "the first clients to be gone")
    had, used = descriptors(stack), []
    for _ in range(6):  # the first one brings the process to its working size
        for round_ in range(20):
            links = [connect(address) for _ in range(100)]
            if round_ % 2 == 0:  # else they leave without a word
                do(links, *STEPS[0][1:])
            close_all(links)
        # Connections to the server that nobody has used for long are closed meanwhile.
        wait_until(lambda: clients(stack) == 0 and descriptors(stack) <= had, "clients and descriptors to be given back", lambda: (clients(stack), descriptors(stack), had))
        used.append(resident(stack.keyferry_pid))
    if not sanitized(stack):  # how many of a storm are there at once differs, so it may take a while until malloc gives back what they had
        wait_until(lambda: resident(stack.keyferry_pid) - used[0] < 10000 * 200, "10000 clients that are gone to hold under 200 bytes each",
                   lambda: (used, resident(stack.keyferry_pid)))  # fmt: skip


def test_R41_a_place_is_free_as_soon_as_its_client_has_left(make_stack):
    """Nobody is turned away for those that were there a moment ago."""
    stack, _ = begin(make_stack, clients=10)
    for _ in range(500):
        link = connect(stack.port)
        do([link], *STEPS[0][1:])
        link.close()


def test_no_more_than_limits_clients_are_served_when_many_come_at_once(make_stack):
    stack, _ = begin(make_stack, clients=50)
    answers, links, lock = collections.Counter(), [], threading.Lock()

    def come():
        for _ in range(40):
            link = connect(stack.port)
            try:
                link.sendall(command(b"PING"))
                answer = link.recv(100)
            except ConnectionError:  # turned away before it had asked
                answer = REFUSED
            with lock:
                answers[answer] += 1
                links.append(link)

    threads = [threading.Thread(target=come) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert answers == {b"+PONG\r\n": 50, REFUSED: 150}
        assert stack.metrics().total("clients_refused_total") == 150
    finally:
        close_all(links)
    wait_until(lambda: clients(stack) == 0, "all of them to be gone")
    link = connect(stack.port)
    do([link], *STEPS[0][1:])
    link.close()


def test_clients_for_whom_there_is_no_descriptor_wait_and_are_served_when_others_leave(make_stack):
    stack, _ = begin(make_stack)
    warm_up(lambda: connect(stack.port))
    wait_until(lambda: clients(stack) == 0, "the first clients to be gone")
    several = [connect(stack.port) for _ in range(40)]
    do(several, *STEPS[0][1:])  # all shared connections to the server are there: one more would find no descriptor
    close_all(several)
    wait_until(lambda: clients(stack) == 0, "those clients to be gone")
    limit = descriptors(stack) + 20
    resource.prlimit(stack.keyferry_pid, resource.RLIMIT_NOFILE, (limit, limit))
    links = [connect(stack.port) for _ in range(35)]
    try:
        for link in links:
            link.sendall(STEPS[0][1])
        wait_until(lambda: "clients wait to be accepted: Too many open files" in stack.log(), "it to be said")
        while links:  # in the order in which they came
            do([links[0]], b"", STEPS[0][2])
            links.pop(0).close()
        assert stack.log().count("clients wait to be accepted") < 5, "said at each try"
    finally:
        close_all(links)
    link = connect(stack.port)
    do([link], *STEPS[0][1:])
    link.close()
