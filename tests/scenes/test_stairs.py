"""The scene of stairs: what falls down them."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


def test_figures_and_rope_fall_down_the_stairs():
    """What falls loses energy, moves down the stairs and does not sink into them."""
    scene = lj.scenes.get("stairs", figures=1, links=6, steps=4)
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    before, start = sim.energy().total, sim.positions.copy()
    deepest = 0.0
    for _ in range(12):
        sim.step(20)
        deepest = max([deepest, *(contact.depth for contact in sim.contacts())])
    assert sim.energy().total < before
    assert (sim.positions[:, 2] < start[:, 2]).mean() > 0.9
    assert 0.0 <= deepest < 0.03
    assert (sim.positions[:, 2] > -0.02).all()


def test_stairs_have_what_is_asked_for():
    """Figures have eleven bodies; a rope and figures may be left out; the same seed gives the same start."""
    assert lj.scenes.stairs(figures=2, links=3).body_count == 25
    assert lj.scenes.stairs(figures=0, links=0).body_count == 0
    one, two, other = (lj.scenes.stairs(seed=seed).q0 for seed in (1, 1, 2))
    assert np.array_equal(one, two) and not np.array_equal(one, other)
    with pytest.raises(lj.ModelError, match="steps"):
        lj.scenes.stairs(steps=0)
