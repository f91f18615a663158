"""A link that is lost under load and comes back: keyferryd and the server on either end of a pair of virtual cables, each with an RDMA device of its own."""

import subprocess
import threading

import pytest
from running_stack import wait_until
from test_loss import check_increments, check_nothing_is_left, open_channels
from wire import request

NEAR, FAR = "10.98.0.1", "10.98.0.2"
# Both ends belong to one host, so the addresses have to be kept from being taken for local ones: what is sent to the far one leaves by the near
# end, and is local only where it arrives.
SETUP = f"""
ip link add kfa type veth peer name kfb
ip link set kfa mtu 4500 up
ip link set kfb mtu 4500 up
for each in all kfa kfb; do echo 1 > /proc/sys/net/ipv4/conf/$each/accept_local; echo 0 > /proc/sys/net/ipv4/conf/$each/rp_filter; done
ip addr add {NEAR}/32 dev kfa
ip addr add {FAR}/32 dev kfb
ip neigh replace {FAR} lladdr $(cat /sys/class/net/kfb/address) dev kfa nud permanent
ip neigh replace {NEAR} lladdr $(cat /sys/class/net/kfa/address) dev kfb nud permanent
ip route add {FAR} dev kfa src {NEAR} table 101
ip route add {NEAR} dev kfb src {FAR} table 102
ip rule add pref 1 iif kfa lookup local
ip rule add pref 2 iif kfb lookup local
ip rule add pref 3 to {FAR} lookup 101
ip rule add pref 4 to {NEAR} lookup 102
ip rule add pref 100 lookup local
ip rule del pref 0
tc qdisc add dev kfa root netem
tc qdisc add dev kfb root netem
rdma link add rxea type rxe netdev kfa
rdma link add rxeb type rxe netdev kfb
"""
# Changed, not added and deleted: while a device changes its queue the sender of a packet is told of an error, which puts soft RoCE's queue pair for the
# connection manager into an error state for good if the packet is its own. README.md
LOSE = "tc qdisc change dev kfa root netem loss 100%; tc qdisc change dev kfb root netem loss 100%"
MEND = "tc qdisc change dev kfa root netem loss 0%; tc qdisc change dev kfb root netem loss 0%"


def shell(script):
    done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def link():
    shell(SETUP)


@pytest.mark.long
def test_a_link_lost_under_load_loses_doubles_and_crosses_no_reply_and_rdma_comes_back(link, lab):
    lab.start_server(address=FAR)
    lab.start_gateway(address=FAR, transport="auto", rdma_resolve="2s", rdma_connect="5s", limits={"upstream_wait": "10s"})
    assert lab.transport() == ("rdma", "configured")
    replies, lost = [], threading.Event()

    def load():
        client = lab.client()
        while not lost.is_set() or len(replies) < 500:
            client.raw(b"".join(request("INCR", "counter") for _ in range(100)))
            replies.extend(client.reply() for _ in range(100))

    loading = threading.Thread(target=load)
    loading.start()
    wait_until(lambda: len(replies) >= 500, "load")
    shell(LOSE)
    wait_until(lambda: lab.transport()[0] != "rdma", "the loss to be noticed", lab.transport)
    lost.set()
    loading.join()
    shell(MEND)
    stored = wait_until(lambda: int(lab.direct().call("GET", "counter")), "the server")
    assert check_increments(replies, stored)
    wait_until(lambda: lab.transport() == ("rdma", "configured"), "the gateway to come back to RDMA", lab.transport)
    # A channel that was being dialled by TCP just then gives way when the next command comes.
    wait_until(lambda: lab.client().call("INCR", "counter") > stored and open_channels(lab)[1] > 0, "commands to travel by RDMA again", lambda: open_channels(lab))
    check_nothing_is_left(lab)
