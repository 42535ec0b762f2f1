"""Random scenes of all joint kinds, loops, limits, springs, motors and contacts: nothing goes wrong silently."""

from __future__ import annotations

import pytest
from tests.random_scenes import METHODS, draw, run

import limberjack as lj

# Scenes per method, at steps up to 1/60 s; `make soak` takes more, larger ones and longer steps.
SCENES, PER_TEST, MOST, COARSEST = 100, 20, 40, 1 / 60


# Scenes that failed once, by method and seed: steps until then, and what was wrong.
REPAIRED = {
    ("adaptive", 100000): (100, "springs pulled on joints of clusters that had changed"),
    ("multipliers", 227): (100, "a spring was tightened by the projections of steps by velocities"),
    ("impulses", 199): (100, "2496 substeps per step"),
    ("adaptive", 100026): (60, "contacts of loops were solved by sweeps that do not settle, and added energy"),
    ("displacements", 471): (100, "velocities read were those after half a step of stiff forces kept as they were"),
    ("full", 321): (50, "contacts did not know that ropes slacken, and were wedged in between them and the ground"),
}


@pytest.mark.parametrize(("method", "seed"), REPAIRED)
def test_scenes_that_failed_once_hold(method, seed):
    """A scene that gained energy, hung or ended in another error than a typed one does no more."""
    assert not run(draw(seed), method, REPAIRED[method, seed][0]).fault


def test_a_step_of_too_many_substeps_names_the_body():
    """Light links that heavy ones pull at ask `impulses` for thousands of substeps: it says which, and what helps."""
    scene = draw(199)
    sim = lj.Simulation(scene.model, "impulses", scene.dt)
    with pytest.raises(lj.Diverged, match=r'body "body99" a frequency of .* more than 512 substeps.* dt < 0.0'):
        sim.step(100)


@pytest.mark.parametrize("first", range(0, SCENES, PER_TEST))
@pytest.mark.parametrize("method", METHODS)
def test_random_scenes_fail_by_name_or_not_at_all(method, first):
    """A run ends in a typed error, or finite and with no more energy than it had, to 10 % of what was released."""
    offset = 1000 * METHODS.index(method)
    found = {}
    for seed in range(offset + first, offset + first + PER_TEST):
        scene = draw(seed, MOST, COARSEST)
        ran = run(scene, method)
        if ran.fault:
            found[seed] = (ran.fault, scene.features)
    assert not found
