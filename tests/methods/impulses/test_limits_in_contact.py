"""Limits and dry friction of joints that carry what rests on their bodies."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.impulses.test_impulses import G, box, running

import limberjack as lj


def arm(load, at, gap=0.0, **joint):
    """Return a level arm of 1 kg and 1 m, hinged to the world at one end, and a box on it."""
    builder = lj.Builder("arm")
    builder.add_body("arm", mass=1.0, inertia=(0.01, 0.09, 0.09))
    builder.add_shape_box("arm", (1.0, 0.3, 0.1), friction=0.6)
    builder.add_joint_hinge(
        "hinge", "world", "arm", axis=(0.0, 1.0, 0.0), position_in_child=(-0.5, 0.0, 0.0), **joint
    )  # fmt: skip
    box(builder, "box", (at, 0.0, 0.15 + gap), mass=load, friction=0.6)
    return builder.build()


def weighs(sim):
    return sum(c.force[2] if c.bodies[0] == "box" else -c.force[2] for c in sim.contacts())


@pytest.mark.parametrize("limit", [0.0, 0.2])
@pytest.mark.parametrize("load", [0.01, 0.1, 1.0, 10.0, 100.0])
def test_an_arm_at_its_limit_carries_a_box(load, limit):
    """The arm falls onto its limit with a box 0.01 to 100 times its mass, which comes to rest and weighs as it does."""
    sim = running(arm(load, 0.7, 0.01, limits=(-1.0, limit)))
    sim.step(480)
    before = sim.positions.copy()
    sim.step(240)
    assert sim.q[0] == pytest.approx(limit, abs=1e-8)
    assert np.abs(sim.positions - before).max() < 1e-6
    assert np.abs(sim.velocities).max() < 1e-5
    assert weighs(sim) == pytest.approx(load * G, rel=1e-3)


@pytest.mark.parametrize("load", [0.1, 2.0, 50.0])
def test_dry_friction_of_a_hinge_holds_what_rests_on_the_arm(load):
    """Friction of 1.1 and 3 times the torque of the weights holds the arm still, 0.9 times lets it sink."""
    torque = G * (0.5 + 0.9 * load)
    for share in (1.1, 3.0):
        sim = running(arm(load, 0.9, friction=share * torque))
        sim.step(480)
        assert abs(sim.q[0]) < 1e-6
        assert weighs(sim) == pytest.approx(load * G, rel=1e-3)
    sim = running(arm(load, 0.9, friction=0.9 * torque))
    sim.step(60)
    inertia = 0.09 + 0.25 + load * 0.81
    sunk = 0.5 * 0.1 * torque / inertia * 0.25**2
    assert sim.q[0] == pytest.approx(sunk, rel=0.05)


def test_limits_of_a_finger_share_a_load():
    """Three links, each bent onto its limit by a ball on the last one, hold it as a rigid bracket does."""
    builder, mass = lj.Builder("finger"), 5.0
    for k in range(3):
        builder.add_body(f"link{k}", mass=0.1, com=(0.15, 0.0, 0.0), inertia=(1e-4, 1e-3, 1e-3))
        builder.add_shape_box(f"link{k}", (0.28, 0.1, 0.04), position=(0.15, 0.0, 0.0), friction=0.8)
        above, place = ("world", (0.0, 0.0, 0.0)) if k == 0 else (f"link{k - 1}", (0.3, 0.0, 0.0))
        builder.add_joint_hinge(
            f"hinge{k}", above, f"link{k}", axis=(0.0, 1.0, 0.0), position=place, limits=(-1.0, 0.0)
        )  # fmt: skip
    builder.add_body("box", mass=mass, inertia=(0.4 * mass * 0.0025,) * 3, position=(0.75, 0.0, 0.075))
    builder.add_shape_box("box", (0.1, 0.1, 0.1), friction=0.8)
    sim = running(builder.build())
    sim.step(480)
    assert np.abs(sim.q[:3]).max() < 1e-8
    assert np.abs(sim.velocities).max() < 1e-5
    assert weighs(sim) == pytest.approx(mass * G, rel=1e-3)


def test_a_figure_with_limits_and_dry_joints_lies_down_to_rest():
    """A torso and two limbs with limits and dry friction fall, lie still and weigh on the ground; energy only falls."""
    builder, options = lj.Builder("figure"), {"friction": 0.6}
    builder.add_shape_plane("world", **options)
    leaning = (0.9747, 0.1, 0.2, 0.0)
    builder.add_body("torso", mass=30.0, inertia=(0.9, 0.7, 0.4), position=(0.0, 0.0, 1.3), rotation=leaning)
    builder.add_shape_box("torso", (0.2, 0.35, 0.5), **options)
    for name, y in (("left", 0.2), ("right", -0.2)):
        for part, mass in (("upper", 7.0), ("lower", 4.0)):
            builder.add_body(part + name, mass=mass, inertia=(mass * 0.017, mass * 0.017, mass * 0.0012))
            builder.add_shape_capsule(part + name, radius=0.05, length=0.35, **options)
        rubbing = {"position_in_child": (0.0, 0.0, 0.225), "friction": 2.0}
        builder.add_joint_ball(
            "hip" + name, "torso", "upper" + name, position=(0.0, y, -0.27), limits=(0.0, 1.2), **rubbing
        )  # fmt: skip
        builder.add_joint_hinge(
            "knee" + name, "upper" + name, "lower" + name, axis=(0.0, 1.0, 0.0), position=(0.0, 0.0, -0.225),
            limits=(0.0, 2.3), **rubbing,
        )  # fmt: skip
    sim, energy = running(builder.build(), resistance=0.0), []
    for _ in range(100):
        sim.step(12)
        energy.append(sim.energy().total)
    weight = sum(c.force[2] if c.bodies[1] == "world" else -c.force[2] for c in sim.contacts() if "world" in c.bodies)
    assert np.diff(energy).max() < 1e-3
    assert np.abs(sim.velocities).max() < 1e-5
    assert weight == pytest.approx(52.0 * G, rel=1e-3)
