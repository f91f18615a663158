"""The memory-safety run (promises 1, 2, 3 and 9): eight clients move values while a tenth of their transfers meets a fault.

KEYFERRY_SOAK_TRANSFERS (500) and KEYFERRY_SOAK_SEED (the time) choose the run; README.md beside this file says what is checked.
"""

import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from plan import COMMANDS, KINDS, transfers
from running_stack import PATIENCE, wait_until
from world import SHARED, World, everything_in_use, resources

TRANSFERS = int(os.environ.get("KEYFERRY_SOAK_TRANSFERS", "500"))
SEED = int(os.environ.get("KEYFERRY_SOAK_SEED") or time.time())
CLIENTS = 8
KEYS = 3
# Room for most of what eight clients ask for, so that some wait; the longest value is an eighth of it.
pytestmark = pytest.mark.stack(
    config={"pool": {"size": "48MiB", "region": "1MiB"}, "limits": {"value_max": "64MiB", "upstream_wait": "15s"}},
    environment={"KEYFERRY_AUDIT_POOL": "1"},
)


@dataclasses.dataclass
class Key:
    name: str
    # What the server may hold: (length, seed), or None for nothing.
    values: list = dataclasses.field(default_factory=lambda: [None])
    epoch: int = 0
    # A SET of it ended without a clear answer, or a fault is armed for it that may not have struck: read once more, then given up.
    doubtful: bool = False


class Driver:
    """Tells one client process what to do, and knows what each of its keys may hold."""

    def __init__(self, number, world, rng):
        self.number, self.world, self.rng = number, world, rng
        self.outcomes = collections.Counter()
        self.made = 0
        self.keys = [self.new_key() for _ in range(KEYS)]
        self.process = None

    def new_key(self):
        self.made += 1
        return Key(f"soak:{self.number}:{self.made}", epoch=self.world.epoch)

    def run(self, plan):
        for transfer in plan:
            self.world.wait_up()
            if transfer.shared:
                self.read_shared(transfer)
            else:
                self.own(transfer)
        self.end()

    def read_shared(self, transfer):
        name = self.rng.choice(list(SHARED))
        begin = time.monotonic()
        answer = self.ask({"tag": transfer.number, "do": "get", "key": name, "values": [SHARED[name]]})
        self.judge(answer, transfer, begin, may_be_missing=self.world.disturbed_since(begin))

    def own(self, transfer):
        filled = [place for place in range(KEYS) if self.keys[place].values != [None]]
        if transfer.op == "get" and not filled:  # what is armed depends on the operation, so there is no fault this time
            transfer = dataclasses.replace(transfer, op="set", kind=None, armed=None)
        place = self.rng.choice(filled if transfer.op == "get" else range(KEYS))
        key = self.keys[place]
        self.set(key, transfer) if transfer.op == "set" else self.get(key, transfer)
        if key.doubtful:
            self.look_again(key, transfer)
            self.keys[place] = self.new_key()

    def set(self, key, transfer):
        value = (transfer.length, self.rng.randrange(1 << 30))
        while any(known and known[0] == value[0] for known in key.values):  # the length tells which value came
            value = (value[0] - 1, value[1])
        begin, epoch = time.monotonic(), self.world.epoch
        answer = self.with_fault(key, transfer, {"tag": transfer.number, "do": "set", "key": key.name, "value": value})
        outcome = self.judge(answer, transfer, begin)
        if outcome == "stored":
            key.values, key.epoch = [value], epoch
        else:
            key.values = [*key.values, value]
            key.doubtful = True

    def get(self, key, transfer):
        begin = time.monotonic()
        answer = self.with_fault(key, transfer, self.reading(key, transfer))
        self.judge(answer, transfer, begin, may_be_missing=key.epoch != self.world.epoch or None in key.values)
        key.doubtful = key.doubtful or key.epoch != self.world.epoch

    def reading(self, key, transfer):
        return {"tag": transfer.number, "do": "get", "key": key.name, "values": [value for value in key.values if value]}

    def look_again(self, key, transfer):
        """A key that a fault has met holds the old value or the new one, whole."""
        begin = time.monotonic()
        answer = self.ask({**self.reading(key, transfer), "tag": f"{transfer.number}:again"})
        self.judge(answer, dataclasses.replace(transfer, kind="again"), begin, may_be_missing=key.epoch != self.world.epoch or None in key.values)

    def judge(self, answer, transfer, begin, may_be_missing=False):
        """An error needs a fault of one's own, or one that hits everybody."""
        outcome = answer["outcome"]
        if outcome == "missing" and not may_be_missing:
            raise AssertionError(f"transfer {transfer.number}: a value is gone: {transfer}")
        if outcome in ("error", "closed") and not transfer.kind and not self.world.disturbed_since(begin):
            raise AssertionError(f"transfer {transfer.number}: {answer} although the last fault for all ended {self.world.last_disturbance(begin):.2f} s "
                                 f"before: {transfer}")
        self.outcomes[outcome] += 1
        return outcome

    # --- the fault

    def with_fault(self, key, transfer, task):
        if transfer.armed:
            self.world.arm(transfer.armed, COMMANDS[transfer.op], key.name)
        if transfer.kind:
            key.doubtful = True
            self.outcomes[f"fault: {transfer.kind}"] += 1
        self.tell(task)
        if transfer.kind == "client killed":
            time.sleep(transfer.after)
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None
            return {"tag": task["tag"], "outcome": "killed"}
        if transfer.kind in ("lane killed at the server", "server restarted", "stopped by a signal"):
            time.sleep(transfer.after)
            if transfer.kind == "lane killed at the server":
                self.world.kill_a_lane()
            elif transfer.kind == "server restarted":
                self.world.restart_server()
            else:
                self.world.stop_by_signal(transfer.process, transfer.lasting)
        return self.answer(task)

    # --- the process

    def ask(self, task):
        self.tell(task)
        return self.answer(task)

    def tell(self, task):
        if self.process is None:
            stack = self.world.stack
            address = stack.unix if self.number % 2 else ("127.0.0.1", stack.port)
            self.process = subprocess.Popen([sys.executable, pathlib.Path(__file__).with_name("client.py"), json.dumps(address), str(PATIENCE)],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()

    def answer(self, task):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"client {self.number} gave up on {task}: {self.process.communicate()[1][-2000:]}")
        answer = json.loads(line)
        if answer["tag"] != task["tag"]:
            raise AssertionError(f"client {self.number} was asked {task['tag']} and answered {answer}")
        return answer

    def end(self):
        if self.process is not None:
            process, self.process = self.process, None
            rest, problem = process.communicate()
            assert process.returncode == 0 and not rest, (rest, problem[-2000:])

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


def audit(stack):
    return json.loads(stack.http("/status.json")[1])["audit"]


def drive(world):
    plan = transfers(TRANSFERS, SEED)
    drivers = [Driver(number, world, random.Random(f"{SEED}:{number}")) for number in range(CLIENTS)]
    given = collections.deque(plan)
    stop = threading.Event()

    def work(driver):
        def next_ones():
            while not stop.is_set():
                try:
                    yield given.popleft()
                except IndexError:
                    return

        try:
            driver.run(next_ones())
        except BaseException:
            stop.set()
            raise
        finally:
            driver.kill()

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        ends = [pool.submit(work, driver) for driver in drivers]
    for end in ends:
        end.result()
    return sum((driver.outcomes for driver in drivers), collections.Counter())


def test_R88_R89_no_foreign_byte_and_no_lost_reply_whatever_dies(stack):
    print(f"\nsoak: KEYFERRY_SOAK_TRANSFERS={TRANSFERS} KEYFERRY_SOAK_SEED={SEED}")
    world = World(stack)
    everything_in_use(stack, CLIENTS)
    base = resources(stack)

    begun = time.monotonic()
    outcomes = drive(world)
    took = time.monotonic() - begun
    world.count_fired()
    everything_in_use(stack, CLIENTS)

    fences = {dict(labels)["reason"]: int(count) for labels, count in stack.metrics()["keyferry_fences_total"].items()}
    print(f"soak: {took:.0f} s, server restarted {world.restarts} times, it carried out {world.fired} faults\nsoak: {dict(sorted(outcomes.items()))}\n"
          f"soak: fences {fences}\nsoak: checks of regions {audit(stack)}")
    wait_until(lambda: all(now <= base[name] for name, now in resources(stack).items()), "everything to be given back",
               lambda: f"{resources(stack)}, at the beginning {base}")
    assert resources(stack)["free"] == base["free"] and resources(stack)["registered"] == base["registered"]
    wait_until(lambda: not audit(stack)["due"], "the last look after a fence")
    checks = audit(stack)
    assert checks["foreign"] == 0, [line for line in stack.log().splitlines() if "audit" in line][:20]
    assert min(checks["leased"], checks["settled"], checks["given_back"]) > TRANSFERS and checks["after_fence"] > 0, checks
    assert all(outcomes[f"fault: {kind}"] > 0 for kind in KINDS) or TRANSFERS < 500, outcomes
    assert sum(fences.values()) > 0 and outcomes["value"] > 0 and outcomes["stored"] > 0
