"""A link that is lost under load and comes back, and a device that is removed: keyferryd here and the server in a network namespace of its own, a cable with two ends between them,
each with an RDMA device. Needs the guest's other kernel (README.md)."""

import subprocess
import threading

import pytest
from running_stack import wait_until
from test_loss import check_increments, check_nothing_is_left, open_channels
from wire import request

NEAR, FAR = "10.98.0.1", "10.98.1.1"
# The cable is a namespace that forwards packets. Its ends can be taken down, for which both devices see their carrier go.
# The queues of netem are there from the start: one that is added or deleted tells the sender of a packet of an error. README.md
SETUP = f"""
ip netns add far
ip netns add cable
ip link add kfa mtu 4500 type veth peer name kma mtu 4500 netns cable
ip -n far link add kfb mtu 4500 type veth peer name kmb mtu 4500 netns cable
ip -n cable addr add 10.98.0.254/24 dev kma
ip -n cable addr add 10.98.1.254/24 dev kmb
ip -n cable link set kma up
ip -n cable link set kmb up
ip netns exec cable sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
ip addr add {NEAR}/24 dev kfa
ip link set kfa up
ip route add {FAR} via 10.98.0.254
ip -n far addr add {FAR}/24 dev kfb
ip -n far link set lo up
ip -n far link set kfb up
ip -n far route add {NEAR} via 10.98.1.254
tc qdisc add dev kfa root netem
tc -n far qdisc add dev kfb root netem
rdma link add rxea type rxe netdev kfa
ip netns exec far rdma link add rxeb type rxe netdev kfb
"""
LOSSES = {
    "every packet is lost": ("tc qdisc change dev kfa root netem loss 100%; tc -n far qdisc change dev kfb root netem loss 100%",
                             "tc qdisc change dev kfa root netem loss 0%; tc -n far qdisc change dev kfb root netem loss 0%"),
    "veth is down": ("ip -n cable link set kma down; ip -n cable link set kmb down", "ip -n cable link set kma up; ip -n cable link set kmb up"),
}


def shell(script):
    done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def link():
    shell(SETUP)


@pytest.fixture
def under_load(link, lab):
    """A gateway that uses RDMA to a server across the cable, and a client that counts by pipelines of 100."""
    lab.start_server(address=FAR, inside="far")
    lab.start_gateway(address=FAR, transport="auto", rdma_resolve="2s", rdma_connect="5s", limits={"upstream_wait": "10s"})
    # On a busy machine the first dial may have had too little time: then a channel by TCP gives way when the next command comes.
    wait_until(lambda: lab.transport() == ("rdma", "configured"), "RDMA to be used", lab.transport)
    wait_until(lambda: lab.client().call("PING") == b"PONG" and open_channels(lab)[0] == 0 < open_channels(lab)[1], "commands to travel by RDMA", lambda: open_channels(lab))
    lab.replies, lab.enough = [], threading.Event()

    def load():
        client = lab.client()
        while not lab.enough.is_set():
            client.raw(b"".join(request("INCR", "counter") for _ in range(100)))
            lab.replies.extend(client.reply() for _ in range(100))

    lab.load = threading.Thread(target=load)
    lab.load.start()
    wait_until(lambda: len(lab.replies) >= 500, "load")
    yield lab
    lab.enough.set()
    lab.load.join()


def end_load(lab):
    """How far the server has counted; every reply was checked."""
    lab.enough.set()
    lab.load.join()
    stored = int(lab.direct().call("GET", "counter"))
    check_increments(lab.replies, stored)
    return stored


def wait_for_rdma(lab, stored):
    wait_until(lambda: lab.transport() == ("rdma", "configured"), "the gateway to come back to RDMA", lab.transport)
    # A channel that was being dialled by TCP just then gives way when the next command comes.
    wait_until(lambda: lab.client().call("INCR", "counter") > stored and open_channels(lab)[1] > 0, "commands to travel by RDMA again", lambda: open_channels(lab))
    check_nothing_is_left(lab)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_link_lost_under_load_loses_doubles_and_crosses_no_reply_and_rdma_comes_back(under_load, loss):
    lose, mend = LOSSES[loss]
    shell(lose)
    wait_until(lambda: under_load.transport()[0] != "rdma", "the loss to be noticed", under_load.transport)
    shell(mend)
    stored = end_load(under_load)
    wait_for_rdma(under_load, stored)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_link_that_comes_back_before_its_loss_is_noticed_loses_nothing_at_all(under_load, loss):
    lose, mend = LOSSES[loss]
    before = len(under_load.replies)
    shell(f"{lose}; {mend}")
    wait_until(lambda: len(under_load.replies) > before + 200, "replies to come again", lambda: len(under_load.replies))
    stored = end_load(under_load)
    assert under_load.replies == list(range(1, stored + 1))
    check_nothing_is_left(under_load)


def test_a_server_in_protected_mode_is_named_by_its_sign(link, lab):
    # It lets in who has its own address, so that this needs two.
    lab.start_server("--protected-mode", "yes", address=FAR, inside="far")
    gateway = lab.start_gateway(wait=False, address=FAR, transport="rdma", require=True, rdma_connect="5s")
    assert gateway.process.wait(120) != 0
    assert "protected-mode" in gateway.log()


def test_R66_a_device_removed_under_load_loses_doubles_and_crosses_no_reply(under_load):
    # The library keeps the device open for as long as the process lives, and soft RoCE waits for it: so the command ends with keyferryd.
    removal = subprocess.Popen(["rdma", "link", "del", "rxea"])
    wait_until(lambda: under_load.transport()[0] == "tcp", "the removal to be noticed", under_load.transport)
    before = len(under_load.replies)
    wait_until(lambda: len(under_load.replies) > before + 500, "replies by TCP")
    end_load(under_load)
    wait_until(lambda: not any(under_load.own(kind) for kind in ("qp", "cq", "mr")), "its objects to go")
    assert under_load.gateway.end() == 0
    assert removal.wait(60) == 0
    shell("rdma link add rxea type rxe netdev kfa")
    under_load.start_gateway(address=FAR, transport="rdma", require=True)
    assert under_load.client().call("INCR", "counter") > 0
