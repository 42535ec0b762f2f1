"""Rods with hardly any inertia about their axes, out of a plane."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


def thin_rods(axial):
    """Return ten rods of 0.1 kg on ball joints of this inertia about their axes, and a start out of a plane."""
    builder, across = lj.Builder("rods"), 0.1 * 0.2**2 / 12.0
    for k in range(10):
        builder.add_body(f"rod{k}", mass=0.1, com=(0.0, 0.0, -0.1), inertia=(across, across, axial))
        above, at = ("world", 0.0) if k == 0 else (f"rod{k - 1}", -0.2)
        builder.add_joint_ball(f"joint{k}", above, f"rod{k}", position=(0.0, 0.0, at))
    model = builder.build()
    q, qd = np.array(model.q0), 2.0 * np.random.default_rng(0).normal(size=model.nv)
    q[:4] = np.cos(0.6), 0.6 * np.sin(0.6), 0.8 * np.sin(0.6), 0.0
    qd[2::3] = 0.0
    return model, q, qd


@pytest.mark.parametrize("solver", ["auto", "tree"])
@pytest.mark.parametrize("dt", [1e-3, 1 / 240])
@pytest.mark.parametrize("axial", [1e-6, 1e-9])
def test_thin_rods_swing_out_of_a_plane_in_rattle(axial, dt, solver):
    """Nothing turns rods about their axes, so that their spin stays small and their energy what it was."""
    model, q, qd = thin_rods(axial)
    sim = lj.Simulation(model, lj.Multipliers(integrator="rattle", solver=solver), dt=dt, q=q, qd=qd)
    start, fastest = sim.energy().total, 0.0
    for _ in range(20):
        sim.step(round(0.1 / dt))
        fastest = max(fastest, sim.energy().kinetic)
        assert sim.energy().total - start < 1e-3 * fastest
    assert sim.joint_error().metres < 1e-8
