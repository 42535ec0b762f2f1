"""Rolling resistance at contacts, and friction in joints of figures that touch something."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.impulses.test_impulses_laws import ball

import limberjack as lj

G = 9.81


def figure(turn):
    """Return a figure of ten capsules on ball joints without limits, damping or friction, turned, above the ground."""
    builder = lj.Builder("figure")
    builder.add_shape_plane("world", friction=0.6)

    def limb(name, mass, length, radius, **options):
        across, along = mass * length**2 / 12.0 + mass * radius**2 / 4.0, mass * radius**2 / 2.0
        builder.add_body(name, mass=mass, inertia=(across, across, along), **options)
        builder.add_shape_capsule(name, radius, length, friction=0.6)

    def join(name, parent, child, at, at_child):
        builder.add_joint_ball(name, parent, child, position=at, position_in_child=at_child)

    limb("torso", 30.0, 0.4, 0.12, position=(0.0, 0.0, 1.3), rotation=turn)
    limb("head", 5.0, 0.05, 0.1)
    join("neck", "torso", "head", (0.0, 0.0, 0.32), (0.0, 0.0, -0.14))
    for side, y in (("left", 0.2), ("right", -0.2)):
        for name, mass, length, radius in (
            ("upper_arm", 2.2, 0.25, 0.045), ("forearm", 1.5, 0.25, 0.04), ("thigh", 8.0, 0.35, 0.07),
            ("shin", 4.0, 0.35, 0.05),
        ):  # fmt: skip
            limb(f"{side}_{name}", mass, length, radius)
        join(f"{side}_shoulder", "torso", f"{side}_upper_arm", (0.0, y, 0.22), (0.0, 0.0, 0.19))
        join(f"{side}_elbow", f"{side}_upper_arm", f"{side}_forearm", (0.0, 0.0, -0.17), (0.0, 0.0, 0.17))
        join(f"{side}_hip", "torso", f"{side}_thigh", (0.0, 0.5 * y, -0.33), (0.0, 0.0, 0.26))
        join(f"{side}_knee", f"{side}_thigh", f"{side}_shin", (0.0, 0.0, -0.24), (0.0, 0.0, 0.24))
    return builder.build()


@pytest.mark.parametrize("part", [0.0, 0.005, 0.02])
def test_a_rolling_ball_slows_down_as_its_coefficient_says(part):
    """A ball that rolls slows down by 5/7 of coefficient times g: the torque is coefficient, weight and radius."""
    sim = lj.Simulation(ball(0.6), lj.Impulses(resistance=part), dt=1.0 / 240.0, qd=[1.0, 0.0, 0.0, 0.0, 10.0, 0.0])
    sim.step(480)
    assert sim.qd[0] == pytest.approx(1.0 - 5.0 / 7.0 * part * G * 2.0, rel=2e-3)


def test_a_rolling_ball_stops_and_sleeps():
    """A ball let roll at 0.2 m/s comes to rest, where it would roll for ever without resistance."""
    sim = lj.Simulation(ball(0.6), lj.Impulses(resistance=0.02), dt=1.0 / 240.0, qd=[0.2, 0.0, 0.0, 0.0, 2.0, 0.0])
    sim.step(960)
    assert np.abs(sim.qd).max() == 0.0 and sim.positions[0, 0] == pytest.approx(
        0.5 * 0.04 / (5.0 / 7.0 * 0.02 * G), rel=0.03
    )


@pytest.mark.parametrize("joints", ["global", "damped"])
def test_what_touches_nothing_has_no_resistance(joints):
    """A chain on ball joints that touches nothing moves with and without resistance alike, to the bit."""
    hashes = []
    for part in (0.0, 0.05):
        sim = lj.Simulation(lj.scenes.pendulum(links=6), lj.Impulses(resistance=part, joints=joints), dt=1.0 / 240.0)
        sim.step(240)
        hashes.append(sim.state_hash())
    assert hashes[0] == hashes[1]


def test_resistance_only_takes_energy():
    """Joints that resist take energy from a figure on the ground, and its joints stay closed."""
    sims = [lj.Simulation(figure((1, 0, 0, 0)), lj.Impulses(resistance=part), dt=1.0 / 240.0) for part in (0.0, 0.1)]
    for sim in sims:
        sim.step(720)
        assert sim.joint_error().metres < 1e-7
    assert sims[1].energy().total < sims[0].energy().total


@pytest.mark.slow
@pytest.mark.parametrize("dt", [1.0 / 240.0, 1.0 / 60.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_figure_on_frictionless_balls_comes_to_rest(seed, dt):
    """A figure on ball joints without friction of their own lies still half a minute after it fell."""
    turn = np.random.default_rng(seed).normal(size=4)
    sim = lj.Simulation(figure(turn / np.linalg.norm(turn)), "impulses", dt=dt)
    sim.step(round(40.0 / dt))
    assert np.abs(sim.velocities).max() < 1e-2


@pytest.mark.parametrize("value", [-0.1, 2.0, True, "much"])
def test_a_resistance_that_is_no_part_is_refused(value):
    """The coefficient is a number from 0 to 1."""
    with pytest.raises(lj.LimberjackError, match="resistance must be a number from 0 to 1"):
        lj.Impulses(resistance=value)
