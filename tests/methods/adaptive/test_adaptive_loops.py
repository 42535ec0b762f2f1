"""Loops under method `adaptive`: joints of a loop are active together or not at all."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import limberjack as lj

MECHANISMS = {
    "four_bar": {}, "bricard": {}, "planetary": {}, "n_four_bar": {"loops": 6}, "tread": {"plates": 8},
}  # fmt: skip


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_move_whatever_the_budget(name):
    """With a budget below the joints of a loop, the mechanism moves as in `full`, to the bit, and says so once."""
    model = getattr(lj.scenes, name)(**MECHANISMS[name])
    full = lj.Simulation(model, "full", dt=1e-3)
    full.step(200)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sim = lj.Simulation(model, lj.Adaptive(budget=1), dt=1e-3)
        sim.step(200)
    assert np.array_equal(sim.q, full.q) and np.abs(sim.q - model.q0).max() > 1e-3
    assert [one.category for one in caught] == [lj.BudgetWarning]
    assert sim.stats["over_budget"] == sim.stats["active_joints"] - 1 > 0


def test_loops_beside_others_are_chosen_as_one():
    """Two four-bars in one model: the one that moves is active, all of it, the one at rest is not."""
    builder = lj.Builder("two", gravity=(0.0, 0.0, 0.0))
    for name, x in (("a", 0.0), ("b", 5.0)):
        for k, (parent, at) in enumerate((("world", (x, 0, 0)), (f"{name}0", (0, 0, -1)), ("world", (x + 1, 0, 0)))):
            builder.add_body(f"{name}{k}", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
            turn = {"rotation": (0.5**0.5, 0.0, -(0.5**0.5), 0.0)} if k == 1 else {}
            builder.add_joint_hinge(f"{name}j{k}", parent, f"{name}{k}", position=at, axis=(0, 1, 0), **turn)
        builder.add_joint_hinge(
            f"{name}close", f"{name}1", f"{name}2", position=(0, 0, -1), position_in_child=(0, 0, -1), axis=(0, 1, 0)
        )
    model = builder.build()
    sim = lj.Simulation(model, lj.Adaptive(budget=3, tolerance=1e-6), dt=1e-3)
    sim.apply_wrench("a0", force=(1.0, 0.0, 0.0))
    sim.step(100)
    active = {name for name in sim.active_joints}
    assert {"aj0", "aj1", "aj2"} <= active and not {"bj0", "bj1", "bj2"} & active


def test_chains_without_loops_have_no_groups():
    """Limits are no loops: the joints of a chain with limits are chosen one by one."""
    sim = lj.Simulation(lj.scenes.chain_with_limits(), lj.Adaptive(budget=2), dt=1e-3)
    sim.step(50)
    assert 0 < sim.stats["active_joints"] <= 2 and sim.stats["over_budget"] == 0
