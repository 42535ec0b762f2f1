"""The middle ground of multipliers: reduced coordinates in and out, multipliers inside."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive.models import KINDS, random_model, random_state

import limberjack as lj


def test_accelerations_are_those_of_articulated_bodies(rng):
    """On random trees of every joint kind one step of euler gives the velocities of `full` to 1e-10."""
    for _ in range(6):
        model = random_model(rng, 10, KINDS)
        q, qd = random_state(rng, model)
        moved = []
        for method in (lj.Multipliers(coordinates="reduced", integrator="euler"), lj.Full(integrator="euler")):
            ignore = [word for word in model.features() if word not in ("springs", "motors", "armature")]
            sim = lj.Simulation(model, method, dt=1e-3, q=q, qd=qd, ignore=ignore)
            sim.step()
            moved.append((sim.qd - qd) / 1e-3)
        np.testing.assert_allclose(moved[0], moved[1], atol=1e-10 * np.abs(moved[1]).max())


@pytest.mark.parametrize("integrator", ["semi_implicit", "euler", "rk4"])
def test_motion_is_that_of_full(integrator):
    """A humanoid falls in the same way, by each integrator, and its joints cannot open."""
    model = lj.scenes.humanoid()
    ignore = ("contacts", "limits", "friction")
    sims = [
        lj.Simulation(model, method, dt=1e-3, ignore=ignore)
        for method in (lj.Multipliers(coordinates="reduced", integrator=integrator), lj.Full(integrator=integrator))
    ]
    for sim in sims:
        sim.apply_wrench(model.body_names[5], force=(20.0, 10.0, 5.0))
        sim.step(30)
    np.testing.assert_allclose(sims[0].q, sims[1].q, atol=1e-10)
    np.testing.assert_allclose(sims[0].qd, sims[1].qd, atol=1e-8)
    assert sims[0].joint_error().metres == 0.0


def test_energy_is_kept_like_in_reduced_coordinates():
    """rk4 keeps the energy of a swinging chain to 1e-8 over a second, rotors included."""
    builder = lj.Builder("chain")
    for k in range(4):
        builder.add_body(f"link{k}", mass=1.0, com=(0, 0, -0.25), inertia=(0.02, 0.02, 0.002))
        above = "world" if k == 0 else f"link{k - 1}"
        place = (0, 0, 0) if k == 0 else (0, 0, -0.5)
        axis = (0, 1, 0) if k % 2 == 0 else (1, 0, 0)
        builder.add_joint_hinge(f"joint{k}", above, f"link{k}", axis=axis, position=place, start=0.5, armature=0.01)
    sim = lj.Simulation(builder.build(), lj.Multipliers(coordinates="reduced", integrator="rk4"), dt=2e-3)
    before = sim.energy().total
    sim.step(250)
    assert sim.energy().total == pytest.approx(before, abs=1e-7)


def test_what_is_no_tree_is_refused():
    """Loops, limits and integrators of bodies are refused by name."""
    with pytest.raises(lj.UnsupportedByMethod, match="loops"):
        lj.Simulation(lj.scenes.four_bar(), lj.Multipliers(coordinates="reduced"), dt=1e-3)
    with pytest.raises(lj.StateError, match="rattle"):
        lj.Simulation(lj.scenes.pendulum(), lj.Multipliers(coordinates="reduced", integrator="rattle"), dt=1e-3)
    with pytest.raises(lj.UnknownName, match="coordinates"):
        lj.Multipliers(coordinates="polar")
