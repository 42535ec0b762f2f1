"""Rattle of rigid bodies on ball joints, which has a step of its own, against the step of general rows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.maximal.test_bodies import Cloud

import limberjack as lj

FAST = lj.Multipliers(integrator="rattle", solver="sparse")
GENERAL = lj.Multipliers(integrator="rattle", solver="tree")


def ring(rng, bodies=6, *, gravity=(0, 0, -9.81), hung=True):
    """Return a closed ring of bodies of any shape on balls, hung from the world by one more."""
    builder = lj.Builder(gravity=gravity)
    angles = 2 * np.pi * np.arange(bodies) / bodies
    corners = np.stack([np.cos(angles), np.sin(angles), 0.2 * rng.normal(size=bodies)], axis=1)
    for k in range(bodies):
        Cloud(rng, "rigid").add(builder, rng, f"b{k}")
    for k in range(bodies - 1):
        builder.add_joint_ball(f"j{k}", f"b{k}", f"b{k + 1}", position=corners[k + 1], position_in_child=corners[k + 1])
    builder.add_joint_ball("close", f"b{bodies - 1}", "b0", position=corners[0], position_in_child=corners[0])
    if hung:
        builder.add_joint_ball("hook", "world", "b0", position=(1, 0, 2), position_in_child=corners[0])
    return builder.build()


def stirred(model, method, rng, **options):
    """Return a simulation whose bodies were set going by wrenches that fit the joints."""
    sim = lj.Simulation(model, method, dt=1e-3, **options)
    for name in model.body_names:
        sim.apply_wrench(name, force=20 * rng.normal(size=3), torque=rng.normal(size=3))
    sim.step(50)
    return sim


@pytest.mark.parametrize("hung", [True, False])
def test_equals_general_rows(rng, hung):
    """A ring of balls moves as general rows move it, under gravity and wrenches, to what rounding leaves."""
    model = ring(rng, hung=hung)
    seed = int(rng.integers(1000))
    a, b = (stirred(model, method, np.random.default_rng(seed)) for method in (FAST, GENERAL))
    assert a._stepper._balls is not None and b._stepper._balls is None
    a.step(100)
    b.step(100)
    assert np.abs(b.velocities).max() > 1.0
    np.testing.assert_allclose(a.positions, b.positions, atol=1e-9)
    np.testing.assert_allclose(a.velocities, b.velocities, atol=1e-7)
    assert a.joint_error().metres < 1e-13


def test_bodies_that_spin_fast_equal_general_rows(rng):
    """Bodies that turn by more than 0.2 rad in a step, beside slow ones of the same four, move all the same."""
    builder = lj.Builder(gravity=(0, 0, 0))
    for k in range(3):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
    for k in range(2):
        builder.add_joint_ball(f"j{k}", f"b{k}", f"b{k + 1}", position=(0, 0, 0.0 if k == 0 else 1.0))
    model = builder.build()
    qd = np.zeros(model.nv)
    qd[:3] = 20.0, 280.0, -60.0
    qd[6:9] = -qd[:3]
    ends = []
    for method in (FAST, GENERAL):
        sim = lj.Simulation(model, method, dt=1e-3, qd=qd)
        sim.step(30)
        ends.append((sim.positions, sim.rotations, sim.joint_error().metres))
    np.testing.assert_allclose(ends[0][0], ends[1][0], atol=1e-10)
    np.testing.assert_allclose(np.abs((ends[0][1] * ends[1][1]).sum(axis=1)), 1.0, atol=1e-10)
    assert ends[0][2] < 1e-12


def test_impulses_between_calls_count(rng):
    """An impulse changes the momenta that were kept between calls: it moves the bodies as it moves general rows."""
    model = ring(rng)
    seed, push = int(rng.integers(1000)), rng.normal(size=3)
    ends = []
    for method in (FAST, GENERAL):
        sim = stirred(model, method, np.random.default_rng(seed))
        sim.apply_impulse("b2", impulse=push)
        sim.step(20)
        ends.append(sim.positions)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-9)


def test_momentum_and_energy_last(rng):
    """A floating ring keeps its momentum to 1e-12 and its energy within a narrow band over 5000 steps."""
    sim = stirred(ring(rng, gravity=(0, 0, 0), hung=False), FAST, rng)
    sim.clear_wrenches()
    energy, momentum = sim.energy().total, np.concatenate(sim.momentum())
    errors = []
    for _ in range(25):
        sim.step(200)
        errors.append(abs(sim.energy().total / energy - 1.0))
    np.testing.assert_allclose(np.concatenate(sim.momentum()), momentum, atol=1e-12 * np.abs(momentum).max())
    assert max(errors) < 2e-3


def test_calls_snapshots_and_files_are_exact(rng, tmp_path):
    """Steps in one call or many, after a snapshot or from a file, give the same bits."""
    sim = stirred(ring(rng), FAST, rng)
    sim.save(tmp_path / "ring.npz")
    kept = sim.snapshot()
    sim.step(40)
    once = sim.state_hash()
    sim.restore(kept)
    for _ in range(8):
        sim.step(5)
    assert sim.state_hash() == once
    again = lj.resume(tmp_path / "ring.npz")
    again.step(40)
    assert again.state_hash() == once


def test_redundant_balls_hold(rng):
    """Two bodies joined by two balls at one place, of which one is redundant, move as joined by one."""
    ends = []
    for doubled in (False, True):
        generator = np.random.default_rng(7)
        builder = lj.Builder()
        for k in range(3):
            Cloud(generator, "rigid").add(builder, generator, f"b{k}")
        builder.add_joint_ball("hook", "world", "b0")
        builder.add_joint_ball("j1", "b0", "b1", position=(0.5, 0, 0), position_in_child=(-0.5, 0.1, 0))
        builder.add_joint_ball("j2", "b1", "b2", position=(0.5, 0, 0), position_in_child=(-0.5, 0.1, 0))
        if doubled:
            builder.add_joint_ball("more", "b0", "b1", position=(0.5, 0, 0), position_in_child=(-0.5, 0.1, 0))
        sim = lj.Simulation(builder.build(), FAST, dt=1e-3)
        sim.step(200)
        ends.append(sim.positions.copy())
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-9)


def test_a_failed_step_leaves_the_state(rng):
    """A step whose velocities are not finite raises, and the state before it is kept."""
    sim = stirred(ring(rng), FAST, rng)
    sim.apply_wrench("b0", force=(1e200, 0, 0))
    before = (sim.time, sim.positions.copy(), sim.velocities.copy())
    with pytest.raises(lj.LimberjackError):
        sim.step(1)
    assert sim.time == before[0]
    assert np.array_equal(sim.positions, before[1]) and np.array_equal(sim.velocities, before[2])


def test_a_step_far_too_long_is_taken_in_pieces(rng):
    """A ring that turns by many radians in a step of a second goes on, closed, without gain of energy."""
    sim = stirred(ring(rng), FAST, rng)
    sim.clear_wrenches()
    sim.dt, start = 1.0, sim.energy().total
    sim.step(3)
    assert sim.stats["pieces"] > 1 or sim.stats["by_velocities"]
    assert sim.joint_error().metres < 1e-8
    assert sim.energy().total < start + 0.02 * sim.energy().kinetic


def test_forces_along_joints_take_general_rows(rng):
    """Damped joints are moved by general rows, and lose energy."""
    builder = lj.Builder(gravity=(0, 0, 0))
    Cloud(rng, "rigid").add(builder, rng, "a")
    builder.add_joint_ball("hook", "world", "a", position=(0, 0, 1), damping=0.5)
    sim = lj.Simulation(builder.build(), FAST, dt=1e-3, qd=[1.0, 2.0, 3.0])
    before = sim.energy().kinetic
    sim.step(200)
    assert sim.energy().kinetic < 0.9 * before
