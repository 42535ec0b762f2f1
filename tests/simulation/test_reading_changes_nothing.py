"""Looking at a simulation changes nothing, and what was set is found again."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

METHODS = [
    lj.Multipliers(integrator="rattle"), lj.Multipliers(integrator="rk4"), lj.Displacements(mode="conserving"),
    lj.Impulses(),
]  # fmt: skip
NAMES = ["rattle", "rk4", "displacements", "impulses"]


def spinning(method):
    """Return a simulation of a free body with a chain on ball joints, all turning so fast that a look misses turns."""
    builder = lj.Builder("spinning", gravity=(0.0, 0.0, 0.0))
    for k in range(4):
        builder.add_body(f"b{k}", mass=1.0, com=(0.05, 0.0, 0.0), inertia=(0.02, 0.03, 0.04))
        if k == 0:
            builder.add_joint_free("root", "world", "b0", start_velocity=(0.0, 0.0, 0.0, 9.0, 2.0, 1.0))
        else:
            turn = (np.cos(0.4), np.sin(0.4), 0.0, 0.0)
            builder.add_joint_ball(
                f"ball{k}", f"b{k - 1}", f"b{k}", position=(0.1, 0.0, 0.0), rotation=turn,
                start_velocity=(0.5 - 3.0 * k, 2.0 * k, 4.0),
            )  # fmt: skip
    return lj.Simulation(builder.build(), method, dt=2e-3)


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_who_looks_changes_nothing(method):
    """Coordinates, poses and energy read after every step or never: the states have the same bits."""
    watched, alone = spinning(method), spinning(method)
    places = watched.model.arrays.links.quaternions[:, 0]
    signs = []
    for _ in range(600):
        watched.step(1)
        signs.append(watched.q[places] > 0.0)
        assert np.isfinite(watched.positions).all() and watched.energy().total > 0.0
    alone.step(600)
    assert (np.any(signs, axis=0) & ~np.all(signs, axis=0))[1:].any()  # a ball turned past where its w changes sign
    assert np.array_equal(watched.q, alone.q) and watched.state_hash() == alone.state_hash()


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_quaternions_go_on_from_those_that_were_set(method, rng):
    """Of the two quaternions of a rotation the one that was set goes on, also from step to step."""
    sim = spinning(method)
    places = [int(place) for place, _ in sim.model.arrays.links.quaternions]
    q = sim.q.copy()
    for place in places:
        turn = rng.normal(size=4)
        q[place : place + 4] = turn / np.linalg.norm(turn)
    sim.q = q
    for _ in range(100):
        before = sim.q
        sim.step(1)
        assert all(sim.q[place : place + 4] @ before[place : place + 4] > 0.9 for place in places)
