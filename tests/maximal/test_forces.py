"""Forces on bodies in maximal coordinates."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

METHODS = ["multipliers", lj.Multipliers(integrator="rattle"), "impulses", "displacements"]


def floating(rng):
    """Return two free bodies, com and axes off the frame of one, and an arm on it."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("base", mass=2.0, com=(0.1, -0.2, 0.3), inertia=(1.0, 2.0, 2.5, 0.1, -0.1, 0.2))
    builder.add_body("arm", mass=0.5, com=(0, 0, -0.2), inertia=(0.02, 0.02, 0.01))
    builder.add_joint_hinge("elbow", "base", "arm", axis=(0, 1, 0), position=(0.3, 0, 0))
    builder.add_body("other", mass=1.0, inertia=(0.1, 0.1, 0.1), position=(3, 0, 0))
    return builder.build()


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_forces_on_free_joints_act_in_every_method(rng, method):
    """Forces along the coordinates of a free joint give the accelerations of reduced coordinates."""
    model = floating(rng)
    tau = np.concatenate([rng.normal(size=6), [0.3], rng.normal(size=6)])
    qdd = lj.forward_dynamics(model, model.q0, np.zeros(model.nv), tau)
    sim = lj.Simulation(model, method, dt=1e-5)
    sim.tau = tau
    sim.step(10)
    np.testing.assert_allclose(sim.qd / sim.time, qdd, atol=2e-3)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_torques_on_free_joints_turn_with_the_body(method):
    """A torque about a body's own axis goes on about that axis while the body turns: w = tau t / I there."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("a", mass=2.0, inertia=(1.0, 1.0, 1.0))
    sim = lj.Simulation(builder.build(), method, dt=1e-3, q=[0, 0, 0, 0.6, 0.8, 0, 0])
    sim.tau = [4, 0, 0, 0, 0, 1]
    sim.step(1000)
    np.testing.assert_allclose(sim.qd, [2, 0, 0, 0, 0, 1], atol=1e-9)
