"""The implicit integrator on stiff things: stable where the explicit ones fail, and right where both work."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.scenes import started, tied

import limberjack as lj


def stiff():
    """Return an arm with a stiff joint spring, a stiff spring to another body, and a stiff one to the world."""
    builder = lj.Builder()
    for k in range(3):
        builder.add_body(f"b{k}", mass=0.5, com=(0, 0, -0.2), inertia=(0.01, 0.01, 0.01))
    builder.add_joint_hinge("h", "world", "b0", axis=(0, 1, 0), stiffness=2e5, damping=20.0, rest=0.01)
    builder.add_joint_ball("s", "b0", "b1", position=(0, 0, -0.4), stiffness=1e5, damping=5.0)
    builder.add_joint_ball("t", "world", "b2", position=(0.5, 0, 0), damping=1.0)
    builder.add_spring("b1", "b2", at_a=(0, 0, -0.3), at_b=(0, 0, -0.3), stiffness=5e5, damping=50.0, rest=0.64)
    builder.add_spring("b2", "world", at_a=(0, 0, -0.4), at_b=(0.8, 0.2, -0.6), stiffness=5e5, damping=50.0, rest=0.412)
    return builder.build()


def test_stiff_springs_are_stable():
    """At a step where semi_implicit is lost, implicit loses energy only, and comes to rest."""
    dt, model = 5e-3, stiff()
    with pytest.raises(lj.Diverged):
        lj.Simulation(model, lj.Full(integrator="semi_implicit"), dt=dt).step(2000)
    sim = lj.Simulation(model, lj.Full(integrator="implicit"), dt=dt)
    energies = [sim.energy().total]
    for _ in range(50):
        sim.step(20)
        energies.append(sim.energy().total)
    assert max(energies) <= energies[0]
    sim.step(4000)
    assert np.abs(sim.qd).max() < 1e-9


def test_rest_is_the_true_balance():
    """Where the implicit integrator comes to rest, no force is left: explicit accelerations vanish there."""
    model = stiff()
    sim = lj.Simulation(model, lj.Full(integrator="implicit"), dt=5e-3)
    sim.step(5000)
    assert np.abs(sim.q - model.q0).max() > 1e-3
    small = lj.Simulation(model, lj.Full(integrator="rk4"), dt=1e-6, q=sim.q, qd=sim.qd)
    small.step(1)
    assert np.abs(small.qd).max() < 1e-6


def test_taut_springs_are_stable_across():
    """A mass between two taut springs swings across them without gaining energy, however strong their pull."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("m", mass=0.1, inertia=(1e-3, 1e-3, 1e-3))
    for end in (-1.0, 1.0):
        builder.add_spring("world", "m", at_a=(end, 0, 0), stiffness=1e5, rest=0.5)
    sim = lj.Simulation(builder.build(), lj.Full(integrator="implicit"), dt=5e-3)
    sim.qd = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    first = sim.energy().total
    sim.step(2000)
    assert sim.energy().total <= first * (1 + 1e-9)
    assert np.abs(sim.positions).max() < 0.01


def test_small_steps_converge_to_the_explicit_path():
    """As the step shrinks, implicit and rk4 draw one path, at first order."""
    model = tied(stiffness=3000.0, damping=5.0)
    reference = started(model, "rk4", 1e-5)
    reference.step(2000)
    gaps = []
    for steps in (200, 400, 800):
        sim = started(model, "implicit", 0.02 / steps)
        sim.step(steps)
        gaps.append(np.abs(sim.positions - reference.positions).max())
    assert gaps[-1] < 1e-3
    assert np.log2(gaps[1] / gaps[2]) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("stiffness", [1e2, 1e5, 1e8, 1e12])
def test_any_stiffness_is_stable(stiffness):
    """A hanging mass on a spring of any stiffness settles at its stretch."""
    builder = lj.Builder()
    builder.add_body("m", mass=2.0, inertia=(0.1, 0.1, 0.1), position=(0, 0, -1))
    builder.add_spring("world", "m", stiffness=stiffness, rest=1.0, damping=0.05 * stiffness)
    sim = lj.Simulation(builder.build(), lj.Full(integrator="implicit"), dt=1e-2)
    sim.step(3000)
    assert sim.positions[0, 2] == pytest.approx(-1.0 - 2.0 * 9.81 / stiffness, abs=1e-9)


def test_stiff_motors_hold():
    """A motor stiffer than the step can follow explicitly stays at its target."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("a", mass=1.0, inertia=(0.01, 0.01, 0.01))
    builder.add_joint_hinge("h", "world", "a", motor=lj.Motor(kp=1e6, kd=100.0, target=0.7))
    model = builder.build()
    with pytest.raises(lj.Diverged):
        lj.Simulation(model, lj.Full(integrator="semi_implicit"), dt=1e-2).step(1000)
    sim = lj.Simulation(model, lj.Full(integrator="implicit"), dt=1e-2)
    sim.step(1000)
    assert sim.joint("h").q == pytest.approx(0.7, abs=1e-9)


def test_springs_without_stiffness_or_length_do_nothing():
    """A spring of stiffness 0, and one whose ends coincide, leave finite numbers and no force."""
    for integrator in ("implicit", "semi_implicit"):
        builder = lj.Builder(gravity=(0, 0, 0))
        builder.add_body("m", mass=2.0, inertia=(0.1, 0.1, 0.1))
        builder.add_spring("world", "m", stiffness=0.0, at_b=(1, 0, 0))
        builder.add_spring("world", "m", stiffness=10.0, rest=0.0)
        sim = lj.Simulation(builder.build(), lj.Full(integrator=integrator), dt=1e-2)
        sim.step(100)
        assert np.abs(sim.qd).max() < 1e-12
