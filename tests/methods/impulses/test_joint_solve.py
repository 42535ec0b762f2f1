"""Joints in the method impulses: against other methods, in contact, with limits, friction and loops."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

G = 9.81
DT = 1.0 / 240.0


def chain(links=4, *, friction=0.0, shapes=False, **hinge):
    """Return a chain of rods on hinges about y, hung from the world."""
    builder = lj.Builder("chain")
    above = "world"
    for k in range(links):
        name = f"rod{k}"
        builder.add_body(name, mass=1.0, com=(0.25, 0.0, 0.0), inertia=(0.001, 0.021, 0.021))
        position = (0.0, 0.0, 2.0) if k == 0 else (0.5, 0.0, 0.0)
        builder.add_joint_hinge(f"h{k}", above, name, axis=(0, 1, 0), position=position, friction=friction, **hinge)
        if shapes:
            builder.add_shape_capsule(name, 0.05, 0.4, position=(0.25, 0, 0), rotation=(0.5**0.5, 0, 0.5**0.5, 0))
        above = name
    return builder


def test_a_chain_moves_as_in_full():
    """A swinging chain follows the reduced coordinates of `full`, its joints closed, and nearer with a smaller step."""
    model, errors = chain().build(), []
    exact = lj.Simulation(model, lj.Full(integrator="rk4"), dt=1e-3)
    exact.step(500)
    for dt in (2e-3, 1e-3):
        sim = lj.Simulation(model, lj.Impulses(), dt=dt)
        sim.step(round(0.5 / dt))
        errors.append(np.abs(sim.q - exact.q).max())
        assert max(sim.joint_error()) < 1e-7
    assert errors[0] < 0.02 and errors[1] < 0.6 * errors[0]


def test_loops_move_as_in_multipliers():
    """A closed chain of five rods moves as the method multipliers moves it."""
    builder = chain(5)
    builder.add_joint_ball("close", "world", "rod4", position=(1.5, 0.0, 2.0), position_in_child=(0.5, 0.0, 0.0))
    model = builder.build()
    # an arch from one end to the other: cos a + cos b = 1
    a, b = 1.2, np.arccos(1.0 - np.cos(1.2))
    start = [a, b - a, -b, -b, b - a]
    sims = [lj.Simulation(model, method, dt=5e-4, q=start) for method in ("impulses", "multipliers")]
    for sim in sims:
        sim.step(400)
    assert np.abs(sims[0].q - sims[1].q).max() < 5e-3
    assert max(sims[0].joint_error()) < 1e-7


def test_floating_joints_keep_momentum():
    """Jointed bodies in free flight keep linear and angular momentum."""
    builder = lj.Builder("floating", gravity=(0, 0, 0))
    for k in range(4):
        builder.add_body(f"b{k}", mass=1.0 + k, com=(0.1, 0.0, 0.2), inertia=(0.05, 0.06, 0.04))
        if k:
            builder.add_joint_ball(f"j{k}", f"b{k - 1}", f"b{k}", position=(0.5, 0.0, 0.0))
    sim = lj.Simulation(builder.build(), "impulses", dt=1e-3)
    sim.qd = np.random.default_rng(1).normal(size=sim.model.nv)
    before = sim.momentum()
    sim.step(300)
    after = sim.momentum()
    # positions are read off the tree: joints open by their tolerance
    assert np.abs(after.linear - before.linear).max() < 1e-5
    assert np.abs(after.angular - before.angular).max() < 1e-5


def test_dry_friction_stops_a_wheel():
    """A wheel turning at w with friction M in its hinge stops after I w^2 / 2 M, and stays."""
    builder = lj.Builder("wheel", gravity=(0, 0, 0))
    builder.add_body("wheel", mass=1.0, inertia=(0.1, 0.1, 0.2))
    builder.add_joint_hinge("axle", "world", "wheel", friction=0.5)
    sim = lj.Simulation(builder.build(), "impulses", dt=1e-3, qd=[5.0])
    sim.step(3000)
    assert sim.q[0] == pytest.approx(0.2 * 25.0 / (2 * 0.5), rel=2e-3)
    assert abs(sim.qd[0]) < 1e-9


def test_dry_friction_holds_a_pendulum():
    """A pendulum whose weight is less than the friction of its hinge does not move."""
    sim = lj.Simulation(chain(1, friction=3.0).build(), "impulses", dt=1e-3)
    sim.step(500)
    assert abs(sim.q[0]) < 1e-9


def test_limits_hold():
    """Hinges with hard limits swing no farther than these."""
    sim = lj.Simulation(chain(3, limits=(-0.4, 0.4)).build(), "impulses", dt=1e-3)
    for _ in range(60):
        sim.step(20)
        assert np.abs(sim.q).max() < 0.4 + 1e-6
    assert np.abs(sim.q).max() > 0.3


@pytest.mark.parametrize("joints", ["global", "sweeps"])
def test_a_jointed_pair_comes_to_rest(joints):
    """Two boxes joined by a ball fall on the ground and lie there, the joint closed."""
    builder = lj.Builder("pair")
    builder.add_shape_plane("world")
    for k in range(2):
        builder.add_body(f"b{k}", mass=4.0, inertia=(0.0267,) * 3, position=(0.0, 0.0, 0.3) if k == 0 else None)
        builder.add_shape_box(f"b{k}", (0.2, 0.2, 0.2))
    builder.add_joint_ball("joint", "b0", "b1", position=(0.15, 0, 0), position_in_child=(-0.15, 0, 0))
    sim = lj.Simulation(builder.build(), lj.Impulses(joints=joints, sleeping=False), dt=DT)
    sim.step(360)
    assert np.abs(sim.positions[:, 2] - 0.1).max() < 2e-3
    assert sim.joint_error().metres < (1e-7 if joints == "global" else 1e-4)
    assert np.abs(sim.qd).max() < 1e-2


def test_the_last_ball_of_the_cradle_leaves():
    """In Newton's cradle the ball at the far end takes over the swing of the first."""
    sim = lj.Simulation(lj.scenes.newtons_cradle(), lj.Impulses(sleeping=False), dt=1e-3)
    energy, highest = sim.energy().total, 0.0
    for _ in range(100):
        sim.step(10)
        highest = max(highest, -float(sim.q[-1]))
        # until the first ball is hit again
        if highest > 0.3 and sim.qd[-1] > 0:
            break
    assert highest == pytest.approx(0.6, abs=0.02)
    assert np.abs(sim.q[1:-1]).max() < 0.05
    assert sim.energy().total == pytest.approx(energy, rel=1e-2)


@pytest.mark.slow
def test_a_net_hangs_together():
    """A small net of ball joints and loops falls and stays closed."""
    sim = lj.Simulation(lj.scenes.net(cells=3), lj.Impulses(sleeping=False), dt=DT)
    sim.step(60)
    assert sim.joint_error().metres < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("joints,least,most", [("global", -0.05, 0.05), ("damped", -0.9, -0.3)])
def test_the_net_snaps_taut(joints, least, most):
    """The paper's net falls, snaps taut and rebounds with joints closed; energy stays, or is lost if asked for."""
    sim = lj.Simulation(lj.scenes.net(), lj.Impulses(sleeping=False, joints=joints, tolerance=5e-5), dt=1 / 60)
    released, worst = 0.0, 0.0
    for _ in range(60):
        sim.step()
        released = max(released, -sim.energy().potential)
        worst = max(worst, sim.joint_error().metres)
    assert worst <= 1e-4 and 200.0 < released < 260.0
    assert least * released < sim.energy().total < most * released


def test_a_light_rotor_spins_fast():
    """A light body that tumbles by more than a radian per substep gains little energy, and its joint stays closed."""
    builder = lj.Builder("rotor", gravity=(0, 0, 0))
    builder.add_body("arm", mass=1.0, inertia=(0.01, 0.01, 0.01))
    builder.add_joint_hinge("shoulder", "world", "arm", axis=(0, 1, 0), position_in_child=(-0.5, 0, 0))
    builder.add_body("rotor", mass=1e-3, inertia=(1e-7, 2e-7, 1e-7))
    builder.add_joint_ball("ball", "arm", "rotor", position=(0.5, 0, 0), position_in_child=(0.01, 0, 0))
    model = builder.build()
    sim = lj.Simulation(model, "impulses", dt=1 / 60)
    sim.qd = (0.0, 0.0, 0.0, 600.0)
    before = sim.energy().kinetic
    sim.step(10)
    assert sim.joint_error().metres < 1e-6
    assert sim.energy().kinetic == pytest.approx(before, rel=0.15)
