"""What the benchmarks share: a stack of the release build, the load generator, what each thread did, and the table that is printed and kept."""

import contextlib
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from running_stack import Stack, StackOptions  # noqa: E402

MIB = 1 << 20
TICK = os.sysconf("SC_CLK_TCK")
BUILD = pathlib.Path(os.environ.get("KEYFERRY_BUILD", ROOT / "build/release"))
LOAD = BUILD / "bin/bench_load"
CPUS = os.sched_getaffinity(0)


def keep_apart(stack):
    """The server on one half of the CPUs, keyferryd and all clients on the other, as they are on two hosts.

    Left to itself the kernel moves them about, and a socket between two processes of one CPU is twice as fast as one across: no two figures would be of the same thing.
    """
    cpus = sorted(CPUS)
    half = max(1, len(cpus) // 2)
    for pid, share in ((stack.valkey_pid, cpus[:half]), (stack.keyferry_pid, cpus[half:] or cpus)):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), share)
    os.sched_setaffinity(0, cpus[half:] or cpus)  # whatever the benchmark starts from here on


@contextlib.contextmanager
def running_stack(apart=True, **options):
    """`apart`: see keep_apart."""
    subprocess.run(["ninja", "-C", BUILD, "keyferryd", "bench_load", "bench_by_hand", "large_object", "fabric_client"], check=True, stdout=subprocess.DEVNULL)
    os.sched_setaffinity(0, CPUS)  # a server and a keyferryd that see but one CPU make fewer threads
    # The server's own piece size, not the small one of the tests.
    stack = Stack(StackOptions(module_args="", **options))
    if apart:
        keep_apart(stack)
    try:
        yield stack
    finally:
        stack.close()
        shutil.rmtree(stack.dir, ignore_errors=True)


def start_load(*arguments):
    return subprocess.Popen([LOAD, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def start_bulk(command, **options):
    """`bench_load bulk` or `ops` or their like: has stored its values and begins, or waits for go()."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, **options)
    if process.stdout.readline() != "ready\n":
        raise SystemExit(f"{' '.join(map(str, command))} ended with status {process.wait()}")
    return process


def go(processes):
    """Those that wait at start_bulk() begin, so that what they did before is in no figure."""
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def result_of(process):
    output, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, process.args))} ended with status {process.returncode}")
    return json.loads(output.splitlines()[-1])


def load(*arguments):
    return result_of(start_load(*arguments))


def count(length):
    """Operations of one client: about a gigabyte, so that a tick of the kernel's processor clock (10 ms) is small."""
    return max(16, (1 << 30) // length)


def rate(result):
    """Bytes a second of the operation that a tenth of all were faster than: what others on the machine do can only slow one down."""
    return result["bytes"] / len(result["each"]) / sorted(result["each"])[len(result["each"]) // 10]


# --- processor time


def cpu(pid):
    """Seconds that a process has run for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def threads(pid):
    """{thread's name and number: seconds that it has run for}."""
    seen = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            text = (task / "stat").read_text()
            name, fields = text[text.index("(") + 1 : text.rindex(")")], text.rsplit(")", 1)[1].split()
            seen[f"{name} {task.name}"] = (int(fields[11]) + int(fields[12])) / TICK
    return seen


def busy(before, after, seconds):
    """[(thread, part of the time)] of those that ran at all."""
    parts = [(name.rsplit(" ", 1)[0], (spent - before.get(name, 0)) / seconds) for name, spent in after.items()]
    return sorted([(name, part) for name, part in parts if part >= 0.005], key=lambda each: -each[1])


def memory(pid):
    """{field of /proc/PID/status: bytes}."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines if line.endswith(" kB")}


# --- what is shown


class Report:
    """Lines for the terminal and for results/NAME.md, with the machine and the time above them."""

    def __init__(self, name, title):
        self.name = name
        version = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
        model = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
        self.lines = [f"# {title}", "", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, {version or 'no version'}, {os.cpu_count()} x {model}, "
                      f"load before {os.getloadavg()[0]:.1f}", ""]  # fmt: skip
        print("\n".join(self.lines))

    def say(self, *lines):
        self.lines += lines
        print("\n".join(lines), flush=True)

    def table(self, head, rows):
        self.say("| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(map(str, row)) + " |" for row in rows), "")

    def keep(self):
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / f"{self.name}.md").write_text("\n".join(self.lines).rstrip() + "\n")
