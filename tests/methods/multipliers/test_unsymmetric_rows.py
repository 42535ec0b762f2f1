"""Constraints whose forces act along other directions than their rows: closed forms, the dense system, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj
from limberjack.errors import Diverged, ModelError, StateError, UnsupportedByMethod
from limberjack.model.registered import CONSTRAINT_KINDS

MU = 0.3


def height(position, rotation, time, data):
    return position[2]


def rubbed(position, rotation, velocity, turning, time, data):
    speed = math.hypot(velocity[0], velocity[1])
    drag = data[0] / speed if speed > 0.0 else 0.0
    return 0.0, 0.0, 0.0, -drag * velocity[0], -drag * velocity[1], 1.0


def aside(position, rotation, velocity, turning, time, data):
    return (0.0, data[1], 0.0, data[0], 0.0, 1.0)


@pytest.fixture(autouse=True)
def kinds():
    """Register the kinds once."""
    for name, forces in (
        ("rubbed", rubbed),
        ("aside", aside),
        ("wrong", lambda *_: (1.0, 2.0)),
        ("vain", lambda *_: (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)),
    ):
        if name not in CONSTRAINT_KINDS:
            lj.register_constraint(name, height, forces=forces)


def block(kind="rubbed", angle=0.5, particle=True):
    """Return a block on a plane that falls off along x by an angle."""
    builder = lj.Builder("block")
    if particle:
        builder.add_particle("block", mass=2.0)
    else:
        builder.add_body("block", mass=2.0, inertia=(0.1, 0.2, 0.3))
    turned = (math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0)
    builder.add_constraint(kind, "plane", "world", "block", data=(MU, 0.0), rotation=turned)
    return builder.build()


@pytest.mark.parametrize("particle", [True, False])
def test_a_block_slides_down_with_friction(particle):
    """On a slope the speed grows by g (sin - mu cos) t, whatever the mass; the block stays on the plane."""
    angle, speed, seconds = 0.5, 0.2, 0.5
    down = np.array((math.cos(angle), 0.0, -math.sin(angle)))
    qd = speed * down if particle else np.concatenate([speed * down, np.zeros(3)])
    sim = lj.Simulation(block(angle=angle, particle=particle), "multipliers", dt=1e-3, qd=qd)
    sim.step(round(seconds / 1e-3))
    a = 9.81 * (math.sin(angle) - MU * math.cos(angle))
    np.testing.assert_allclose(sim.qd[:3], (speed + a * seconds) * down, atol=1e-10)
    n = round(seconds / 1e-3)
    way = speed * seconds + a * 1e-6 * n * (n + 1) / 2
    np.testing.assert_allclose(sim.positions[0], way * down, atol=1e-10)


def test_what_presses_rubs():
    """A load on the block adds to its friction: it is slowed down by mu (g + load / mass)."""
    sim = lj.Simulation(block(angle=0.0), "multipliers", dt=1e-3, qd=[3.0, 4.0, 0.0])
    sim.apply_wrench("block", force=(0.0, 0.0, -10.0))
    sim.step(200)
    speed = 5.0 - MU * (9.81 + 10.0 / 2.0) * 0.2
    np.testing.assert_allclose(sim.qd, (0.6 * speed, 0.8 * speed, 0.0), atol=1e-10)


def test_an_arm_on_a_floor_is_the_dense_system():
    """A double pendulum whose tip is held at a height, pushed aside, has the accelerations of the dense system."""
    builder = lj.Builder("arm")
    for name in ("upper", "lower"):
        builder.add_body(name, mass=1.5, com=(0.5, 0, 0), inertia=(0.01, 0.15, 0.15))
    start, axis = (0.4, 0.7), (0, 1, 0)
    builder.add_joint_hinge("shoulder", "world", "upper", axis=axis, start=start[0])
    builder.add_joint_hinge("elbow", "upper", "lower", position=(1, 0, 0), axis=axis, start=start[1])
    free = builder.build()
    tip = -math.sin(start[0]) - math.sin(sum(start))
    push = (0.8, 0.25)
    builder.add_constraint(
        "aside", "floor", "world", "lower", position=(0, 0, tip), position_in_child=(1, 0, 0), data=push
    )
    dt = 1e-7
    sim = lj.Simulation(builder.build(), "multipliers", dt=dt)
    sim.step(1)
    q = np.array(start)
    mass, bias = lj.mass_matrix(free, q), lj.inverse_dynamics(free, q, np.zeros(2), np.zeros(2))
    far, near = q.sum(), q[0]
    across = np.array((-math.sin(near) - math.sin(far), -math.sin(far)))
    up = np.array((-math.cos(near) - math.cos(far), -math.cos(far)))
    along = up + push[0] * across + push[1] * np.ones(2)
    whole = np.block([[mass, -along[:, None]], [up[None], np.zeros((1, 1))]])
    wanted = np.linalg.solve(whole, np.append(-bias, 0.0))[:2]
    np.testing.assert_allclose(sim.qd / dt, wanted, rtol=1e-5)
    assert abs(wanted[0]) > 1.0


def test_what_cannot_be_met_is_named():
    """Other methods, integrators, forces of a wrong shape or in vain, and one-sided kinds are refused by name."""
    for method in ("full", "adaptive", "displacements", "impulses"):
        with pytest.raises(UnsupportedByMethod, match='"plane".*: multipliers$'):
            lj.Simulation(block(), method)
    with pytest.raises(StateError, match="semi_implicit"):
        lj.Simulation(block(), lj.Multipliers(integrator="rk4"))
    with pytest.raises(StateError, match="sparse"):
        lj.Simulation(block(), lj.Multipliers(solver="sparse"))
    with pytest.raises(StateError, match="six finite numbers"):
        lj.Simulation(block("wrong"), "multipliers").step(1)
    builder = lj.Builder("limited")
    builder.add_body("arm", mass=1.5, com=(0.5, 0, 0), inertia=(0.01, 0.15, 0.15))
    builder.add_joint_universal("shoulder", "world", "arm", limits=((-1, 1), (-1, 1)))
    builder.add_constraint("aside", "floor", "world", "arm", data=(0.0, 0.0))
    with pytest.raises(UnsupportedByMethod, match='"shoulder" has limits'):
        lj.Simulation(builder.build(), "multipliers")
    with pytest.raises(Diverged, match="no forces of the constraints fit"):
        lj.Simulation(block("vain"), "multipliers").step(1)
    with pytest.raises(ModelError, match="one_sided"):
        lj.register_constraint("pushed", height, one_sided=True, forces=rubbed)
