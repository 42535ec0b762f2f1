"""Frames of bodies that change their size: where joints hold them, and where they are after stretching."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.spatial.frames import matrix_from_quaternion


def stretched(kind):
    """Return a body that hangs from the world by a ball, gives way and carries another."""
    builder = lj.Builder("stretched")
    options = {"mass": 1.0, "com": (0, 0, -0.5), "inertia": (0.1, 0.1, 0.02)}
    if kind == "affine":
        builder.add_body_affine("upper", stiffness=5.0, **options)
    else:
        builder.add_body_scalable("upper", per_axis=kind == "axes", scale_stiffness=5.0, **options)
    builder.add_body("lower", mass=0.5, com=(0, 0, -0.2), inertia=(0.01, 0.01, 0.01))
    builder.add_joint_ball("hook", "world", "upper")
    builder.add_joint_ball("knee", "upper", "lower", position=(0, 0, -1.0))
    return builder.build()


@pytest.mark.parametrize("kind", ["one", "axes", "affine"])
def test_frames_stand_where_joints_hold_them(kind):
    """The hook holds the origin of the upper body, the knee that of the lower one, at its stretched end."""
    sim = lj.Simulation(stretched(kind), lj.Multipliers(integrator="rk4"), dt=1e-3)
    sim.apply_wrench("lower", force=(2.0, 1.0, 0.0))
    np.testing.assert_allclose(sim.positions, [[0, 0, 0], [0, 0, -1.0]], atol=1e-12)
    h = 1e-3
    sim.step(200)
    assert sim.positions[0] == pytest.approx([0, 0, 0], abs=1e-9)
    assert np.linalg.norm(sim.positions[1]) > 1.02
    for q in sim.rotations:
        assert np.linalg.norm(q) == pytest.approx(1.0, abs=1e-12)
    # velocities of the coms are those that places of the rigid one show by differences
    com = [sim.positions[1] + matrix_from_quaternion(sim.rotations[1]) @ (0, 0, -0.2)]
    before = sim.velocities[1, 3:]
    sim.step()
    com.append(sim.positions[1] + matrix_from_quaternion(sim.rotations[1]) @ (0, 0, -0.2))
    np.testing.assert_allclose((com[1] - com[0]) / h, 0.5 * (before + sim.velocities[1, 3:]), atol=1e-4)
