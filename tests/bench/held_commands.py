#!/usr/bin/env python3
"""What other clients' GETs feel of 200 that block, 50 that push in transactions, a script of 5 s and a CLIENT PAUSE WRITE of 2 s, beside the same past keyferryd.

    "$(tests/support/python)" tests/bench/held_commands.py [ROUNDS]

While a script runs the server answers nobody. The server says when it began (TIME in the script) and how long it took (INFO commandstats); a GET whose time, from when it
was due until it was answered, has a part in that was held by the server and is left out. CLIENT PAUSE WRITE holds no GET, so each of these counts.
"""

import json
import subprocess
import sys
import threading
import time

from bench import LOAD, Report, result_of, running_stack, start_bulk, start_load

import redis

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
CONSUMERS, PRODUCERS, SETTERS, THINK = 200, 50, 20, 0.1  # THINK: seconds between two of a producer's transactions, or a setter's SETs
GETTERS, RATE = 50, 1000
SCRIPT, PAUSE = 5, 2
# Seconds from the first GET on: the script, the pause, the end. All of what the script held up is done long before the pause.
SCRIPT_AT, PAUSE_AT, END = 2, SCRIPT + 4, SCRIPT + PAUSE + 6

# Time stands still in a script but for the server's own processor time.
FOR_A_TIME = """
local began, ticks = redis.call('TIME'), os.clock()
while os.clock() < ticks + ARGV[1] do end
return began
"""


def parted(each, begin, end):
    """(free, held): what the GETs took that were answered while the server could, and the others."""
    free, held = [], []
    for due, took in each:
        (held if due < end and due + took > begin else free).append((due, took))
    return free, held


def quantile(took, part):
    ordered = sorted(took)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def kill_script(port):
    """Seconds from SCRIPT KILL on until the script's client has its error, while 200 are blocked. The server hears of it when the script is busy (busy-reply-threshold)."""
    with redis.Redis(port=port, socket_timeout=60) as runner, redis.Redis(port=port, socket_timeout=60) as killer:
        ended = []

        def run():
            try:
                runner.eval("while true do end", 0)
            except redis.ResponseError as error:
                ended.append((time.monotonic(), str(error)))

        thread = threading.Thread(target=run)
        thread.start()
        while True:
            asked = time.monotonic()
            try:
                killer.script_kill()
                break
            except redis.ResponseError as error:
                if "NOTBUSY" not in str(error) and "No scripts" not in str(error):
                    raise
        thread.join()
        if "killed" not in ended[0][1]:
            raise SystemExit(f"the script ended with: {ended[0][1]}")
        return ended[0][0] - asked


def once(stack, port):
    """One run through `port`."""
    with redis.Redis(port=port, socket_timeout=60) as client, redis.Redis(port=stack.valkey_port) as server:
        server.config_set("busy-reply-threshold", 60_000)  # a script is waited for, nobody gets BUSY
        queues = start_bulk([LOAD, "queues", port, CONSUMERS, PRODUCERS, SETTERS, THINK, END], stdin=subprocess.PIPE)
        gets = start_load("gets", port, GETTERS, RATE, END)
        begin = time.monotonic()
        time.sleep(SCRIPT_AT)
        server.config_resetstat()
        at = [int(each) for each in client.eval(FOR_A_TIME, 0, SCRIPT)]
        ran = at[0] + at[1] / 1e6, at[0] + (at[1] + server.info("commandstats")["cmdstat_eval"]["usec"]) / 1e6
        time.sleep(max(0, begin + SCRIPT_AT + PAUSE_AT - time.monotonic()))
        paused = time.time()
        client.execute_command("CLIENT", "PAUSE", PAUSE * 1000, "WRITE")
        took = result_of(gets)
        moved = json.loads(queues.stdout.readline())
        server.config_set("busy-reply-threshold", 1000)
        killed = kill_script(port)
        queues.communicate()
    free, held = parted(took["each"], *ran)
    inside = [took for due, took in free if paused <= due < paused + PAUSE]
    return {"free": [took for _, took in free], "paused": inside, "held": len(held), "killed": killed, "generator": took["generator_p99"], **moved}


def main():
    report = Report("held_commands", f"GETs of {GETTERS} beside {CONSUMERS} in BLPOP, {PRODUCERS} in MULTI, a script of {SCRIPT} s and CLIENT PAUSE WRITE of {PAUSE} s")
    runs = {"past keyferryd": [], "through keyferryd": []}
    with running_stack(module=False) as stack:
        for _ in range(ROUNDS):
            runs["past keyferryd"].append(once(stack, stack.valkey_port))
            runs["through keyferryd"].append(once(stack, stack.port))

    def us(took, part):
        return f"{quantile(took, part) * 1e6:.0f}"

    report.table(
        ["", "GETs", "p50 us", "p99 us", "p99.9 us", "max us", "of them in the pause", "p99 us", "held by the script", "the generator's p99", "transactions", "p50 us",
         "taken", "SCRIPT KILL s"],
        [(f"{way}, {number + 1}", len(run["free"]), us(run["free"], 0.5), us(run["free"], 0.99), us(run["free"], 0.999), us(run["free"], 1), len(run["paused"]),
          us(run["paused"], 0.99), run["held"], f"{run['generator'] * 1e6:.0f}", run["transactions"], f"{run['p50'] * 1e6:.0f}", run["taken"], f"{run['killed']:.2f}")
         for number in range(ROUNDS) for way, run in ((way, each[number]) for way, each in runs.items())],
    )  # fmt: skip
    for what, name in (("all", "free"), ("in the pause", "paused")):
        past, through = ([took for run in runs[way] for took in run[name]] for way in runs)
        ratios = ", ".join(f"{quantile(a[name], 0.99) / quantile(b[name], 0.99):.2f}" for b, a in zip(*runs.values()))
        report.say(f"p99 through keyferryd / past it, {what}: {quantile(through, 0.99) / quantile(past, 0.99):.2f} (by rounds: {ratios}); at most 2", "")
    report.keep()


if __name__ == "__main__":
    main()
