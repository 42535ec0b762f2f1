"""Random scenes saved anywhere go on in another process bit for bit, in every method."""

from __future__ import annotations

import os

import pytest
from tests.simulation.resume_anywhere import resumed_elsewhere, save_somewhere


def check(seeds, folder):
    """Assert that every scene that can be saved goes on as it did; return how many there were."""
    saved = [one for seed in seeds if (one := save_somewhere(seed, folder)) is not None]
    ends = resumed_elsewhere(saved)
    assert len(ends) == len(saved)
    pairs = zip(saved, ends, strict=True)
    assert not {(one.seed, one.method) for one, end in pairs if one.end != end}
    return len(saved)


def test_random_scenes_go_on_in_another_process(tmp_path):
    """Forty scenes over all methods, with grips, forces, budgets and joints made on the way."""
    assert check(range(7000, 7040), tmp_path) > 25


def test_loops_whose_joints_are_chosen_together_go_on(tmp_path):
    """A scene of `adaptive` in which joints of a loop become active that no update has weighed."""
    assert check((7146,), tmp_path) == 1


@pytest.mark.soak
def test_a_thousand_random_scenes_go_on(tmp_path):
    """LIMBERJACK_SOAK_RESUMED (1000) of them."""
    count, done = int(os.environ.get("LIMBERJACK_SOAK_RESUMED", "1000")), 0
    for first in range(0, 100 * count, 50):
        done += check(range(first, first + 50), tmp_path)
        print(f"{done} scenes saved and resumed", flush=True)
        if done >= count:
            break
    assert done >= count
