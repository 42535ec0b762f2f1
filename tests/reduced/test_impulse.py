"""Impulses in reduced coordinates: velocities change at once by the inverse mass matrix, constraints satisfied."""

from __future__ import annotations

import numpy as np
from tests.naive.models import random_model, random_state

import limberjack as lj


def test_a_blow_changes_velocities_by_the_inverse_mass(rng):
    """On random trees qd changes by M^-1 J^T p, whatever gravity, springs and velocities there are."""
    for _ in range(3):
        model = random_model(rng, 8)
        q, qd = random_state(rng, model)
        sim = lj.Simulation(model, "full", q=q, qd=qd, ignore=("limits", "friction", "contacts"))
        impulse, angular = rng.normal(size=(2, 3))
        body = model.body_names[3]
        point = sim.positions[3] + rng.normal(size=3)
        rows = lj.jacobian(model, q, body, point)
        expected = np.linalg.solve(lj.mass_matrix(model, q), rows[:3].T @ angular + rows[3:].T @ impulse)
        sim.apply_impulse(body, impulse=impulse, angular=angular, point=point)
        np.testing.assert_allclose(sim.qd - qd, expected, atol=1e-10 * max(1.0, np.abs(expected).max()))


def test_a_blow_keeps_loops_closed():
    """A struck four-bar gets the same velocities in reduced as in maximal coordinates, and its loop does not open."""
    model, found = lj.scenes.four_bar(), []
    for method in ("full", "multipliers"):
        sim = lj.Simulation(model, method, dt=1e-3)
        sim.apply_impulse(model.body_names[1], impulse=(0.4, 0.1, 0.3))
        found.append(sim.qd.copy())
        sim.step(50)
        assert sim.joint_error().metres < 1e-10
    np.testing.assert_allclose(found[0], found[1], atol=1e-10)
    assert np.abs(found[0]).max() > 0.01


def test_a_blow_keeps_the_momentum_of_what_floats():
    """A free humanoid struck by an impulse has that momentum more, linear and angular."""
    model = lj.scenes.humanoid()
    sim = lj.Simulation(model, "full", ignore=("contacts", "friction"))
    before = sim.momentum()
    impulse, point = np.array([3.0, -2.0, 5.0]), sim.positions[4]
    sim.apply_impulse(model.body_names[4], impulse=impulse, point=point)
    after = sim.momentum()
    np.testing.assert_allclose(after.linear - before.linear, impulse, atol=1e-9)
    np.testing.assert_allclose(after.angular - before.angular, np.cross(point, impulse), atol=1e-9)
