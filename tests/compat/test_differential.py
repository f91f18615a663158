"""A client cannot tell keyferryd from the server: differential.py, with some seeds."""

import pytest
from differential import Pair, described, steps_of

SEEDS = range(1, 5)
STEPS = 40


@pytest.mark.parametrize("dedicated", [False, True], ids=["shared", "dedicated"])
def test_random_commands_are_answered_as_by_the_server(dedicated):
    pair = Pair(dedicated)
    try:
        for seed in SEEDS:
            steps = steps_of(seed, pair.docs, STEPS)
            difference = pair.first_difference(steps)
            # What the machine's pace has brought about does not come twice.
            if difference and (again := pair.first_difference(steps[: difference.step + 1])):
                pytest.fail("\n".join([f"seed {seed} (differential.py {seed} {seed} --steps {STEPS} finds the shortest sequence)",
                                       *map(described, steps[max(0, again.step - 2) : again.step + 1]), str(again)]), pytrace=False)  # fmt: skip
    finally:
        pair.close()
