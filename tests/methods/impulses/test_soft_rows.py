"""Springs, dampers, motors, soft limits and grips as rows of the joints' solve."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj

STEPS = (1e-3, 1.0 / 240.0, 1.0 / 60.0)


def arm(gravity=9.81, **drive):
    """Return a rod on a hinge, 0.1 kg m^2 about it, level at the start."""
    builder = lj.Builder("arm", gravity=(0.0, 0.0, -gravity))
    builder.add_body("rod", mass=1.0, com=(0.3, 0.0, 0.0), inertia=(0.01,) * 3)
    builder.add_joint_hinge("hinge", "world", "rod", axis=(0.0, 1.0, 0.0), **drive)
    return builder.build()


def running(model, dt, seconds):
    sim = lj.Simulation(model, "impulses", dt=dt)
    sim.step(round(seconds / dt))
    return sim


@pytest.mark.parametrize("dt", STEPS)
@pytest.mark.parametrize("damping", [10.0, 100.0, 1e4])
def test_strong_dampers_are_stable(dt, damping):
    """An arm on a strong damper sinks at the speed at which the damper carries its weight."""
    sim = running(arm(damping=damping), dt, 1.0)
    assert sim.qd[0] == pytest.approx(9.81 * 0.3 * math.cos(sim.q[0]) / damping, rel=0.02)


@pytest.mark.parametrize("dt", STEPS)
def test_weak_dampers_are_of_second_order(dt):
    """A damper that takes several steps slows the arm as the exponential does."""
    sim = lj.Simulation(arm(gravity=0.0, damping=0.5), "impulses", dt=dt)
    sim.qd = [3.0]
    sim.step(round(0.2 / dt))
    assert sim.qd[0] == pytest.approx(3.0 * math.exp(-5.0 * sim.time), rel=1e-4)


@pytest.mark.parametrize("dt", STEPS)
@pytest.mark.parametrize("stiffness", [1e2, 1e3, 1e4, 1e5, 1e6])
def test_springs_of_any_stiffness_gain_nothing(dt, stiffness):
    """A spring keeps the energy it gets, or loses it where a step is longer than its period; it never gains."""
    sim = lj.Simulation(arm(stiffness=stiffness), "impulses", dt=dt)
    sim.qd = [3.0]
    energies = []
    for _ in range(100):
        sim.step(round(0.1 / dt))
        energies.append(sim.energy().total)
    # energies are of velocities half a step from the poses
    assert max(energies) < 0.45 * 1.7
    if stiffness <= 1e3:
        assert np.mean(energies) == pytest.approx(0.45, rel=0.06)
    else:
        assert abs(sim.q[0]) < 3.1 / math.sqrt(stiffness / 0.1) + 3.0 / stiffness


@pytest.mark.parametrize("dt", STEPS)
@pytest.mark.parametrize("most", [1.0, 5.0, math.inf])
def test_stiff_motors_keep_to_their_largest_force(dt, most):
    """A stiff motor reaches its target, or acts with its largest torque, as fine explicit steps do."""
    kp, kd = 1e4, 200.0
    sim = running(arm(motor=lj.Motor(kp=kp, kd=kd, target=0.5, max=most)), dt, 1.0)
    angle = rate = 0.0
    for _ in range(100_000):
        torque = min(max(kp * (0.5 - angle) - kd * rate, -most), most)
        rate += 1e-5 * (9.81 * 0.3 * math.cos(angle) + torque) / 0.1
        angle += 1e-5 * rate
    assert sim.q[0] == pytest.approx(angle, abs=0.02) and sim.qd[0] == pytest.approx(rate, abs=0.1)


@pytest.mark.parametrize("dt", STEPS)
def test_soft_limits_push_only(dt):
    """An arm that falls onto a stiff soft limit comes to rest where the limit carries it, and never sticks to it."""
    model = arm(limits=(-1.0, 0.4), limit_stiffness=1e4, limit_damping=10.0)
    sim = running(model, dt, 3.0)
    assert sim.q[0] == pytest.approx(0.4 + 9.81 * 0.3 * math.cos(0.4) / 1e4, abs=1e-5)
    sim.qd = [-3.0]
    sim.step(round(0.1 / dt))
    assert sim.q[0] < 0.25


def test_ball_drives_are_those_of_reduced_coordinates():
    """A ball joint with spring, damper and motor moves as in `full` with small steps."""
    builder = lj.Builder("ball")
    builder.add_body("rod", mass=1.0, com=(0.3, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
    builder.add_joint_ball("ball", "world", "rod", stiffness=3.0, damping=0.2, motor=lj.Motor(kp=5.0, kd=0.3, max=2.0))
    sims = [lj.Simulation(builder.build(), method, dt=2e-4) for method in ("impulses", "full")]
    for sim in sims:
        sim.qd = [1.0, -2.0, 0.5]
        sim.step(2500)
    assert np.abs(sims[0].positions - sims[1].positions).max() < 1e-3
    assert np.abs(sims[0].rotations[0] - sims[1].rotations[0]).max() < 2e-3


@pytest.mark.parametrize("stiffness", [1e2, 1e4, 1e6, 1e8])
def test_springs_between_bodies_are_implicit(stiffness):
    """Two bodies on a spring of any stiffness keep their momentum and gain no energy at 1/60 s."""
    builder = lj.Builder("pair", gravity=(0.0, 0.0, 0.0))
    builder.add_body("a", mass=1.0, inertia=(0.1,) * 3)
    builder.add_body("b", mass=2.0, inertia=(0.1,) * 3, position=(1.0, 0.0, 0.0))
    builder.add_spring("a", "b", stiffness=stiffness, rest=0.99)
    sim = lj.Simulation(builder.build(), "impulses", dt=1.0 / 60.0)
    start = sim.energy().total
    for _ in range(20):
        sim.step(30)
        assert sim.energy().total < 1.3 * start
    assert np.abs(sim.momentum().linear).max() < 1e-9 * max(1.0, math.sqrt(start))


def weight_on_hand(ratio):
    """Return a light link with a load of `ratio` times its mass below it."""
    builder = lj.Builder("hand")
    builder.add_body("link", mass=75.0 / (1.0 + ratio), inertia=(0.01 / ratio,) * 3, position=(0.0, 0.0, 1.0))
    builder.add_body("load", mass=75.0 * ratio / (1.0 + ratio), inertia=(1.0,) * 3)
    builder.add_joint_ball("wrist", "link", "load", position=(0.0, 0.0, -0.2), position_in_child=(0.0, 0.0, 0.2))
    return builder.build()


@pytest.mark.parametrize("dt", STEPS)
@pytest.mark.parametrize("ratio", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("joints", ["global", "damped"])
def test_grips_carry_the_whole_figure(joints, ratio, dt):
    """A held hand sags by g / 30^2 whatever hangs on it, and its force is the weight of the figure."""
    sim = lj.Simulation(weight_on_hand(ratio), lj.Impulses(joints=joints), dt=dt)
    grip = sim.grab("link")
    start = grip.point.copy()
    sim.step(round(2.0 / dt))
    assert np.linalg.norm(grip.point - start) == pytest.approx(9.81 / 900.0, abs=2e-4)
    assert grip.force == pytest.approx([0.0, 0.0, 75.0 * 9.81], rel=1e-3, abs=1.0)
    assert sim.joint_error().metres < 1e-7
    grip.release()
    sim.step(10)
    assert sim.velocities[1, 5] < -0.9 * 9.81 * 10 * dt


def test_grips_keep_to_their_largest_force():
    """A grip that is too weak for the figure slows its fall by just its largest force."""
    sim = lj.Simulation(weight_on_hand(100.0), "impulses", dt=1.0 / 240.0)
    grip = sim.grab("link", strength=300.0)
    grip.move(grip.point + (0.0, 0.0, 3.0))
    sim.step(120)
    assert sim.momentum().linear[2] == pytest.approx(0.5 * (300.0 - 75.0 * 9.81), rel=1e-3)
    assert grip.force[2] == pytest.approx(300.0, rel=1e-6)


def test_grips_are_the_same_in_all_methods():
    """The hand of a figure follows a target alike in `full`, `multipliers` and `impulses`."""
    paths = []
    for method in ("full", "multipliers", "impulses"):
        sim = lj.Simulation(weight_on_hand(10.0), method, dt=1e-3)
        grip, path = sim.grab("link"), []
        start = grip.point.copy()
        for k in range(20):
            grip.move(start + (0.02 * k, 0.0, 0.01 * k))
            sim.step(50)
            path.append(grip.point)
        paths.append(path)
    assert np.abs(np.array(paths[2]) - paths[0]).max() < 3e-3
    assert np.abs(np.array(paths[1]) - paths[0]).max() < 3e-3


def test_snapshots_with_grips_are_exact():
    """A run with a grip on a figure goes on from a snapshot with the same bits."""
    sim = lj.Simulation(weight_on_hand(10.0), "impulses", dt=1.0 / 240.0)
    grip = sim.grab("link")
    grip.move(grip.point + (0.1, 0.0, 0.2))
    sim.step(20)
    kept = sim.snapshot()
    sim.step(20)
    end = sim.state_hash()
    sim.restore(kept)
    sim.step(20)
    assert sim.state_hash() == end
