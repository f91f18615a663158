"""placement.workers as the kernel sees it."""

import os
import pathlib


def test_each_worker_has_the_cpu_that_the_list_gives_it_and_the_other_threads_are_left_alone(make_stack):
    allowed = sorted(os.sched_getaffinity(0))
    chosen = [allowed[-1], allowed[0]]
    stack = make_stack(config={"workers": 2, "placement": {"workers": ",".join(map(str, chosen))}})
    threads = {(task / "comm").read_text().strip(): os.sched_getaffinity(int(task.name)) for task in pathlib.Path(f"/proc/{stack.keyferry_pid}/task").iterdir()}
    assert [threads[f"kf-worker-{number}"] for number in range(2)] == [{cpu} for cpu in chosen]
    assert threads["kf-engine"] == threads["keyferryd"] == set(allowed)
    with stack.wire() as wire:
        assert wire.call("ECHO", "there") == b"there"
